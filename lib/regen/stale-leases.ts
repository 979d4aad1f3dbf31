// Releases stale leader-election leases once, at the API server's first answer: one GET and one PUT with the
// resourceVersion that was read, so that a holder who renews in between wins. After a conflict the lease is read once
// more, then kept: its holder lives. A starting API server does not answer all requests alike (its caches of rights
// fill one after the other), so a refused request is repeated for some seconds. Nothing here fails recovery; a lease
// that stays costs its duration.
import type { Clock } from '../clock.ts';
import { errorText, isCode } from '../errors.ts';
import { kernelBootTimeMs } from '../host/proc.ts';
import { unanswered } from '../kube/api-error.ts';
import type { KubeConnection } from '../kube/kube.ts';
import {
  type Lease,
  type LeaseName,
  type LeaseRequest,
  type LeaseSpec,
  readLease,
  updateLease,
} from '../kube/leases.ts';
import type { Running } from '../log.ts';
import { retry } from '../retry.ts';
import { type Boot, judgeLease, type LeaseReason, toleranceMs } from './judge-lease.ts';

export interface ReleaseOptions extends Running {
  readonly connection: KubeConnection;
  readonly leases: readonly LeaseName[];
  /** Go's os.Hostname(), as kube-controller-manager and kube-scheduler see it. */
  readonly hostName: string;
  /**
   * Result of observeBoot at the start of the process; without it a step of the clock before this call stays unseen.
   */
  readonly boot?: () => Boot;
  /**
   * The API server answered before this process read it, so a holder may have renewed in this boot by a clock that was
   * set since: it gets the time of one renewal first. Default: false.
   */
  readonly mayHaveRenewed?: boolean;
  /**
   * Time for which requests to a server that refuses are repeated, milliseconds. Default 10,000: a lease lasts little
   * longer.
   */
  readonly patienceMs?: number;
}

type KeptReason = LeaseReason | 'NotFound' | 'Conflict' | 'Failed';

type ReleaseOutcome = LeaseName &
  (
    | { readonly outcome: 'released'; readonly holder: string }
    | { readonly outcome: 'kept'; readonly reason: KeptReason }
  );

const attempts = 2;
const defaultPatienceMs = 10_000;
const pauseMs = 250;

/** Judges each lease and releases the stale ones. Resolves when all are decided; never rejects. */
export async function releaseStaleLeases(options: ReleaseOptions): Promise<readonly ReleaseOutcome[]> {
  const { clock, signal, boot = observeBoot(clock), patienceMs: forMs = defaultPatienceMs } = options;
  // Errors while the server starts are no answer yet.
  const isStarting = (err: unknown): boolean => isCode(err, ...unanswered);
  return Promise.all(
    options.leases.map(async ({ namespace, name }) => {
      const log = options.log.with({ namespace, lease: name });
      try {
        const release = (): Promise<ReleaseOutcome> => releaseOne({ namespace, name }, boot, options);
        const outcome = await retry(release, isStarting, { forMs, everyMs: pauseMs, clock, signal });
        if (outcome.outcome === 'released') log.info('lease.released', { message: `holder was ${outcome.holder}` });
        else log.info('lease.skipped', { reason: outcome.reason });
        return outcome;
      } catch (err) {
        log.warn('lease.skipped', { reason: 'Failed', err: errorText(err) });
        return { namespace, name, outcome: 'kept', reason: 'Failed' };
      }
    }),
  );
}

/**
 * Whether its holder renews it while we wait: a live holder does so more often than five times in a lease's duration
 * (client-go: every 2 s of 15, in OpenShift every 26 s of 137). Throws errors of the connection, and when it is
 * stopped.
 */
async function isRenewed(found: Lease, request: LeaseRequest, clock: Clock): Promise<boolean> {
  await clock.sleep(((found.spec?.leaseDurationSeconds ?? 15) * 1000) / 5, request.signal);
  const again = await readLease(request);
  return again.metadata?.resourceVersion !== found.metadata?.resourceVersion;
}

async function releaseOne(lease: LeaseName, boot: () => Boot, options: ReleaseOptions): Promise<ReleaseOutcome> {
  const { connection, hostName, clock, signal, mayHaveRenewed = false } = options;
  const request: LeaseRequest = { connection, lease, signal };
  const kept = (reason: KeptReason): ReleaseOutcome => ({ ...lease, outcome: 'kept', reason });
  let outcome = kept('NotFound');
  const release = async (found: Lease): Promise<LeaseSpec | undefined> => {
    const reason = judgeLease({ lease: found, hostName, ...boot(), now: clock.now() });
    const isLive = reason === undefined && mayHaveRenewed && (await isRenewed(found, request, clock));
    const keptFor = isLive ? 'RenewedSinceBoot' : reason;
    outcome = keptFor ? kept(keptFor) : { ...lease, outcome: 'released', holder: found.spec?.holderIdentity ?? '' };
    return keptFor ? undefined : { ...found.spec, holderIdentity: '' };
  };
  try {
    return (await updateLease(request, release, attempts)) === 'absent' ? kept('NotFound') : outcome;
  } catch (err) {
    if (!isCode(err, 'KubeNotFound', 'KubeConflict')) throw err;
    return kept(err.code === 'KubeNotFound' ? 'NotFound' : 'Conflict');
  }
}

function bootTimeMs(clock: Clock): number | undefined {
  const uptime = clock.uptimeSeconds();
  return uptime === undefined ? undefined : clock.now().getTime() - uptime * 1000;
}

/**
 * Time at which this machine was booted, and whether that is reliable. A lease's renewal is a wall-clock time, so a
 * clock that was stepped since the boot would place renewals of a living holder before it. The boot time is computed
 * now (call it when the process starts) and at each call of the result: a step in between moves it. It is also compared
 * with the kernel's own: where /proc/uptime is not the machine's (lxcfs, time namespaces) the two differ, and nothing
 * is known.
 * NOTE: a step between the boot and the start of this process cannot be seen; btime moves with the clock. So a holder
 * that may have renewed in that time is watched before its lease is released (mayHaveRenewed).
 */
export function observeBoot(clock: Clock, kernel: () => number | undefined = kernelBootTimeMs): () => Boot {
  const atStart = bootTimeMs(clock);
  return () => {
    const present = bootTimeMs(clock);
    const byKernel = kernel();
    if (atStart === undefined || present === undefined || byKernel === undefined) {
      return { bootedAt: undefined, clockStepped: false };
    }
    // btime has whole seconds only, hence one more.
    const differs = Math.abs(byKernel - present) > toleranceMs + 1_000;
    return { bootedAt: new Date(present), clockStepped: differs || Math.abs(atStart - present) > toleranceMs };
  };
}
