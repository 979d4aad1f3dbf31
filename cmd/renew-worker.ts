// `renew-worker`: the command in the units of a worker.
import { resolve } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { parseDuration } from '../lib/duration.ts';
import { defaultDirectory, hostLayout, workerTokenFile as usualTokenFile } from '../lib/install/layout.ts';
import { createLog } from '../lib/log.ts';
import { type Problem, valueText } from '../lib/problems.ts';
import { runWorker } from '../lib/run/worker-run.ts';
import { exitCodes, exitOfFailure } from './exit-codes.ts';
import type { Io } from './io.ts';
import { type CommandLine, configInput, orKubeadm } from './read-config.ts';

type RenewLine = CommandLine & FlagsOf<'renew-worker'>;

const defaultWait = '40s';

export async function renewWorkerCommand(
  { workerTokenFile, wait = defaultWait, restartKubelet: restarts = false, ...line }: RenewLine,
  io: Io,
): Promise<number> {
  const waitMs = parseDuration(wait);
  const message = `must be a duration such as 40s or 5m, got ${valueText(wait)}`;
  const problems: Problem[] = waitMs === undefined ? [{ path: '--wait', kind: 'invalid', message }] : [];
  const config = parseToolConfig({ ...configInput(orKubeadm(line), io), problems });
  const log = createLog({ ...config.log, write: (entry) => void io.stderr.write(entry) });
  const mode = {
    config,
    waitMs: waitMs ?? 0,
    tokenFile: resolve(io.cwd, workerTokenFile ?? usualTokenFile(hostLayout(defaultDirectory))),
    restarts,
    clock: systemClock,
    log,
    signal: io.signal,
    announce: (sentence: string) => void io.stdout.write(`${sentence}\n`),
  };
  return runWorker(mode).then(
    () => exitCodes.done,
    (err: unknown) => exitOfFailure(err, log),
  );
}
