// `renew-worker`: a single run of regen on a worker, as the units of a worker start it.
import { resolve } from 'node:path';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseRunConfig } from '../lib/config/load.ts';
import { parseDuration } from '../lib/duration.ts';
import { defaultDirectory, hostLayout, workerTokenFile as usualTokenFile } from '../lib/install/layout.ts';
import { type Problem, valueText } from '../lib/problems.ts';
import type { Io } from './io.ts';
import { asWorker, type CommandLine, configInput, orKubeadm } from './read-config.ts';
import { runConfig } from './run.ts';

type RenewLine = CommandLine & FlagsOf<'renew-worker'>;

const defaultWait = '40s';

export async function renewWorkerCommand(
  { workerTokenFile, wait = defaultWait, restartKubelet: restart = false, ...line }: RenewLine,
  io: Io,
): Promise<number> {
  const waitMs = parseDuration(wait);
  const message = `must be a duration such as 40s or 5m, got ${valueText(wait)}`;
  const problems: Problem[] = waitMs === undefined ? [{ path: '--wait', kind: 'invalid', message }] : [];
  const asked = { ...orKubeadm(line), mode: 'regen', once: true, locations: 'disk', restart };
  const { config, leftOut } = parseRunConfig({ ...configInput(asked, io), problems });
  const tokenFile = resolve(io.cwd, workerTokenFile ?? usualTokenFile(hostLayout(defaultDirectory)));
  const obtaining = { tokenFile, waitMs: waitMs ?? 0 };
  // A run of a worker serves no port, and knows no other cluster.
  const own = { obtaining, sources: {}, deliveries: {}, machine: undefined };
  const modes = config.modes.map((mode) => (mode.mode === 'regen' ? { ...mode, ...own } : mode));
  return runConfig({ ...asWorker(config), modes, healthProbeBindAddress: undefined, metrics: undefined }, io, {
    leftOut,
  });
}
