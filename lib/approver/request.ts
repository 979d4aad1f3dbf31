// CertificateSigningRequests (certificates.k8s.io/v1) as the approver reads them, and the rules for a kubelet's request
// of either signer. Pure. The checks of kube-controller-manager before it approves and signs
// (pkg/apis/certificates/helpers.go), and more: one common name, the request's own signature, a key of some strength,
// and nothing that a kubelet does not request (k8s.io/client-go/util/certificate: a subject as Go writes it, no
// lifetime).
import { bounds } from '../bounds.ts';
import { nodePrefix, nodesGroup } from '../well-known.ts';
import { dnsSubdomain } from '../inventory/values.ts';
import type { ReceivedRequest } from '../kube/received.ts';
import { collectionPath, selectorValue, withQuery } from '../kube/resources.ts';
import type { CertificateRequest } from '../pki/csr.ts';
import { algorithmText } from '../pki/key.ts';
import { clockSkewMs } from '../pki/certificate.ts';

/** Path of the requests for one signer; all of them, or the request of that name. */
export function requestsPath(signer: string, name?: string): string {
  const selectors = [
    `spec.signerName=${signer}`,
    ...(name === undefined ? [] : [`metadata.name=${selectorValue(name)}`]),
  ];
  return withQuery(collectionPath('CertificateSigningRequest'), { fieldSelector: selectors.join(',') });
}

/** The API server admits none without these. */
export interface SigningRequest extends ReceivedRequest {
  readonly metadata: NonNullable<ReceivedRequest['metadata']> & { readonly name: string };
  /** Never changes (pkg/registry/certificates/certificates/strategy.go). */
  readonly spec: NonNullable<ReceivedRequest['spec']> & {
    /** Base64 of PEM. */
    readonly request: string;
    readonly signerName: string;
  };
}

const deciding = new Set(['Approved', 'Denied', 'Failed']);

/** Whether it was decided, or signed: nothing is left to do for an approver. */
export function isDecided({ status }: SigningRequest): boolean {
  const { conditions = [], certificate = '' } = status ?? {};
  return certificate !== '' || conditions.some(({ type }) => deciding.has(type ?? ''));
}

/** Time of the approval; undefined: not approved, or denied as well. */
export function approvedAt({ metadata, status }: SigningRequest): Date | undefined {
  const { conditions = [] } = status ?? {};
  const approval = conditions.find(({ type }) => type === 'Approved');
  if (approval === undefined || conditions.some(({ type }) => type === 'Denied')) return undefined;
  return new Date(approval.lastUpdateTime ?? approval.lastTransitionTime ?? metadata.creationTimestamp ?? 0);
}

export const requestedAt = ({ metadata }: SigningRequest): Date => new Date(metadata.creationTimestamp ?? 0);

/**
 * Whether one request was created before the other. A date in the future is of a clock that has been set back since: it
 * is not later than a date in the past.
 */
export function isBefore(one: Date, other: Date, now: Date): boolean {
  const latest = now.getTime() + clockSkewMs;
  const isOfWrongClock = other.getTime() > latest && one.getTime() <= latest;
  return one < other && !isOfWrongClock;
}

export type ShapeReason =
  | 'RequestTooLarge'
  | 'RequesterUnknown'
  | 'RequesterDiffers'
  | 'RequesterUnsuitable'
  | 'RequestUnreadable'
  | 'SignatureInvalid'
  | 'SubjectUnsuitable'
  | 'NamesForbidden'
  | 'NameOfCluster'
  | 'NamesMissing'
  | 'ExtensionForbidden'
  | 'UsagesUnsuitable'
  | 'LifetimeUnsuitable'
  | 'KeyTooWeak';

/** Parsed request; a problem where it cannot be parsed. */
export type Content = CertificateRequest | { readonly problem: string };

/** Verdict on the request itself, which never changes. */
export interface Unsuitable {
  readonly action: 'leave';
  readonly reason: ShapeReason;
  readonly message: string;
}

const leastRsaBits = 2048;
const largestSize = bounds.request.most.bytes;
/** Longest name of a request that is read. */
export const longestName = bounds.request.most['characters in its name'];

export const unsuitable = (reason: ShapeReason, message: string): Unsuitable => ({ action: 'leave', reason, message });
export const quoted = (texts: readonly string[]): string =>
  texts.map((text) => JSON.stringify(text)).join(', ') || 'none';

/** The name in `system:node:<name>`; undefined where no Node can have that name. */
export function nodeOf(commonName: string): string | undefined {
  const name = commonName.startsWith(nodePrefix) ? commonName.slice(nodePrefix.length) : '';
  return dnsSubdomain.test(name) ? name : undefined;
}

export const nodeOfClusterName = (node: string): string =>
  `${quoted([node])} is a name of the API server or of Services, so no node of this name gets a certificate`;

/** Checked before the request is read again: a request that is too large never stays in memory after its refusal. */
export function judgeSize(size: number): Unsuitable | undefined {
  if (size <= largestSize) return undefined;
  return unsuitable('RequestTooLarge', `it has more than ${largestSize} bytes: no kubelet sends so much`);
}

export function judgeSignature({ provesPossession }: CertificateRequest): Unsuitable | undefined {
  if (provesPossession) return undefined;
  return unsuitable('SignatureInvalid', 'it is not signed by the key that it asks a certificate for');
}

/** `wanted`: node that the subject must name; undefined: any node. */
export function judgeSubject(content: CertificateRequest, wanted?: string): Unsuitable | undefined {
  const node = nodeOf(content.subject.commonName);
  if (node === undefined || (wanted !== undefined && node !== wanted) || !isNodeSubject(content)) {
    const subject = `wanted "CN=${nodePrefix}${wanted ?? '<node>'},O=${nodesGroup}" and nothing else`;
    return unsuitable('SubjectUnsuitable', `its subject is ${quoted([content.subject.text])}, ${subject}`);
  }
  if (content.unusualSubject === undefined) return undefined;
  const message = `its subject has ${content.unusualSubject}, wanted single values of PrintableString or UTF8String`;
  return unsuitable('SubjectUnsuitable', message);
}

function isNodeSubject({ subject: { attributes } }: CertificateRequest): boolean {
  const [organization] = attributes.filter(({ type }) => type === 'O');
  return (
    attributes.length === 2 &&
    organization?.value === nodesGroup &&
    attributes.filter(({ type }) => type === 'CN').length === 1
  );
}

/** Judges the spec fields next to the signed request, which no signature covers. */
export function judgeSpec({ spec }: SigningRequest, purpose: 'client auth' | 'server auth'): Unsuitable | undefined {
  const { usages = [], expirationSeconds } = spec;
  const wantedUsages = [purpose, 'digital signature'];
  const allowedUsages = [...wantedUsages, 'key encipherment'];
  if (
    !wantedUsages.every((usage) => usages.includes(usage)) ||
    !usages.every((usage) => allowedUsages.includes(usage))
  ) {
    const wanted = `wanted ${quoted(wantedUsages)}, and "key encipherment" or not`;
    return unsuitable('UsagesUnsuitable', `its usages are ${quoted(usages)}, ${wanted}`);
  }
  if (expirationSeconds === undefined || expirationSeconds === null) return undefined;
  const message = `it asks for a life of ${expirationSeconds} s (expirationSeconds), wanted none: the signer decides`;
  return unsuitable('LifetimeUnsuitable', message);
}

export function judgeKey({ key }: CertificateRequest): Unsuitable | undefined {
  if (key.name !== 'RSA' || key.bits >= leastRsaBits) return undefined;
  return unsuitable('KeyTooWeak', `its key is ${algorithmText(key)}, wanted ${leastRsaBits} bits at least`);
}
