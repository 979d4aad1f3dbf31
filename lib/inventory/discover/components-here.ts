// What the components of this machine are told: by manifests of static pods, by units of systemd, and, where neither says it,
// by the command lines of running processes. Impure: it reads files, and nothing else. Never fails because of a file.
import { join } from 'node:path';
import { type ComponentName, componentNames } from '../../components.ts';
import { configurationFields } from '../file-flags.ts';
import {
  argumentsOf,
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
import { environmentFile, serviceUnit, type ServiceUnit, withVariables } from './unit-files.ts';

interface Sources {
  readonly manifests: Readonly<Record<string, string | undefined>>;
  /** Of the kubelet, where nothing names another configuration. */
  readonly kubeletConfiguration: string;
  /** Where the processes that can be seen are those of this machine's components; it may read what has ended meanwhile. */
  readonly processes?: MachineFiles | undefined;
}

export async function readComponents(files: MachineFiles, sources: Sources): Promise<SettingsHere> {
  const units = await unitsThatStart(files);
  const running = sources.processes && (await processesOf(sources.processes));
  const found = componentNames.map(async (component) => {
    const manifest = sources.manifests[component];
    const line =
      (manifest === undefined ? undefined : commandLineOf(manifest, component)) ??
      units.get(component) ??
      running?.get(component);
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
  const { words = [], variables = new Map<string, string>(), mounts = [] } = line ?? {};
  const args = argumentsOf(component, words, variables) ?? words;
  let values = firstOfBoth(valuesIn(args), valuesOfVariables(component, variables));
  for (const flag of Object.keys(configurationFields[component] ?? {})) {
    const file = hostPathOf(values.get(flag)?.at(-1), mounts) ?? (flag === 'config' ? usual : undefined);
    const text = file === undefined ? undefined : await files.text(file);
    if (file === undefined || text === undefined) continue;
    const documents = [text, ...(await dropIns(hostPathOf(values.get(`${flag}-dir`)?.at(-1), mounts), files))];
    values = withConfiguration(component, values, { flag, file, documents });
  }
  return line === undefined && values.size === 0 ? undefined : { values, mounts };
}

/** Of the kubelet: files that end with .conf, each over the one before (--config-dir). */
async function dropIns(directory: string | undefined, files: MachineFiles): Promise<readonly string[]> {
  if (directory === undefined) return [];
  const names = (await files.names(directory)).filter((name) => name.endsWith('.conf'));
  const texts = await Promise.all(names.map((name) => files.text(join(directory, name))));
  return texts.flatMap((text) => text ?? []);
}

/** Where systemd looks for units, the first of a name beats the others (systemd.unit(5)). */
const unitDirectories = [
  '/etc/systemd/system',
  '/run/systemd/system',
  '/usr/local/lib/systemd/system',
  '/usr/lib/systemd/system',
  '/lib/systemd/system',
];

/** Of each component the first unit, by name, that starts it; a unit that nothing wants is a leftover. */
async function unitsThatStart(files: MachineFiles): Promise<ReadonlyMap<string, ComponentCommand>> {
  const found = new Map<string, ComponentCommand>();
  const wanted = await wantedUnits(files);
  const names = new Set<string>();
  for (const directory of unitDirectories) {
    for (const name of await files.names(directory)) {
      // Those of packages have the names of their programs.
      const mayStart = directory === unitDirectories[0] || /kube|etcd/.test(name);
      if (name.endsWith('.service') && mayStart) names.add(name);
    }
  }
  for (const name of [...names].toSorted()) {
    const unit = await readUnit(name, files);
    const component = unit && componentNames.find((one) => argumentsOf(one, startWords(unit)) !== undefined);
    if (unit === undefined || component === undefined || found.has(component)) continue;
    if (component !== 'kubelet' && !wanted.has(name)) continue;
    const texts = await Promise.all(unit.environmentFiles.map((file) => files.text(file)));
    const variables = new Map([...unit.environment, ...texts.flatMap((text) => [...environmentFile(text ?? '')])]);
    found.set(component, { words: withVariables(unit.command, variables), variables, mounts: [] });
  }
  return found;
}

const startWords = ({ command, environment }: ServiceUnit): readonly string[] => withVariables(command, environment);

async function wantedUnits(files: MachineFiles): Promise<ReadonlySet<string>> {
  const directories = (await files.directories('/etc/systemd/system')).filter((name) =>
    /\.(wants|requires)$/.test(name),
  );
  const names = await Promise.all(directories.map((name) => files.names(`/etc/systemd/system/${name}`)));
  return new Set(names.flat());
}

async function readUnit(name: string, files: MachineFiles): Promise<ServiceUnit | undefined> {
  let unit: string | undefined;
  for (const directory of unitDirectories) unit ??= await files.text(`${directory}/${name}`);
  if (unit === undefined || !/kube|etcd/.test(unit)) return undefined;
  // By name, wherever they lie; of one name the first.
  const dropIn = new Map<string, string>();
  for (const directory of unitDirectories) {
    const below = `${directory}/${name}.d`;
    for (const file of await files.names(below)) {
      const text = file.endsWith('.conf') && !dropIn.has(file) ? await files.text(`${below}/${file}`) : undefined;
      if (text !== undefined) dropIn.set(file, text);
    }
  }
  const ordered = [...dropIn].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, text]) => text);
  return serviceUnit([unit, ...ordered]);
}

/** Of processes that see the same files as this one. */
async function processesOf(files: MachineFiles): Promise<ReadonlyMap<string, ComponentCommand>> {
  const found = new Map<string, ComponentCommand>();
  const here = await files.link('/proc/self/ns/mnt');
  for (const id of await files.directories('/proc')) {
    if (!/^\d+$/.test(id)) continue;
    const words = ((await files.text(`/proc/${id}/cmdline`)) ?? '').replace(/\0$/, '').split('\0');
    const component = componentNames.find((one) => words[0]?.endsWith(one) === true && argumentsOf(one, words));
    if (component === undefined || found.has(component)) continue;
    if ((await files.link(`/proc/${id}/ns/mnt`)) !== here) continue;
    const pairs = ((await files.text(`/proc/${id}/environ`)) ?? '').split('\0');
    found.set(component, { words, variables: environmentFile(pairs.join('\n')), mounts: [] });
  }
  return found;
}
