// Polls: reads of one object or few, which can be frequent, where a pass over everything could not. At the API server,
// until it answers; between two passes, while other controllers are expected to write, at external inputs.
import { errorText, isCode, RecoveryError } from '../errors.ts';
import type { Location, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { Repeats, type Running } from '../log.ts';
import { contentDigest, type Found, locationText, type Store } from '../store/store.ts';
import type { Journal } from './journal.ts';
import { apiPollDelay, type PollPace, unreadDelay } from './waits.ts';

interface ApiPoll extends Running {
  readonly artefacts: readonly ResolvedArtefact[];
  readonly store: Store;
  readonly journal: Journal;
  /** Called once per process, at the first answer. Must not throw. */
  readonly onFirstAnswer?: (seen: { readonly wasAway: boolean }) => void;
  /** Called with the error of each failed try. Must not throw. */
  readonly onFailure?: (failure: RecoveryError) => void;
  /** Time at which it was first found away. */
  readonly since: Date;
  /** Gives up for now after this time: files need a pass, too. */
  readonly forMs: number;
}

const sayAgainMs = 10_000;

/**
 * Polls the API server until it answers a read of an inventory object, and returns whether it has. At a start it
 * refuses connections, then answers 401, 403 or 503 while its caches fill: all of that is normal and logged once, then
 * every ten seconds. One object at a time, another at the next try: a forbidden object does not hide the rest.
 */
export async function untilAnswered(options: ApiPoll): Promise<boolean> {
  const { artefacts, store, clock, log, journal, signal, forMs } = options;
  const since = options.since.getTime();
  const began = clock.now().getTime();
  const waiting = new Repeats(clock, sayAgainMs);
  for (let attempt = 1; !signal.aborted; attempt += 1) {
    const artefact = artefacts[(attempt - 1) % artefacts.length];
    if (artefact === undefined) return false;
    const failure = await failureOf(() => store.read(artefact.location, signal));
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
    if (waiting.met('api') !== undefined) {
      const { code } = failure;
      log.info('api.waiting', { attempt, path: locationText(artefact.location), code, err: failure.message });
    }
    const polledMs = now.getTime() - began;
    if (polledMs >= forMs || polledMs < 0) return false; // negative: the clock was set back
    await clock.sleep(apiPollDelay(waitedMs, failure.details['away'] === true), signal);
  }
  return false;
}

/** Error of a read without an answer. Material that cannot be read is an answer: there is an API server. */
async function failureOf(read: () => Promise<unknown>): Promise<RecoveryError | undefined> {
  try {
    await read();
    return undefined;
  } catch (err) {
    if (isCode(err, 'MaterialInvalid', 'ReadFailed')) return undefined;
    return err instanceof RecoveryError ? err : new RecoveryError('KubeUnavailable', errorText(err), { cause: err });
  }
}

/**
 * Digest of each object of this pass that another controller maintains; undefined where it was absent or could not be
 * read.
 */
export type ExternalContents = ReadonlyMap<Location, string | undefined>;

export function externalContents(
  { artefacts }: Resolved,
  found: ReadonlyMap<string, Found>,
  only: (location: Location) => boolean,
): ExternalContents {
  const external = artefacts.filter(({ kind, location }) => kind === 'external' && only(location));
  return new Map(external.map(({ name, location }) => [location, digestOf(found.get(name))]));
}

/** Metadata that other clients change is no news. */
const digestOf = (found: Found | undefined): string | undefined => found && contentDigest(found.entries);

/** The wait between two passes. */
export interface Pause extends Pick<ApiPoll, 'store' | 'clock' | 'signal'> {
  readonly external: ExternalContents;
  /** Objects that the last pass could not read: while there are any, they alone are polled. Default: none. */
  readonly unread?: readonly Location[];
  /** Since when they could not be read. */
  readonly unreadSince?: Date | undefined;
  /** Time until the next pass, milliseconds. */
  readonly delayMs: number;
  /** Pace of the polls; undefined: none. */
  readonly pace: (now: Date) => PollPace | undefined;
}

/**
 * Resolves when it is time for the next pass, an external object has changed, or an unreadable object can be read
 * again. Never rejects.
 */
export async function pause(options: Pause): Promise<void> {
  const { clock, signal, delayMs } = options;
  const end = clock.now().getTime() + delayMs;
  let left = delayMs;
  for (let count = 0; left > 0 && !signal.aborted; count += 1) {
    const { afterMs, hasNews } = pollOf(options, count);
    const sleepMs = Math.min(left, afterMs);
    await clock.sleep(sleepMs, signal);
    left -= sleepMs;
    if (left <= 0 || signal.aborted || (await hasNews())) return;
    left = Math.min(left, end - clock.now().getTime()); // polls take time, too
  }
}

function pollOf({ external, unread = [], unreadSince, store, signal, clock, pace, delayMs }: Pause, count: number) {
  const now = clock.now();
  const [missing] = oneOf(unread, count);
  if (missing !== undefined) {
    const afterMs = unreadDelay(now.getTime() - (unreadSince ?? now).getTime());
    return { afterMs, hasNews: async () => (await failureOf(() => store.read(missing, signal))) === undefined };
  }
  const poll = external.size === 0 ? undefined : pace(now);
  if (poll === undefined) return { afterMs: delayMs, hasNews: () => Promise.resolve(false) };
  const objects = poll.of === 'all' ? [...external] : oneOf([...external], count);
  const hasChanged = async ([location, content]: (typeof objects)[number]): Promise<boolean> =>
    digestOf(await store.read(location, signal)) !== content;
  // An object that cannot be read has changed, too: the pass that follows reports why.
  const hasNews = (): Promise<boolean> =>
    Promise.all(objects.map(hasChanged)).then(
      (changes) => changes.includes(true),
      () => true,
    );
  return { afterMs: poll.delayMs, hasNews };
}

/** One element, the next at each call; empty for an empty list. */
const oneOf = <T>(list: readonly T[], count: number): readonly T[] => {
  const at = count % Math.max(list.length, 1);
  return list.slice(at, at + 1);
};
