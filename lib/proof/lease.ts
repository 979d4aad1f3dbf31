// A client's identity is in use when its holder has renewed its Lease since the files of the identity were published:
// only a client that the API server has authenticated can renew. Judgement and one read.
import { errorText } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { leasePath } from '../kube/lease-path.ts';
import type { ProofResult } from './result.ts';

export interface RenewedLease {
  readonly spec?: { readonly holderIdentity?: string | null; readonly renewTime?: string | null };
}

export interface JudgeRenewal {
  readonly lease: RenewedLease;
  /** When the files of the identity came into their place. */
  readonly publishedAt: Date;
  readonly now: Date;
  /**
   * This node's host name. With several control-plane nodes the leader may be elsewhere; its renewals say nothing about
   * the files here.
   */
  readonly hostName?: string;
}

/** Pure. A renewal in the future is no proof: the clocks of this node and of the holder differ. */
export function judgeRenewal({ lease, publishedAt, now, hostName }: JudgeRenewal): ProofResult {
  const holder = lease.spec?.holderIdentity ?? '';
  const renewed = Date.parse(lease.spec?.renewTime ?? '');
  if (holder === '') return { state: 'unproven', message: 'The Lease has no holder', at: now };
  if (Number.isNaN(renewed)) return { state: 'unproven', message: `${holder} has never renewed the Lease`, at: now };
  const when = new Date(renewed).toISOString();
  if (hostName !== undefined && holder.slice(0, Math.max(0, holder.lastIndexOf('_'))) !== hostName) {
    return {
      state: 'notApplicable',
      message: `The Lease is held by ${holder}: this node's component stands by, which leaves no trace of its identity`,
      at: now,
    };
  }
  if (renewed > now.getTime() + skewMs) {
    return {
      state: 'unproven',
      message: `${holder} renewed the Lease in the future (${when}): a clock is wrong`,
      at: now,
    };
  }
  if (renewed > publishedAt.getTime()) {
    return {
      state: 'proven',
      message: `${holder} renewed the Lease at ${when}, after the files were published`,
      at: now,
    };
  }
  const since = `renewed at ${when}, wanted after ${publishedAt.toISOString()}`;
  return {
    state: 'unproven',
    message: `${holder} has not renewed the Lease since the files were published: ${since}`,
    at: now,
  };
}

/** Clocks of two nodes of one cluster are rarely closer. */
const skewMs = 5_000;

export interface ProveLease {
  readonly connection: KubeConnection;
  readonly namespace: string;
  readonly name: string;
  readonly publishedAt: Date;
  readonly hostName?: string | undefined;
  readonly now: () => Date;
  readonly signal: AbortSignal;
}

/** Reads the Lease and judges it; a Lease that cannot be read proves nothing. */
export async function proveLease({
  connection,
  namespace,
  name,
  signal,
  now,
  ...judged
}: ProveLease): Promise<ProofResult> {
  const path = leasePath({ namespace, name });
  try {
    const lease = await connection.request<RenewedLease>({ method: 'GET', path, signal });
    const { publishedAt, hostName } = judged;
    return judgeRenewal({ lease, publishedAt, now: now(), ...(hostName === undefined ? {} : { hostName }) });
  } catch (err) {
    return { state: 'unproven', message: errorText(err), at: now() };
  }
}
