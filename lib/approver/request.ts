// CertificateSigningRequests (certificates.k8s.io/v1) as the approver reads them, and whether one is what a kubelet sends
// when it has no client certificate, from the bootstrap identity and for the signer of kubelets' client certificates.
// Pure. What kube-controller-manager asks before it approves and signs (pkg/apis/certificates/helpers.go,
// ValidateKubeletClientCSR), and more: one common name, the request's own signature, a key of some strength, and nothing
// that a kubelet does not ask for (k8s.io/client-go/util/certificate: a subject as Go writes it, no attribute, no
// extension, no lifetime).
import { isDeepStrictEqual } from 'node:util';
import { nodePrefix, nodesGroup } from '../well-known.ts';
import { isOf, kubeletClientSigner, type Requester } from '../bootstrap-identity.ts';
import { dnsSubdomain } from '../inventory/values.ts';
import { collectionPath, withQuery } from '../kube/resources.ts';
import type { CertificateRequest } from '../pki/csr.ts';
import { algorithmText } from '../pki/key.ts';
import { clockSkewMs } from '../plan/clock-rules.ts';

/** The requests for kubelets' client certificates; all of them, or the one of that name. */
export function requestsPath(name?: string): string {
  const selectors = [
    `spec.signerName=${kubeletClientSigner}`,
    ...(name === undefined ? [] : [`metadata.name=${name}`]),
  ];
  return withQuery(collectionPath('CertificateSigningRequest'), { fieldSelector: selectors.join(',') });
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

/** It was decided, or signed: nothing is left to do for an approver. */
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

/** By name alone: what asks with the right name and other groups is looked at, and reported. */
export function requesterIn({ spec }: SigningRequest, requesters: readonly Requester[]): Requester | undefined {
  return spec.signerName === kubeletClientSigner ? requesters.find((one) => isOf(one, spec.username)) : undefined;
}

export type ShapeReason =
  | 'RequestTooLarge'
  | 'RequesterUnknown'
  | 'RequesterDiffers'
  | 'RequestUnreadable'
  | 'SignatureInvalid'
  | 'SubjectUnsuitable'
  | 'NamesForbidden'
  | 'ExtensionForbidden'
  | 'UsagesUnsuitable'
  | 'LifetimeUnsuitable'
  | 'KeyTooWeak';

/** What the request holds; a problem where it cannot be read. */
export type Content = CertificateRequest | { readonly problem: string };

interface Unsuitable {
  readonly action: 'leave';
  readonly reason: ShapeReason;
  readonly message: string;
}

type Shape =
  /** None of ours, or decided already: nothing is said about it. */
  | { readonly action: 'ignore' }
  | Unsuitable
  /** A kubelet's request for the certificate of `node`: the facts about that node decide. */
  | { readonly action: 'judge'; readonly node: string };

const wantedUsages = ['client auth', 'digital signature'];
const allowedUsages = [...wantedUsages, 'key encipherment'];
const leastRsaBits = 2048;
/** A kubelet's has about 2500, labels and field owners included; with an RSA key of 16 384 bits it would have 10 000. */
const largestSize = 65_536;

const unsuitable = (reason: ShapeReason, message: string): Unsuitable => ({ action: 'leave', reason, message });
const quoted = (texts: readonly string[]): string => texts.map((text) => JSON.stringify(text)).join(', ') || 'none';

/** The name in `system:node:<name>`; undefined where it is no name that a Node can have. */
export function nodeOf(commonName: string): string | undefined {
  const name = commonName.startsWith(nodePrefix) ? commonName.slice(nodePrefix.length) : '';
  return dnsSubdomain.test(name) ? name : undefined;
}

/** Before the request is read again: what is too large is never in memory for longer than it takes to say so. */
export function judgeSize(size: number): Unsuitable | undefined {
  if (size <= largestSize) return undefined;
  return unsuitable(
    'RequestTooLarge',
    `it has ${size} characters, wanted ${largestSize} at most: no kubelet sends so much`,
  );
}

/** The rules in their order; the first that fails is the reason. */
export function judgeShape(request: SigningRequest, content: Content, requesters: readonly Requester[]): Shape {
  const requester = requesterIn(request, requesters);
  if (requester === undefined || isDecided(request)) return { action: 'ignore' };
  const { groups = [], usages = [], expirationSeconds } = request.spec;
  if (!isDeepStrictEqual(new Set(groups), new Set(requester.groups))) {
    return unsuitable(
      'RequesterDiffers',
      `its requester has the groups ${quoted(groups)}, wanted ${quoted(requester.groups)}`,
    );
  }
  if ('problem' in content) return unsuitable('RequestUnreadable', content.problem);
  if (!content.provesPossession) {
    return unsuitable('SignatureInvalid', 'it is not signed by the key that it asks a certificate for');
  }
  const node = nodeOf(content.subject.commonName);
  if (node === undefined || !isNodeSubject(content)) {
    const wanted = `wanted "CN=${nodePrefix}<node>,O=${nodesGroup}" and nothing else`;
    return unsuitable('SubjectUnsuitable', `its subject is ${quoted([content.subject.text])}, ${wanted}`);
  }
  if (content.unusualSubject !== undefined) {
    const message = `its subject has ${content.unusualSubject}, wanted single values of PrintableString or UTF8String`;
    return unsuitable('SubjectUnsuitable', message);
  }
  if (content.alternativeNames.length > 0) {
    const names = content.alternativeNames.map(({ kind, value }) => `${kind} ${value}`);
    return unsuitable('NamesForbidden', `it asks for alternative names (${quoted(names)}), a client has none`);
  }
  if (content.wantsCa) return unsuitable('ExtensionForbidden', 'it asks for the rights of a CA');
  if (content.extensions.length > 0) {
    return unsuitable(
      'ExtensionForbidden',
      `it asks for extensions, a kubelet for none: ${quoted(content.extensions)}`,
    );
  }
  if (content.attributes.length > 0) {
    return unsuitable('ExtensionForbidden', `it has attributes that no kubelet sends: ${quoted(content.attributes)}`);
  }
  if (
    !wantedUsages.every((usage) => usages.includes(usage)) ||
    !usages.every((usage) => allowedUsages.includes(usage))
  ) {
    const wanted = `wanted ${quoted(wantedUsages)}, and "key encipherment" or not`;
    return unsuitable('UsagesUnsuitable', `its usages are ${quoted(usages)}, ${wanted}`);
  }
  // Beside the signed request, so no signature covers it.
  if (expirationSeconds !== undefined && expirationSeconds !== null) {
    const message = `it asks for a life of ${expirationSeconds} s (expirationSeconds), wanted none: the signer decides`;
    return unsuitable('LifetimeUnsuitable', message);
  }
  if (content.key.name === 'RSA' && content.key.bits < leastRsaBits) {
    return unsuitable('KeyTooWeak', `its key is ${algorithmText(content.key)}, wanted ${leastRsaBits} bits at least`);
  }
  return { action: 'judge', node };
}

function isNodeSubject({ subject: { attributes } }: CertificateRequest): boolean {
  const [organization] = attributes.filter(({ type }) => type === 'O');
  return (
    attributes.length === 2 &&
    organization?.value === nodesGroup &&
    attributes.filter(({ type }) => type === 'CN').length === 1
  );
}
