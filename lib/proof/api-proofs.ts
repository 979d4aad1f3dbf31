// Proofs by the API server: the query of each kind, and the judgement of the answer (pure).
import { X509Certificate } from 'node:crypto';
import type { KubeConnection } from '../kube/kube.ts';
import { holderHost, type Lease } from '../kube/leases.ts';
import { list } from '../kube/list.ts';
import type { ApiService, ReceivedRequest } from '../kube/received.ts';
import { collectionPath } from '../kube/resources.ts';
import type { ProofResult } from './result.ts';

/** API server to query. */
export interface ApiProof {
  readonly connection: KubeConnection;
  readonly signal: AbortSignal;
}

export interface JudgeRenewal {
  readonly lease: Lease;
  /** Time at which the files of the identity were put in place. */
  readonly publishedAt: Date;
  readonly now: Date;
  /**
   * This node's host name. With several control-plane nodes the leader may be elsewhere; its renewals prove nothing
   * about the files here.
   */
  readonly hostName?: string | undefined;
}

/** Tolerated difference of clocks: clocks of two nodes of one cluster are rarely closer. */
const skewMs = 5_000;

/**
 * A client's identity is in use when its holder has renewed its Lease since the files of the identity were published:
 * only a client that the API server has authenticated can renew. A renewal in the future is no proof: the clocks of
 * this node and of the holder differ.
 */
export function judgeRenewal({ lease, publishedAt, now, hostName }: JudgeRenewal): ProofResult {
  const say = (state: ProofResult['state'], message: string): ProofResult => ({ state, message });
  const holder = lease.spec?.holderIdentity ?? '';
  const renewed = Date.parse(lease.spec?.renewTime ?? '');
  if (holder === '') return say('unproven', 'The Lease has no holder');
  if (Number.isNaN(renewed)) return say('unproven', `${holder} has never renewed the Lease`);
  const when = new Date(renewed).toISOString();
  if (hostName !== undefined && holderHost(holder) !== hostName) {
    const state = "this node's component stands by, which leaves no trace of its identity";
    return say('notApplicable', `The Lease is held by ${holder}: ${state}`);
  }
  if (renewed > now.getTime() + skewMs) {
    return say('unproven', `${holder} renewed the Lease in the future (${when}): a clock is wrong`);
  }
  if (renewed > publishedAt.getTime()) {
    return say('proven', `${holder} renewed the Lease at ${when}, after the files were published`);
  }
  const since = `renewed at ${when}, wanted after ${publishedAt.toISOString()}`;
  return say('unproven', `${holder} has not renewed the Lease since the files were published: ${since}`);
}

/**
 * The proxy client of kube-apiserver's aggregator is in use when an aggregated API is available: the aggregator's own
 * check calls its backend with that certificate. The health of a backend is not this program's concern, so this is
 * reported and never holds up recovery. Only APIServices with a Service go through the proxy; the rest are
 * kube-apiserver's own.
 */
export function judgeProxied(services: readonly ApiService[]): ProofResult {
  const remote = services.filter(({ spec }) => spec?.service !== undefined && spec.service !== null);
  if (remote.length === 0) return { state: 'notApplicable', message: 'No aggregated API is registered' };
  const conditionOf = (service: ApiService) => service.status?.conditions?.find(({ type }) => type === 'Available');
  const available = remote.find((service) => conditionOf(service)?.status === 'True');
  if (available !== undefined) {
    const name = available.metadata?.name ?? '';
    return { state: 'proven', message: `APIService "${name}" is available through the aggregator` };
  }
  const states = remote.map(
    (service) => `"${service.metadata?.name ?? ''}" (${conditionOf(service)?.reason ?? 'not checked yet'})`,
  );
  return { state: 'unproven', message: `No aggregated API is available: APIService ${states.join(', ')}` };
}

/** Throws the connection's errors. */
export async function proveProxied({ connection, signal }: ApiProof): Promise<ProofResult> {
  const path = collectionPath('APIService');
  const { items } = await connection.request<{ readonly items?: readonly ApiService[] }>({
    method: 'GET',
    path,
    signal,
  });
  return judgeProxied(items ?? []);
}

/**
 * Whether a request was answered with a certificate that the present signer's key has signed. `signer`: PEM of its
 * certificate now on disk.
 */
export function isSignedBy(signer: string): (request: ReceivedRequest) => boolean {
  const authority = parse(signer);
  return ({ status }) => {
    const leaf = parse(Buffer.from(status?.certificate ?? '', 'base64').toString());
    return authority !== undefined && leaf?.verify(authority.publicKey) === true;
  };
}

/** Judges by the name of a request signed by the present signer; undefined: there is none. */
export function judgeSigned(name: string | undefined): ProofResult {
  return name === undefined
    ? { state: 'unproven', message: 'No CertificateSigningRequest has been signed by the present signer yet' }
    : { state: 'proven', message: `CertificateSigningRequest "${name}" was signed by the present signer` };
}

function parse(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined; // empty, or content from a foreign signer: not the present signer's
  }
}

/** Requests are small, unless a user makes them large: then list() requests fewer. */
const pageSize = 200;
/** kube-controller-manager removes issued requests after an hour; more than this many mean a flood. */
const enough = { read: 2000 };

/**
 * A CSR signer is in use when a certificate that kube-controller-manager issued carries its signature. Passive: it
 * reads issued requests and creates none, because another user could approve it. `signer`: PEM of its certificate now
 * on disk. Throws the connection's errors.
 */
export async function proveSignsCsr(signer: string, { connection, signal }: ApiProof): Promise<ProofResult> {
  const path = collectionPath('CertificateSigningRequest');
  const isSigned = isSignedBy(signer);
  const keep = (request: ReceivedRequest): string | undefined =>
    isSigned(request) ? (request.metadata?.name ?? '') : undefined;
  const { objects } = await list({ connection, path, pages: { size: pageSize, keep, enough }, signal });
  return judgeSigned(objects[0]);
}
