// `uninstall`: removes the objects and files of `init`. The API lists them: no inventory must be named.
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import { parseToolConfig, type ToolConfig } from '../lib/config/load.ts';
import { RecoveryError } from '../lib/errors.ts';
import { defaultNamespace } from '../lib/install/accounts.ts';
import { defaultDirectory, hostLayout } from '../lib/install/layout.ts';
import { giveBackFiles, runUninstall, type UninstallOutcome } from '../lib/install/uninstall.ts';
import type { LeavingApprover } from '../lib/install/leaving-approver.ts';
import { directoriesOfKubeadm, discoverKubeadm } from '../lib/inventory/discover/kubeadm-machine.ts';
import { allDirectories } from '../lib/inventory/places.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import { installedCommand } from '../lib/install/host-apply.ts';
import { type UninstallPart, uninstallParts } from '../lib/install/uninstall-parts.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { nextCommand, shellWord } from '../lib/next-command.ts';
import { type Problem, suggestion } from '../lib/problems.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './io.ts';
import {
  administrator,
  type CommandLine,
  configInput,
  installFlags,
  type InstallLine,
  type InstallOptions,
  orKubeadm,
} from './read-config.ts';

type UninstallLine = InstallLine & FlagsOf<'uninstall'>;

export async function uninstallCommand({ part, ...line }: UninstallLine, io: Io): Promise<number> {
  const { flags: typed, options, problems } = installFlags(line, io);
  const parts = partsOf(part, options.purge, problems);
  const flags = asInstalled(typed, options.directory);
  const isNamed = flags.preset !== undefined || flags.config !== undefined;
  const message = 'needs the inventory whose files become plain ones; name it with --preset or --config';
  const unnamed: Problem[] = options.giveBack && !isNamed ? [{ path: '--give-back', kind: 'required', message }] : [];
  // Without a named inventory, only settings that are independent of one are used.
  const config = parseToolConfig({ ...configInput(orKubeadm(flags), io), problems: [...problems, ...unnamed] });
  const kubeconfig = config.kubeconfig ?? (existsSync(administrator) ? administrator : undefined);
  return withConnection(kubeconfig, connectingOf(config, io), async (connection) => {
    const { dryRun, destinationDir = hostLayout(options.directory).certs } = config;
    const resolved = isNamed ? resolve(config.inventory, config.environment) : undefined;
    // With --give-back the inventory selects files to make plain, and may never have had an identity of its own.
    const named = options.giveBack && !options.purge ? undefined : resolved;
    const given = {
      ...typedFlags({ ...options, kubeconfig }),
      '--give-back': options.giveBack,
      '--preset': typed.preset,
      '--config': typed.config,
      '--dry-run': dryRun,
    };
    const isHost = installedCommand().includes('--mode=regen');
    const leaving = await leavingHere(config, io);
    const asked = { ...options, parts, isHost, leaving, typed: given, resolved: named, dryRun };
    const outcome = await runUninstall({ ...asked, connection, signal: io.signal });
    const plain =
      options.giveBack && resolved !== undefined ? await giveBackFiles({ resolved, destinationDir, dryRun }) : [];
    const lines = [
      ...outcome.removed.map((what) => `${dryRun ? 'Would remove' : 'Removed'} ${what}`),
      ...plain.map((made) => `${dryRun ? 'Would make' : 'Made'} plain files in ${made}`),
    ];
    const told = lines.length === 0 ? ['Nothing to remove.'] : lines;
    const left = outcome.left === undefined ? [] : [`It would be refused: ${outcome.left}`];
    const rest = [...keptLines(outcome, { ...options, kubeconfig }), ...left];
    io.stdout.write([...told, ...rest].map((text) => `${text}\n`).join(''));
    return exitCodes.done;
  });
}

/** Undefined where no static pods lie on this machine. */
async function leavingHere(
  { inventory, environment }: Pick<ToolConfig, 'inventory' | 'environment'>,
  io: Pick<Io, 'stderr'>,
): Promise<LeavingApprover | undefined> {
  const directories = directoriesOfKubeadm(allDirectories(inventory, environment.directories ?? {}));
  const manifestsDir = join(directories.kubernetesDir, 'manifests');
  if (!existsSync(manifestsDir)) return undefined;
  const found = await discoverKubeadm({ directories, given: {} }).catch((err: unknown) => {
    if (!(err instanceof RecoveryError)) throw err;
    return undefined; // no machine of kubeadm
  });
  const [nodeName = hostname().toLowerCase()] = found?.parameters['nodeName'] ?? [];
  const print = (line: string): void => void io.stderr.write(`${line}\n`);
  return { nodeName, manifestsDir, clock: systemClock, print };
}

/** Adds the configuration that `init` has left on this machine, if any. */
function asInstalled(flags: CommandLine, directory: string): CommandLine {
  const { configFile } = hostLayout(directory);
  if (flags.preset !== undefined || flags.config !== undefined || !existsSync(configFile)) return flags;
  return { ...flags, config: configFile };
}

/** Parts that --part names; unknown names are problems. */
function partsOf(
  typed: readonly string[] | undefined,
  purge: boolean,
  problems: Problem[],
): readonly UninstallPart[] | undefined {
  if (typed === undefined) return undefined;
  const names = typed.flatMap((text) => text.split(',')).filter((name) => name !== '');
  for (const name of names.filter((one) => !uninstallParts.some((part) => part === one))) {
    const message = `must be some of ${uninstallParts.join(', ')}, got "${name}"${suggestion(name, uninstallParts)}`;
    problems.push({ path: '--part', kind: 'invalid', message });
  }
  const message = 'must be left out: the Secrets and ConfigMaps are of part modes';
  if (purge && !names.includes('modes')) problems.push({ path: '--purge', kind: 'conflict', message });
  return uninstallParts.filter((part) => names.includes(part));
}

interface Uninstalled extends Pick<InstallOptions, 'purge' | 'directory'> {
  readonly kubeconfig: string | undefined;
}

/** Remaining objects, and the command that removes them. Pure. */
export function keptLines({ removed, kept, others }: UninstallOutcome, how: Uninstalled): readonly string[] {
  const { purge, kubeconfig = administrator } = how;
  const isOurs = (what: string): boolean => what.includes(`"${defaultNamespace}/`);
  if (purge || kept.length === 0) {
    const command = `kubectl --kubeconfig=${shellWord(kubeconfig)} delete namespace ${defaultNamespace}`;
    const isLeft = removed.some(isOurs) && !others.some(isOurs);
    return isLeft ? [`Namespace "${defaultNamespace}" stays; where nothing else is in it: ${command}`] : [];
  }
  return [
    'What certificates in use need stays in the API:',
    ...kept.map((what) => `  ${what}`),
    `When no component reads them any more, remove them: ${purgeCommand(how)}`,
  ];
}

type Places = Pick<Uninstalled, 'directory' | 'kubeconfig'>;

/** Command that removes everything an adoption made, but not the parts of workers and hosts. */
export const purgeCommand = (where: Places): string =>
  nextCommand('uninstall', { '--part': 'modes,approver', ...typedFlags({ ...where, purge: true }) });

/** Flags without --part. */
const typedFlags = ({ directory, kubeconfig, purge }: Places & { readonly purge?: boolean }) => ({
  '--purge': purge,
  '--kubeconfig': kubeconfig,
  '--out': directory === defaultDirectory ? undefined : directory,
});
