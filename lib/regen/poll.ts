// Between two looks, while others are expected to write: whether what they give is still what the last look has seen. A
// poll reads few objects, or one, so it can come often, which a look at everything could not.
import type { Clock } from '../clock.ts';
import type { Location, Resolved } from '../inventory/model.ts';
import type { Found, Store } from '../store/store.ts';
import { failureOf } from './api-wait.ts';
import { type PollPace, unreadDelay } from './waits.ts';

/** Of each object that others maintain and was looked at; undefined where it was absent or could not be read. */
export type ExternalVersions = ReadonlyMap<Location, string | undefined>;

export function externalVersions(
  { artefacts }: Resolved,
  found: ReadonlyMap<string, Found>,
  only: (location: Location) => boolean,
): ExternalVersions {
  const external = artefacts.filter(({ kind, location }) => kind === 'external' && only(location));
  return new Map(external.map(({ name, location }) => [location, found.get(name)?.version]));
}

export interface Rest {
  readonly external: ExternalVersions;
  /** What the last look could not read: while there is any, it alone is asked for. Default: nothing. */
  readonly unread?: readonly Location[];
  /** Since when. */
  readonly unreadSince?: Date | undefined;
  readonly store: Store;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Until the next look, milliseconds. */
  readonly delayMs: number;
  /** How to poll; undefined: not at all. */
  readonly pace: (now: Date) => PollPace | undefined;
}

/**
 * Resolves when it is time for the next look, something that is external is not as it was, or something that could not be
 * read now can. Never rejects.
 */
export async function rest(options: Rest): Promise<void> {
  const { store, clock, signal, delayMs } = options;
  const end = clock.now().getTime() + delayMs;
  let left = delayMs;
  for (let count = 0; left > 0 && !signal.aborted; count += 1) {
    const { pauseMs, objects } = pollOf(options, count);
    const pause = Math.min(left, pauseMs);
    await clock.sleep(pause, signal);
    left -= pause;
    if (left <= 0 || signal.aborted) return;
    if (objects === 'unread') {
      const [location] = oneOf(options.unread ?? [], count);
      if (location !== undefined && (await failureOf(() => store.read(location, signal))) === undefined) return;
    } else if (await hasChanged({ external: objects, store, signal })) return;
    left = Math.min(left, end - clock.now().getTime()); // polls take time, too
  }
}

const nothing: ExternalVersions = new Map();

function pollOf(
  { external, unread = [], unreadSince, clock, pace, delayMs }: Rest,
  count: number,
): { readonly pauseMs: number; readonly objects: ExternalVersions | 'unread' } {
  const now = clock.now();
  if (unread.length > 0) {
    return { pauseMs: unreadDelay(now.getTime() - (unreadSince ?? now).getTime()), objects: 'unread' };
  }
  const poll = external.size === 0 ? undefined : pace(now);
  if (poll === undefined) return { pauseMs: delayMs, objects: nothing };
  return { pauseMs: poll.delayMs, objects: poll.of === 'all' ? external : new Map(oneOf([...external], count)) };
}

/** One of them, another at each count; none of none. */
const oneOf = <T>(list: readonly T[], count: number): readonly T[] => {
  const at = count % Math.max(list.length, 1);
  return list.slice(at, at + 1);
};

/** What cannot be read has changed, too: the look that follows tells why. */
async function hasChanged({ external, store, signal }: Pick<Rest, 'external' | 'store' | 'signal'>): Promise<boolean> {
  const polls = [...external].map(
    async ([location, version]) => (await store.read(location, signal))?.version !== version,
  );
  return Promise.all(polls).then(
    (changes) => changes.includes(true),
    () => true,
  );
}
