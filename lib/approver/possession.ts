// Proof of possession: a request that is signed with the key of the node's expired certificate, and shows that
// certificate. Who has the key was the node until the certificate ended; so it is believed as long as nothing says that
// the node has had another one since. Pure.
//
// - What is shown: one certificate, with the key and the subject of the request, of a client, from a CA that the API
//   server believes, and ended. It is judged at its own end, because its CA may have ended since.
// - What is known of the node: its Node is there, was made with that certificate or before it, and is the one for which
//   the key was noted; it has not spoken after that end; and no certificate with another key that ends later was issued
//   to it.
//
// A later certificate with the same key speaks against nobody: who has the key has that one as well, or has lost it.
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
  // With the meaning that they have of the certificate on this machine:
  | 'CertificateOfOtherNode'
  | 'CertificateStillValid';

interface NotProven {
  readonly reason: PossessionReason;
  readonly message: string;
}

const refuse = (reason: PossessionReason, message: string): NotProven => ({ reason, message });

/** What a request is judged by that must show a certificate, or does. */
export interface Possession {
  readonly content: CertificateRequest;
  /** Of clients, as the API server believes them now. */
  readonly authorities: readonly Certificate[];
}

export const shownCertificate = ({ metadata }: SigningRequest): string | undefined =>
  metadata.annotations?.[expiredCertificateAnnotation];

/**
 * Whether it is judged by the certificate that it shows. Of this machine's own node the file is here to be looked at,
 * which needs no more from those whose word is enough.
 */
export const isByPossession = (
  request: SigningRequest,
  requester: Requester,
  { own }: Pick<NodeFacts, 'own'>,
): boolean => requester.mustShowCertificate === true || (own === undefined && shownCertificate(request) !== undefined);

/** By which keys are told apart: SHA-256 of the public key with its algorithm, lower-case hex. */
export const keyHash = (publicKeyInfo: Buffer): string => hash('sha256', publicKeyInfo);

interface Showing extends Possession {
  /** PEM; undefined: nothing is shown. */
  readonly shown: string | undefined;
  readonly now: Date;
}

/** What the request shows, whatever is known of the node. */
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

/** Their order says nothing. */
const attributesOf = ({ attributes }: DistinguishedName): readonly string[] =>
  attributes.map(({ type, value }) => JSON.stringify([type, value])).toSorted();

function trustProblem(leaf: Certificate, roots: readonly Certificate[]): string | undefined {
  const { usages, notAfter } = leaf.facts;
  // Go takes one that restricts nothing for a client's; none was ever made so for a kubelet.
  if (usages?.includes('clientAuth') !== true) return 'it is not for a client (extended key usage)';
  const answer = verifyChain({ leaf, intermediates: [], roots, at: notAfter, usage: 'clientAuth' });
  return answer.ok ? undefined : answer.reason;
}

/** From its first certificate to the Node that a kubelet makes with it: seconds; and a signer dates back by five minutes. */
const registersMs = 15 * 60_000;

/** What is known of the node since the certificate that is shown; undefined: nothing speaks against it. */
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
    if (until <= notAfter) continue;
    if (ofKey !== key) {
      const message = `${shownUntil}, and one with another key until ${until.toISOString()} was issued to the node (${source}); approve by hand if its kubelet has lost that`;
      return refuse('CertificateSuperseded', message);
    }
    // By one that is valid the node could speak now, and would not ask.
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
  /** Undefined: it cannot be read. */
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
