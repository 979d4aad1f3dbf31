// Settings of the components of this machine: from manifests of static pods, from units of systemd, and, where neither
// has them, from the command lines of running processes. Impure: it reads files, and nothing else. Never fails because
// of a file.
import { basename, join } from 'node:path';
import { type ComponentName, componentNames } from '../../components.ts';
import { configurationFields } from '../file-flags.ts';
import { argumentsOf } from './component-arguments.ts';
import {
  type ComponentCommand,
  type ComponentSettings,
  firstOfBoth,
  hostPathOf,
  valuesIn,
  valuesOfVariables,
  withConfiguration,
} from './component-settings.ts';
import { commandLineOf } from './documents.ts';
import type { MachineFiles } from './machine-files.ts';
import type { SettingsHere } from './named-files.ts';
import { unitsThatStart } from './component-units.ts';
import { environmentFile } from './unit-files.ts';

export interface ComponentSources {
  readonly manifests: Readonly<Record<string, string | undefined>>;
  /** Paths of the manifests. */
  readonly manifestFiles: Readonly<Record<string, string | undefined>>;
  /** The kubelet's configuration, where nothing names another one. */
  readonly kubeletConfiguration: string;
  /** Reader for the units of this machine: most belong to no component, so failures are not reported. */
  readonly units: MachineFiles;
  /** Whether flags that `init adopt` has added count, too. Default: only those of the manifest's owner do. */
  readonly added?: 'counted' | undefined;
  /** Reader for processes, which may exit meantime; undefined where another control plane's may be visible. */
  readonly processes?: MachineFiles | undefined;
}

/** Reads settings by component. */
export async function readComponents(files: MachineFiles, sources: ComponentSources): Promise<SettingsHere> {
  const { started: units, hidden } = await unitsThatStart(sources.units);
  const lineOf = (component: ComponentName): ComponentCommand | undefined => {
    const { [component]: manifest = '' } = sources.manifests;
    const { [component]: source = '' } = sources.manifestFiles;
    return commandLineOf(manifest, { component, source, added: sources.added }) ?? units.get(component);
  };
  const lines = new Map(componentNames.map((component) => [component, lineOf(component)]));
  const isKnown = [...lines.values()].every((line) => line !== undefined);
  const running = sources.processes === undefined || isKnown ? undefined : await processesOf(sources.processes);
  const found = componentNames.map(async (component) => {
    const line = lines.get(component) ?? running?.get(component) ?? hidden.get(component);
    const usual = component === 'kubelet' ? sources.kubeletConfiguration : undefined;
    return [component, await settingsOf(component, line, { files, usual })] as const;
  });
  return Object.fromEntries(await Promise.all(found));
}

interface Reading {
  readonly files: MachineFiles;
  readonly usual: string | undefined;
}

async function settingsOf(
  component: ComponentName,
  line: ComponentCommand | undefined,
  { files, usual }: Reading,
): Promise<ComponentSettings | undefined> {
  const { words = [], variables = new Map<string, string>(), source = usual ?? '', ...rest } = line ?? {};
  const around = { mounts: [], ...rest };
  const started = argumentsOf(component, words, variables);
  const args = started ?? words;
  // Words without a program are arguments of the image's own.
  const isHidden = started === undefined && words[0]?.startsWith('-') === false;
  let values = firstOfBoth(valuesIn(args), valuesOfVariables(component, variables));
  for (const flag of Object.keys(configurationFields[component] ?? {})) {
    const file = hostPathOf(values.get(flag)?.at(-1), around) ?? (flag === 'config' ? usual : undefined);
    const text = file === undefined ? undefined : await files.text(file);
    if (file === undefined || text === undefined) continue;
    const documents = [
      text,
      ...(await configurationDropIns(hostPathOf(values.get(`${flag}-dir`)?.at(-1), around), files)),
    ];
    values = withConfiguration(component, values, { flag, file, documents });
  }
  return line === undefined && values.size === 0 ? undefined : { values, source, isHidden, ...around };
}

/** Returns texts of the kubelet's files named *.conf, each over the one before (--config-dir). */
async function configurationDropIns(directory: string | undefined, files: MachineFiles): Promise<readonly string[]> {
  if (directory === undefined) return [];
  const names = (await files.names(directory)).filter((name) => name.endsWith('.conf'));
  const texts = await Promise.all(names.map((name) => files.text(join(directory, name))));
  return texts.flatMap((text) => text ?? []);
}

/** Returns command lines by component, from processes of the system that see the same files as this process. */
async function processesOf(files: MachineFiles): Promise<ReadonlyMap<string, ComponentCommand>> {
  const found = new Map<string, ComponentCommand>();
  const here = await files.link('/proc/self/ns/mnt');
  for (const id of await files.directories('/proc')) {
    if (!/^\d+$/.test(id)) continue;
    const words = ((await files.text(`/proc/${id}/cmdline`)) ?? '').replace(/\0$/, '').split('\0');
    const component = componentNames.find((one) => basename(words[0] ?? '') === one);
    if (component === undefined || found.has(component)) continue;
    if ((await files.link(`/proc/${id}/ns/mnt`)) !== here || !(await isOfSystem(id, component, files))) continue;
    const pairs = ((await files.text(`/proc/${id}/environ`)) ?? '').split('\0');
    found.set(component, {
      words,
      variables: environmentFile(pairs.join('\n')),
      mounts: [],
      source: `/proc/${id}/cmdline`,
      workingDirectory: await files.link(`/proc/${id}/cwd`),
    });
  }
  return found;
}

/** Whether it is a process of root alone, or of a service of systemd: any user may use this name and these flags. */
async function isOfSystem(id: string, component: string, files: MachineFiles): Promise<boolean> {
  if (basename((await files.link(`/proc/${id}/exe`)) ?? '') !== component) return false;
  const status = (await files.text(`/proc/${id}/status`)) ?? '';
  const cgroup = (await files.text(`/proc/${id}/cgroup`)) ?? '';
  return /^Uid:(\s+0){4}$/m.test(status) || /:\/system\.slice\//.test(cgroup);
}
