// Between two looks, while others are expected to write: whether what they give is still what the last look has seen. A
// glance reads these few objects alone, so it can come ten times a second, which a look at everything could not.
import type { Clock } from '../clock.ts';
import type { Location, Resolved } from '../inventory/model.ts';
import type { Found, Store } from '../store/store.ts';

/** Of each object that is given and was looked at; undefined where it was absent or could not be read. */
export type GivenVersions = ReadonlyMap<Location, string | undefined>;

export function givenVersions(
  { artefacts }: Resolved,
  found: ReadonlyMap<string, Found>,
  only: (location: Location) => boolean,
): GivenVersions {
  const given = artefacts.filter(({ kind, truth }) => kind === 'given' && only(truth));
  return new Map(given.map(({ name, truth }) => [truth, found.get(name)?.version]));
}

export interface Rest {
  readonly given: GivenVersions;
  readonly store: Store;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Until the next look, milliseconds. */
  readonly delayMs: number;
  /** Until the next glance; undefined: there is none. */
  readonly pace: (now: Date) => number | undefined;
}

/** Resolves when it is time for the next look, or something that is given is not as it was. Never rejects. */
export async function rest({ given, store, clock, signal, delayMs, pace }: Rest): Promise<void> {
  const end = clock.now().getTime() + delayMs;
  let left = delayMs;
  while (left > 0 && !signal.aborted) {
    const pause = given.size === 0 ? left : Math.min(left, pace(clock.now()) ?? left);
    await clock.sleep(pause, signal);
    left -= pause;
    if (left > 0 && !signal.aborted && (await hasChanged({ given, store, signal }))) return;
    left = Math.min(left, end - clock.now().getTime()); // glances take time, too
  }
}

/** What cannot be read has changed, too: the look that follows tells why. */
async function hasChanged({ given, store, signal }: Pick<Rest, 'given' | 'store' | 'signal'>): Promise<boolean> {
  const glances = [...given].map(
    async ([location, version]) => (await store.read(location, signal))?.version !== version,
  );
  return Promise.all(glances).then(
    (changes) => changes.includes(true),
    () => true,
  );
}
