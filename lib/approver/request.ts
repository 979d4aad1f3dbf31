// CertificateSigningRequests (certificates.k8s.io/v1) as the approver reads them, and what can be said of one without
// looking into it. Pure.
import { kubeletClientSigner, type Requester } from '../bootstrap-identity.ts';
import { clockSkewMs } from '../plan/clock-rules.ts';

export const collection = '/apis/certificates.k8s.io/v1/certificatesigningrequests';

/** The requests for kubelets' client certificates; all of them, or the one of that name. */
export function requestsPath(name?: string): string {
  const selectors = [
    `spec.signerName=${kubeletClientSigner}`,
    ...(name === undefined ? [] : [`metadata.name=${name}`]),
  ];
  return `${collection}?fieldSelector=${encodeURIComponent(selectors.join(','))}`;
}

export interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
  readonly lastUpdateTime?: string | null;
  readonly lastTransitionTime?: string | null;
}

export interface SigningRequest {
  readonly metadata: {
    readonly name: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly creationTimestamp?: string | null;
  };
  /** Never changes (pkg/registry/certificates/certificates/strategy.go). */
  readonly spec: {
    /** Base64 of PEM. */
    readonly request: string;
    readonly signerName: string;
    readonly usages?: readonly string[];
    readonly expirationSeconds?: number | null;
    /** Who asked, as the API server knows it: written by the server. */
    readonly username?: string;
    readonly groups?: readonly string[];
  };
  readonly status?: {
    readonly conditions?: readonly Condition[];
    /** Base64 of PEM. */
    readonly certificate?: string;
  };
}

const deciding = new Set(['Approved', 'Denied', 'Failed']);

/** Somebody has decided, or signed: nothing is left to do for an approver. */
export function isDecided({ status }: SigningRequest): boolean {
  const { conditions = [], certificate = '' } = status ?? {};
  return certificate !== '' || conditions.some(({ type }) => deciding.has(type));
}

/** When it was approved; undefined while it is not, or was denied besides. */
export function approvedAt({ metadata, status }: SigningRequest): Date | undefined {
  const { conditions = [] } = status ?? {};
  const approval = conditions.find(({ type }) => type === 'Approved');
  if (approval === undefined || conditions.some(({ type }) => type === 'Denied')) return undefined;
  return new Date(approval.lastUpdateTime ?? approval.lastTransitionTime ?? metadata.creationTimestamp ?? 0);
}

export const requestedAt = ({ metadata }: SigningRequest): Date => new Date(metadata.creationTimestamp ?? 0);

/**
 * Whether one was asked for before the other. A date that is still to come is of a clock that has been set back since: it
 * is not later than one that has come.
 */
export function isBefore(one: Date, other: Date, now: Date): boolean {
  const latest = now.getTime() + clockSkewMs;
  const isOfWrongClock = other.getTime() > latest && one.getTime() <= latest;
  return one < other && !isOfWrongClock;
}

/** By name alone: what asks with the right name and other groups is looked at, and told. */
export function isAskedBy({ spec }: SigningRequest, { username }: Requester): boolean {
  return spec.signerName === kubeletClientSigner && spec.username === username;
}
