// Proof of possession: a request that is signed with the key of the node's expired certificate, and shows that
// certificate. The holder of the key was the node until the certificate expired; so it is believed as long as nothing
// indicates that the node has had another certificate since. Pure.
//
// - The certificate shown: one, with the key and the subject of the request, for a client, from a CA that the API
//   server trusts, and expired. It is verified at its own notAfter, because its CA may have expired since.
// - The node: its Node exists, was created with that certificate or before it, and is the one for which the key was
//   recorded; it has not spoken after that notAfter; and no certificate with another key and the same or a later
//   notAfter is known as its newest. One that ended earlier is not known as newer: that is left to the signs of life.
//
// A later certificate with the same key is no objection: the holder of the key has that certificate as well, or has
// lost it.
import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { expiredCertificateAnnotation, issuedCertificatesName, type Requester } from '../bootstrap-identity.ts';
import { durationText } from '../duration.ts';
import { isCode } from '../errors.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import type { CertificateRequest } from '../pki/csr.ts';
import type { DistinguishedName } from '../pki/names.ts';
import { verifyChain } from '../pki/verify.ts';
import type { KnownNode, NodeFacts } from './node-state.ts';
import type { SigningRequest } from './request.ts';
import { lastSign, registered, skewMs } from './signs-of-life.ts';

export type PossessionReason =
  | 'CertificateNotShown'
  | 'CertificateNotTrusted'
  | 'CertificateSuperseded'
  | 'CertificateUnreadable'
  | 'KeyDiffers'
  // Same meaning as for the certificate on this machine:
  | 'CertificateOfOtherNode'
  | 'CertificateStillValid';

interface NotProven {
  readonly reason: PossessionReason;
  readonly message: string;
}

const refuse = (reason: PossessionReason, message: string): NotProven => ({ reason, message });

/** Inputs for a request that shows a certificate, or must. */
export interface Possession {
  readonly content: CertificateRequest;
  /** CAs for clients, as the API server trusts them now. */
  readonly authorities: readonly Certificate[];
}

export const shownCertificate = ({ metadata }: SigningRequest): string | undefined =>
  metadata.annotations?.[expiredCertificateAnnotation];

/**
 * Whether the request is judged by the certificate that it shows. For this machine's own node the certificate file is
 * checked instead, unless the requester must show one.
 */
export const isByPossession = (
  request: SigningRequest,
  requester: Requester,
  { own }: Pick<NodeFacts, 'own'>,
): boolean => requester.mustShowCertificate === true || (own === undefined && shownCertificate(request) !== undefined);

/** Identifies a key: SHA-256 of the public key with its algorithm, lower-case hex. */
export const keyHash = (publicKeyInfo: Buffer): string => hash('sha256', publicKeyInfo);

interface Showing extends Possession {
  /** PEM; undefined: no certificate is shown. */
  readonly shown: string | undefined;
  readonly now: Date;
}

/** Judges the certificate that the request shows, without regard to the node. */
export function judgeShown({ shown, content, authorities, now }: Showing): { readonly leaf: Certificate } | NotProven {
  if (shown === undefined) {
    const message = `its requester must show the node's expired certificate (annotation ${expiredCertificateAnnotation}), and it shows none`;
    return refuse('CertificateNotShown', message);
  }
  const read = readShown(shown);
  if ('reason' in read) return read;
  const { leaf } = read;
  const { facts, fields } = leaf;
  if (!fields.publicKeyInfo.equals(content.publicKeyInfo)) {
    return refuse('KeyDiffers', 'the request has another key than the certificate that it shows');
  }
  if (!isDeepStrictEqual(attributesOf(fields.subject), attributesOf(content.subject))) {
    const message = `it shows the certificate of ${JSON.stringify(facts.subject)} and asks for ${JSON.stringify(content.subject.text)}`;
    return refuse('CertificateOfOtherNode', message);
  }
  const untrusted = trustProblem(leaf, authorities);
  if (untrusted !== undefined) {
    const message = `the certificate that it shows is none by which a node can speak: ${untrusted}`;
    return refuse('CertificateNotTrusted', message);
  }
  if (facts.notAfter.getTime() + skewMs > now.getTime()) {
    const message = `the certificate that it shows is valid until ${facts.notAfter.toISOString()}; clocks may differ, wanted ${durationText(skewMs)} since then`;
    return refuse('CertificateStillValid', message);
  }
  return { leaf };
}

function readShown(pem: string): { readonly leaf: Certificate } | NotProven {
  try {
    const [leaf, ...others] = parseCertificates(Buffer.from(pem), `annotation ${expiredCertificateAnnotation}`);
    if (leaf !== undefined && others.length === 0) return { leaf };
    return refuse('CertificateUnreadable', `it shows ${others.length + 1} certificates, wanted that of the node alone`);
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return refuse('CertificateUnreadable', err.message);
    throw err;
  }
}

/** The order of the attributes means nothing. */
const attributesOf = ({ attributes }: DistinguishedName): readonly string[] =>
  attributes.map(({ type, value }) => JSON.stringify([type, value])).toSorted();

function trustProblem(leaf: Certificate, roots: readonly Certificate[]): string | undefined {
  const { usages, notAfter } = leaf.facts;
  // Go takes a certificate without extended key usage for a client's; no kubelet's was ever made so.
  if (usages?.includes('clientAuth') !== true) return 'it is not for a client (extended key usage)';
  const answer = verifyChain({ leaf, intermediates: [], roots, at: notAfter, usage: 'clientAuth' });
  return answer.ok ? undefined : answer.reason;
}

/**
 * Time from the first certificate to the Node that a kubelet creates with it: seconds; and a signer dates back by five
 * minutes.
 */
const registersMs = 15 * 60_000;

/** Judges the history of the node since the certificate shown; undefined: no objection. */
export function judgeSince(leaf: Certificate, facts: KnownNode, now: Date): NotProven | undefined {
  const { notBefore, notAfter } = leaf.facts;
  const key = keyHash(leaf.fields.publicKeyInfo);
  const shownUntil = `the certificate that it shows ended at ${notAfter.toISOString()}`;
  let end = notAfter;
  for (const { until, ofKey, source } of knownCertificates(facts)) {
    if (until === undefined) {
      const message = `nobody can tell whether the node has had a newer certificate: its entry in ${source} cannot be read; delete it`;
      return refuse('CertificateSuperseded', message);
    }
    if (until < notAfter) continue;
    if (ofKey !== key) {
      const message = `${shownUntil}, and one with another key until ${until.toISOString()} was issued to the node (${source}); approve by hand if its kubelet has lost that`;
      return refuse('CertificateSuperseded', message);
    }
    // With a certificate valid now the node could speak, and would not request.
    if (until > end && until <= now) end = until;
  }
  const { recorded } = facts;
  const { createdAt, uid } = facts.node;
  if (recorded?.key === key && recorded.nodeUid !== undefined && recorded.nodeUid !== uid) {
    const message = `the key of the certificate that it shows was that of a former Node of this name, with UID ${recorded.nodeUid} (ConfigMap ${issuedCertificatesName}); approve by hand if it is the same machine`;
    return refuse('CertificateSuperseded', message);
  }
  if (createdAt > notAfter) {
    const message = `${shownUntil}, and the Node was made at ${createdAt.toISOString()}: the node has had a newer one since`;
    return refuse('CertificateSuperseded', message);
  }
  const isOfThisNode = recorded?.key === key && recorded.nodeUid !== undefined;
  if (!isOfThisNode && createdAt.getTime() > notBefore.getTime() + registersMs) {
    const message = `the certificate that it shows began at ${notBefore.toISOString()}, and the Node was made at ${createdAt.toISOString()}: it may be of a former machine of that name; approve by hand if it is not`;
    return refuse('CertificateSuperseded', message);
  }
  const [spokeAt, sign] = lastSign(facts, now);
  if (sign === registered || spokeAt.getTime() <= end.getTime() + skewMs) return undefined;
  const message = `${shownUntil}, and the node ${sign} at ${spokeAt.toISOString()}: it has had a newer one since`;
  return refuse('CertificateSuperseded', message);
}

interface KnownCertificate {
  /** Undefined: the entry cannot be read. */
  readonly until: Date | undefined;
  readonly ofKey: string | undefined;
  readonly source: string;
}

function knownCertificates({ issuedUntil, issuedKey, recorded }: NodeFacts): readonly KnownCertificate[] {
  const source = `ConfigMap ${issuedCertificatesName}`;
  return [
    ...(issuedUntil === undefined
      ? []
      : [{ until: issuedUntil, ofKey: issuedKey, source: 'its CertificateSigningRequest' }]),
    ...(recorded === undefined ? [] : [{ until: recorded.until, ofKey: recorded.key, source }]),
  ];
}
