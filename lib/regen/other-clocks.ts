// The clocks of other machines, as their leaders write them: the holder of a leader Lease writes the time of its
// machine into it every few seconds. Only an observed renewal counts, because the last renewal of a dead holder may by
// chance lie close to a wrong clock; and only of another machine, because ours would repeat our own clock. No other
// objects are read than the Leases that regen may read anyway: a dead cluster has no leader, and then no machine knows
// the time.
// The Date of the API server's answers is no such witness: it shows our own machine's clock, or, behind a balancer, an
// unknown machine's.
import type { OtherClock } from '../plan/clock-rules.ts';
import type { Clock } from '../clock.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { holderHost, type LeaseName, readLease } from '../kube/leases.ts';

interface OtherClocksOptions {
  readonly connection: Pick<KubeConnection, 'request'>;
  readonly leases: readonly LeaseName[];
  /** Go's os.Hostname(), as the holders see it. */
  readonly hostName: string;
  readonly clock: Clock;
}

/** One read of a Lease that another machine holds. */
export interface LeaseReading {
  readonly holder: string;
  readonly renewed: Date;
  /** Our clock before the request. */
  readonly from: Date;
  /** Our clock after the answer. */
  readonly until: Date;
  /** Uptime in seconds at `until`; undefined where unknown. */
  readonly uptime: number | undefined;
}

interface Memory {
  readonly reading: LeaseReading;
  /** Result of the last two readings between which it was renewed. */
  readonly heard?: { readonly aheadMs: number; readonly by: LeaseReading };
}

/** A leader renews every two seconds (client-go, tools/leaderelection, RetryPeriod of the components' defaults). */
const renewalMs = 3000;
/** Readings that are further apart could hide a wrong clock. */
const mostApartMs = 2 * 60_000;
const smallestJumpMs = 60_000;

/**
 * Reads the Leases at each call, and remembers the readings; where there is no recent reading of a holder, it waits for
 * one renewal. Never rejects: a Lease that cannot be read yields nothing.
 */
export function createOtherClocks(
  options: OtherClocksOptions,
): (signal: AbortSignal) => Promise<readonly OtherClock[]> {
  const { leases, clock } = options;
  const memories = new Map<LeaseName, Memory>();

  const readAll = (signal: AbortSignal): Promise<unknown> =>
    Promise.all(
      leases.map(async (lease) => {
        const reading = await read(lease, options, signal);
        if (reading === undefined) memories.delete(lease);
        else memories.set(lease, remembered(memories.get(lease), reading));
      }),
    );

  return async (signal) => {
    const known = new Map(memories);
    await readAll(signal);
    const isKnown = (before: LeaseReading | undefined, reading: LeaseReading): boolean =>
      before?.holder === reading.holder && areClose(before, reading);
    if ([...memories].some(([lease, { reading }]) => !isKnown(known.get(lease)?.reading, reading))) {
      await clock.sleep(renewalMs, signal);
      if (!signal.aborted) await readAll(signal);
    }
    return [...memories].flatMap(([{ namespace, name }, { heard }]) =>
      heard === undefined
        ? []
        : [{ of: `"${heard.by.holder}", which renews the Lease "${namespace}/${name}"`, aheadMs: heard.aheadMs }],
    );
  };
}

function remembered(before: Memory | undefined, reading: LeaseReading): Memory {
  if (before === undefined) return { reading };
  const aheadMs = aheadOf(before.reading, reading);
  if (aheadMs !== undefined) return { reading, heard: { aheadMs, by: reading } };
  const { heard } = before;
  // Not renewed since: the last result holds for a while, unless our clock has been set or another holder leads.
  const isFresh = heard !== undefined && heard.by.holder === reading.holder && areClose(heard.by, reading);
  return isFresh ? { reading, heard } : { reading };
}

/**
 * Lower bound of how far our clock is ahead of the holder's, milliseconds, negative when it is behind; undefined when
 * the Lease was not renewed between the two readings, or when our clock was set between them. Pure.
 */
export function aheadOf(first: LeaseReading, second: LeaseReading): number | undefined {
  if (first.holder !== second.holder || first.renewed.getTime() === second.renewed.getTime()) return undefined;
  if (!areClose(first, second)) return undefined;
  const renewed = second.renewed.getTime();
  const [from, until] = [first.from.getTime(), second.until.getTime()];
  if (renewed < from) return from - renewed;
  return renewed > until ? until - renewed : 0;
}

/** Whether the readings are close in time, by our clock and by the uptime alike. */
function areClose(first: LeaseReading, second: LeaseReading): boolean {
  const passedMs = second.until.getTime() - first.from.getTime();
  if (passedMs < 0 || passedMs > mostApartMs) return false;
  if (first.uptime === undefined || second.uptime === undefined) return true;
  const shownMs = second.until.getTime() - first.until.getTime();
  return Math.abs(shownMs - (second.uptime - first.uptime) * 1000) < smallestJumpMs;
}

async function read(
  lease: LeaseName,
  { connection, hostName, clock }: OtherClocksOptions,
  signal: AbortSignal,
): Promise<LeaseReading | undefined> {
  const from = clock.now();
  const found = await readLease({ connection, lease, signal, timeoutMs: renewalMs }).catch(() => undefined);
  const holder = found?.spec?.holderIdentity ?? '';
  const host = holderHost(holder);
  const renewed = Date.parse(found?.spec?.renewTime ?? '');
  if (host === undefined || host === hostName || Number.isNaN(renewed)) return undefined;
  return { holder, renewed: new Date(renewed), from, until: clock.now(), uptime: clock.uptimeSeconds() };
}
