// Whether a leader-election lease is stale: left behind by a process that the shutdown of this machine has terminated.
// Pure. kube-controller-manager and kube-scheduler wait the whole lease duration for a holder that cannot come back
// (client-go, tools/leaderelection). Releasing it early is safe only when the holder is provably dead, so everything
// that is not proven keeps the lease.
import { holderHost, type Lease } from '../kube/leases.ts';

export interface Boot {
  /** Undefined where unknown: then no lease is released. */
  readonly bootedAt: Date | undefined;
  readonly clockStepped: boolean;
}

/** Reason for which a lease is kept. */
export type LeaseReason =
  'NoHolder' | 'OtherHolder' | 'NeverRenewed' | 'RenewedSinceBoot' | 'RenewedInFuture' | 'BootUnknown' | 'ClockStepped';

interface JudgeLease extends Boot {
  readonly lease: Lease;
  /** Go's os.Hostname(), as the components see it, compared byte for byte. */
  readonly hostName: string;
  readonly now: Date;
}

/** An uptime and a clock agree within this much; a renewal so close to the boot is not known to be older. */
export const toleranceMs = 2_000;

/** Undefined: it is stale, and may be released. */
export function judgeLease({ lease, hostName, bootedAt, clockStepped, now }: JudgeLease): LeaseReason | undefined {
  const holder = lease.spec?.holderIdentity ?? '';
  if (holder === '') return 'NoHolder';
  if (holderHost(holder) !== hostName) return 'OtherHolder';
  const renewed = Date.parse(lease.spec?.renewTime ?? '');
  if (Number.isNaN(renewed)) return 'NeverRenewed';
  if (bootedAt === undefined) return 'BootUnknown';
  if (clockStepped) return 'ClockStepped';
  if (renewed > now.getTime()) return 'RenewedInFuture';
  return renewed < bootedAt.getTime() - toleranceMs ? undefined : 'RenewedSinceBoot';
}
