// The command without a name: runs modes. From here on every step is logged.
import { type Clock, systemClock } from '../lib/clock.ts';
import { parseRunConfig } from '../lib/config/load.ts';
import type { Config } from '../lib/config/load.ts';
import { writesToJournal } from '../lib/host/systemd.ts';
import { type Problem, problemText } from '../lib/problems.ts';
import type { Log } from '../lib/log.ts';
import { builtAt, version } from '../lib/program.ts';
import { processLog } from '../lib/run/process-log.ts';
import { exitCodes, exitOfFailure, exitOfUnmet } from './exit-codes.ts';
import { configInput } from './read-config.ts';
import type { CommandLine } from './read-config.ts';
import type { Io } from './io.ts';

/** Configuration for the log; the inventory by its name. */
function summary({ inventory, ...config }: Config): Record<string, unknown> {
  return { ...config, inventory: inventory.name };
}

/** A completed single run is logged as debug: a timer starts one each minute. */
function stopped(log: Log, { signal }: Io, level: 'debug' | 'info'): number {
  const reason: unknown = signal.reason;
  const asked = signal.aborted && typeof reason === 'string' ? { signal: reason } : {};
  log[signal.aborted ? 'info' : level]('process.stopped', asked);
  return exitCodes.done;
}

/** Code of the other modes runs at each change: it is worth its optimisation. */
async function prepareToWait({ modes }: Config): Promise<void> {
  const { optimiseNothing, preferSmallHeap } = await import('../lib/engine.ts');
  preferSmallHeap();
  if (modes.every(({ mode }) => mode === 'regen')) optimiseNothing();
}

export async function runCommand(line: CommandLine, io: Io, clock: Clock = systemClock): Promise<number> {
  const { config, leftOut } = parseRunConfig(configInput(line, io));
  return runConfig(config, io, { leftOut, clock });
}

/** `leftOut`: wrong settings of entries, which stop nothing else. */
export async function runConfig(
  config: Config,
  io: Io,
  { leftOut = [], clock = systemClock }: { readonly leftOut?: readonly Problem[]; readonly clock?: Clock } = {},
): Promise<number> {
  const log = processLog(io, config.log);
  // A timer starts a single pass every minute, and nearly all of them find nothing to do.
  const level = config.once ? 'debug' : 'info';
  log[level]('process.started', { version });
  log[level]('config.loaded', { config: summary(config) });
  const wrong = leftOut.map((problem) => ({ message: `left out: ${problemText(problem)}`, isSetting: true }));
  for (const { message } of config.once ? [] : wrong) log.error('config.partial', { message });
  try {
    const { runModes } = await import('./modes.ts');
    if (!config.once) await prepareToWait(config);
    const met = await runModes(config, {
      clock,
      log,
      signal: io.signal,
      builtAt,
      isOfUnit: writesToJournal(io.env),
    });
    const unmet = config.once ? [...met, ...wrong] : met;
    if (io.signal.aborted || unmet.length === 0) return stopped(log, io, level);
    log.error('process.failed', { err: unmet.map(({ message }) => message).join('; ') });
    return exitOfUnmet(unmet);
  } catch (err) {
    if (io.signal.aborted && (err === io.signal.reason || (err instanceof Error && err.name === 'AbortError'))) {
      return stopped(log, io, level);
    }
    return exitOfFailure(err, log);
  }
}
