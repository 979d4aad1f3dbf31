// `uninstall`: takes away what `init` made. What that was, the API tells: nobody has to name an inventory.
import { existsSync } from 'node:fs';
import { parseToolConfig } from '../lib/config/load.ts';
import { defaultNamespace } from '../lib/install/accounts.ts';
import { defaultDirectory, hostLayout } from '../lib/install/layout.ts';
import { giveBackFiles, runUninstall, type UninstallOutcome } from '../lib/install/uninstall.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import type { Problem } from '../lib/problems.ts';
import { connectingOf, withConnection } from './connections.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './runtime.ts';
import {
  type CommandLine,
  configInput,
  installFlags,
  type InstallLine,
  type InstallOptions,
  orKubeadm,
} from './read-config.ts';

/** Of a machine of kubeadm: whose credential is taken where none is given. */
const administrator = '/etc/kubernetes/admin.conf';

export async function uninstallCommand(line: InstallLine, io: Io): Promise<number> {
  const { flags: typed, options, problems } = installFlags(line, io);
  const flags = asInstalled(typed, options.directory);
  const isNamed = flags.preset !== undefined || flags.config !== undefined;
  const message = 'needs the inventory whose files become plain ones; name it with --preset or --config';
  const unnamed: Problem[] = options.giveBack && !isNamed ? [{ path: '--give-back', kind: 'required', message }] : [];
  // Where no inventory is named only what does not depend on one is asked of the configuration.
  const config = parseToolConfig({ ...configInput(orKubeadm(flags), io), problems: [...problems, ...unnamed] });
  const kubeconfig = config.kubeconfig ?? (existsSync(administrator) ? administrator : undefined);
  return withConnection(kubeconfig, connectingOf(config, io), async (connection) => {
    const { dryRun, destinationDir = hostLayout(options.directory).certs } = config;
    const resolved = isNamed ? resolve(config.inventory, config.environment) : undefined;
    // With --give-back it names whose files become plain ones, which may never have had an identity of its own.
    const named = options.giveBack && !options.purge ? undefined : resolved;
    const outcome = await runUninstall({ ...options, connection, resolved: named, dryRun, signal: io.signal });
    const given =
      options.giveBack && resolved !== undefined ? await giveBackFiles({ resolved, destinationDir, dryRun }) : [];
    const lines = [
      ...outcome.removed.map((what) => `${dryRun ? 'Would remove' : 'Removed'} ${what}`),
      ...given.map((made) => `${dryRun ? 'Would make' : 'Made'} plain files in ${made}`),
    ];
    const told = lines.length === 0 ? ['Nothing to remove.'] : lines;
    const rest = keptLines(outcome, { ...options, kubeconfig: kubeconfig ?? '' });
    io.stdout.write([...told, ...rest].map((text) => `${text}\n`).join(''));
    return exitCodes.done;
  });
}

/** On a machine where `init` has left its configuration, that. */
function asInstalled(flags: CommandLine, directory: string): CommandLine {
  const { configFile } = hostLayout(directory);
  if (flags.preset !== undefined || flags.config !== undefined || !existsSync(configFile)) return flags;
  return { ...flags, config: configFile };
}

interface Uninstalled extends Pick<InstallOptions, 'purge' | 'directory'> {
  readonly kubeconfig: string;
}

/** What is left, and the command that removes it. Pure. */
export function keptLines({ removed, kept }: UninstallOutcome, how: Uninstalled): readonly string[] {
  const { purge, kubeconfig } = how;
  if (purge) {
    const isOurs = removed.some((what) => what.includes(`"${defaultNamespace}/`));
    const command = `kubectl --kubeconfig=${kubeconfig} delete namespace ${defaultNamespace}`;
    return isOurs ? [`Namespace "${defaultNamespace}" stays; where nothing else is in it: ${command}`] : [];
  }
  if (kept.length === 0) return [];
  return [
    'What certificates in use need stays in the API:',
    ...kept.map((what) => `  ${what}`),
    `When no component reads them any more, remove them: ${purgeCommand(how)}`,
  ];
}

/** As it can be typed. */
export function purgeCommand({ directory, kubeconfig }: Pick<Uninstalled, 'directory' | 'kubeconfig'>): string {
  const out = directory === defaultDirectory ? '' : ` --out=${directory}`;
  return `kube-cert-recovery uninstall --purge --kubeconfig=${kubeconfig}${out}`;
}
