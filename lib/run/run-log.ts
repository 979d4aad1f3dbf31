// Log of repeated runs: a problem that one run after the other meets is logged when it begins, and once an hour from then
// on. Changes are logged each time.
import { type Log, type LogEvent, type LogFields, Repeats, type Running } from '../log.ts';

const againMs = 3_600_000;
/** Fields that differ from run to run. */
const passing: ReadonlySet<string> = new Set(['attempt', 'duration', 'recheckAt']);

interface RunsLog {
  readonly log: Log;
  /** Whether a problem is to be told now. */
  readonly isNews: (problem: string) => boolean;
  /** Ends problems that the run has not met. */
  readonly runEnded: () => void;
}

export function createRunLog({ log, clock }: Pick<Running, 'log' | 'clock'>): RunsLog {
  const repeats = new Repeats(clock, againMs);
  let lasting: ReadonlySet<string> = new Set();
  let met = new Set<string>();
  const isNews = (problem: string): boolean => {
    met.add(problem);
    return repeats.met(problem) !== undefined;
  };
  const wrap = (to: Log, bound: LogFields): Log => {
    const say = (level: 'info' | 'warn' | 'error', event: LogEvent, fields: LogFields = {}): void => {
      const key = JSON.stringify([event, bound, fields], (name, value: unknown) =>
        passing.has(name) ? undefined : value,
      );
      to[isNews(key) ? level : 'debug'](event, fields);
    };
    return {
      debug: (event, fields) => to.debug(event, fields),
      // Each run finds an API server that answers.
      info: (event, fields) => (event.startsWith('api.') ? say('info', event, fields) : to.info(event, fields)),
      warn: (event, fields) => say('warn', event, fields),
      error: (event, fields) => say('error', event, fields),
      with: (fields) => wrap(to.with(fields), { ...bound, ...fields }),
    };
  };
  const runEnded = (): void => {
    for (const key of lasting) if (!met.has(key)) repeats.ended(key);
    lasting = met;
    met = new Set();
  };
  return { log: wrap(log, {}), isNews, runEnded };
}
