// Stale leader-election Leases on a host with short runs: released once for each boot, at the API server's first
// answer. The first run after a boot waits for that answer, because a leader that starts waits fifteen seconds from
// then on; later runs try once each, until the release is done. A note in the directory of the lock records it.
import type { Clock } from '../clock.ts';
import { errorText, isCode } from '../errors.ts';
import type { RunState } from '../host/state.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { type LeaseName, readLease } from '../kube/leases.ts';
import type { Running } from '../log.ts';
import { retry } from '../retry.ts';
import type { Boot } from './judge-lease.ts';
import { releaseStaleLeases } from './stale-leases.ts';

interface BootRelease extends Running {
  /** Runs one piece of work with a connection as this host. */
  readonly asHost: (work: (connection: KubeConnection) => Promise<void>) => Promise<void>;
  readonly leases: readonly LeaseName[];
  /** Go's os.Hostname(), as kube-controller-manager and kube-scheduler see it. */
  readonly hostName: string;
  /** Observed since the start of the process. */
  readonly boot: () => Boot;
  readonly state: RunState;
  /** Time that the first run after a boot waits for an answer, milliseconds. */
  readonly patienceMs?: number;
}

const askMs = 3000;
const everyMs = 250;
/** A healthy control plane answers within ten seconds after its kubelet; a slower one waits for other machines. */
const defaultPatienceMs = 60_000;

/** Releases the Leases once for each boot. Never rejects: a Lease that stays costs its duration. */
export async function releaseAfterBoot(options: BootRelease): Promise<void> {
  const { asHost, leases, hostName, boot, state, clock, log, signal } = options;
  const [first] = leases;
  const before = (await state.getText('leases'))?.value;
  if (first === undefined || before === 'done') return;
  const note = (outcome: 'asked' | 'done'): Promise<void> => state.keep('leases', outcome);
  const wasHere = before !== undefined;
  try {
    if (!wasHere) await note('asked');
    const forMs = wasHere ? 0 : (options.patienceMs ?? defaultPatienceMs);
    await asHost(async (connection) => {
      const wasAway = await answered(connection, first, { clock, signal, forMs });
      if (wasAway === undefined) return;
      await releaseStaleLeases({ connection, leases, hostName, boot, clock, log, signal, mayHaveRenewed: !wasAway });
      await note('done');
    });
  } catch (err) {
    if (signal.aborted) return;
    // Such as a CA whose key is elsewhere: the next run would meet the same error.
    log.warn('lease.skipped', { reason: 'Failed', err: errorText(err) });
    await note('done');
  }
}

/** Whether the API server was away before its first answer, of any kind; undefined when it has not answered. */
async function answered(
  connection: KubeConnection,
  lease: LeaseName,
  { clock, signal, forMs }: { readonly clock: Clock; readonly signal: AbortSignal; readonly forMs: number },
): Promise<boolean | undefined> {
  let wasAway = false;
  const isAway = (err: unknown): boolean => isCode(err, 'KubeUnavailable', 'KubeWrongAnswer');
  const ask = (): Promise<unknown> => readLease({ connection, lease, signal, timeoutMs: askMs });
  const isPassing = (err: unknown): boolean => {
    wasAway ||= isAway(err);
    return isAway(err);
  };
  return retry(ask, isPassing, { forMs, everyMs, clock, signal }).then(
    () => wasAway,
    (err: unknown) => (isAway(err) || signal.aborted ? undefined : wasAway),
  );
}
