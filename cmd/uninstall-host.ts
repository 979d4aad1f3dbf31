// `uninstall host`: removes the systemd units of this machine, and the token of a worker.
import { dirname, resolve } from 'node:path';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig, type ToolConfig } from '../lib/config/load.ts';
import { formerMetrics } from '../lib/install/former-metrics.ts';
import {
  type HostMachine,
  installedCommand,
  removeHost,
  repairedServices,
  thisMachine,
} from '../lib/install/host-apply.ts';
import { unitPaths } from '../lib/install/host.ts';
import { workerDirectory } from '../lib/install/installed-flags.ts';
import { programPlaces, removeProgram } from '../lib/install/program-copy.ts';
import { removeWorkerToken } from '../lib/install/worker-host.ts';
import { nextCommand } from '../lib/next-command.ts';
import { structured } from '../lib/status/structured.ts';
import { apiVersion } from '../lib/well-known.ts';
import { exitCodes } from './exit-codes.ts';
import { hostFlags, withoutGoneFile } from './host-flags.ts';
import { withoutFormerMetrics } from './host-report.ts';
import type { Io } from './io.ts';
import { configInput, installFormats, type InstallLine, outputFormat } from './read-config.ts';

export async function uninstallHostCommand(
  { out, output, check = false, ...line }: InstallLine & FlagsOf<'uninstall host'>,
  io: Io,
  machine?: HostMachine,
): Promise<number> {
  // A copy may also lie where systemd does not run now, such as below a rescue system's chroot.
  const here = machine ?? { ...thisMachine(io.signal), places: programPlaces };
  const before = installedCommand(here.unitDirectory); // the units are the record of a token elsewhere
  const { flags, problems } = hostFlags({ ...line, executable: '/proc/self/exe' }, io, withoutGoneFile(before));
  const directory = out === undefined ? workerDirectory(before) : resolve(io.cwd, out);
  const format = outputFormat(installFormats, output, problems);
  const { dryRun, backupDir, lockDir, metricsFile } = parseToolConfig({ ...configInput(flags, io), problems });
  const isPlan = dryRun || check;
  const { unitDirectory } = here;
  const paths = unitPaths(unitDirectory, await repairedServices(unitDirectory));
  const units = await removeHost(paths, { ...here, dryRun: isPlan });
  const metrics = before.length === 0 ? undefined : await formerMetrics(metricsFile);
  const gone = isPlan
    ? [metrics ?? []].flat()
    : await withoutFormerMetrics({ here, formerMetrics: metrics }, io, 'stop');
  // After the units that start it, and authenticate with it.
  const copies = await removeProgram(isPlan, here.places);
  const removed = [...units, ...gone, ...copies, ...(await removeWorkerToken(directory, isPlan))];
  const isChanged = removed.length > 0;
  const isGone = copies.some((path) => here.places?.commands.includes(dirname(path)));
  const left = isChanged ? leftLines({ backupDir, lockDir, isGone }) : ['Nothing to remove.'];
  const lines = [...removed.map((path) => `${isPlan ? 'Would remove' : 'Removed'} ${path}`), ...left];
  const info = { apiVersion, kind: 'HostRemoval', changed: isChanged, removed };
  io.stdout.write(format === 'json' ? structured(info, 'json', 2) : `${lines.join('\n')}\n`);
  return check && isChanged ? exitCodes.failed : exitCodes.done;
}

interface Left extends Pick<ToolConfig, 'backupDir' | 'lockDir'> {
  /** Whether the command is removed, too. */
  readonly isGone: boolean;
}

/** Leftovers that the administrator may also want to remove. */
const leftLines = ({ backupDir, lockDir, isGone }: Left): readonly string[] => [
  `Copies of replaced files stay in ${backupDir}, and until the next boot notes of runs in ${lockDir}.`,
  'In the API stay the rights of the hosts and the token of the workers. Who may still use them, and how they are removed' +
    `${isGone ? ' (from where the program was unpacked: the command goes with its copy)' : ''}: ` +
    nextCommand('uninstall', { '--part': 'hosts,workers', '--dry-run': true }),
];
