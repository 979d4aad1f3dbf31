// Knocks at the API server until it answers a read of an inventory object. At a start it refuses connections, then
// answers 401, 403 or 503 while its caches fill: all of that is normal and said once, then every ten seconds.
import type { Clock } from '../clock.ts';
import { RecoveryError, errorText, isCode } from '../errors.ts';
import type { ResolvedArtefact } from '../inventory/model.ts';
import type { Log } from '../log.ts';
import type { Store } from '../store/store.ts';
import { locationText } from '../store/store.ts';
import type { Journal } from './journal.ts';
import { knockDelay } from './waits.ts';

export interface Knock {
  readonly rows: readonly ResolvedArtefact[];
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly journal: Journal;
  readonly signal: AbortSignal;
  /** Called once, at the first answer there ever is. Must not throw. */
  readonly onFirstAnswer?: (seen: { readonly wasAway: boolean }) => void;
  /** Called with what each failed try met. Must not throw. */
  readonly onFailure?: (failure: RecoveryError) => void;
  /** When it was first found away. */
  readonly since: Date;
  /** Gives up for now after this time: files need a look, too. */
  readonly forMs: number;
}

const sayAgainMs = 10_000;

/** Whether it has answered. One row at a time, the next one at the next try: one forbidden row does not hide the rest. */
export async function knock(options: Knock): Promise<boolean> {
  const { rows, store, clock, log, journal, signal, forMs } = options;
  const since = options.since.getTime();
  const began = clock.now().getTime();
  let saidAt: number | undefined;
  for (let attempt = 1; !signal.aborted; attempt += 1) {
    const row = rows[(attempt - 1) % rows.length];
    if (row === undefined) return false;
    const failure = await failureOf(() => store.read(row.location, signal));
    const now = clock.now();
    if (failure === undefined) {
      const wasAway = attempt > 1 || began - since > forMs / 2;
      if (journal.firstAnswerAt === undefined) options.onFirstAnswer?.({ wasAway });
      journal.firstAnswerAt ??= now;
      log.info('api.answered', { attempt, duration: now.getTime() - since });
      return true;
    }
    options.onFailure?.(failure);
    const waitedMs = now.getTime() - since;
    if (saidAt === undefined || waitedMs - saidAt >= sayAgainMs) {
      saidAt = waitedMs;
      const { code } = failure;
      log.info('api.waiting', { attempt, path: locationText(row.location), code, err: failure.message });
    }
    const knockedMs = now.getTime() - began;
    if (knockedMs >= forMs || knockedMs < 0) return false; // negative: the clock was set back
    await clock.sleep(knockDelay(waitedMs, failure.details['away'] === true), signal);
  }
  return false;
}

/** Why nothing was answered. Material that cannot be read is an answer: there is an API server. */
export async function failureOf(read: () => Promise<unknown>): Promise<RecoveryError | undefined> {
  try {
    await read();
    return undefined;
  } catch (err) {
    if (isCode(err, 'MaterialInvalid', 'ReadFailed')) return undefined;
    return err instanceof RecoveryError ? err : new RecoveryError('KubeUnavailable', errorText(err), { cause: err });
  }
}
