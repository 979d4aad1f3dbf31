// The last check before a new certificate leaves this package: read back with another parser (OpenSSL, node:crypto)
// than the one that encoded it, it says what was asked for and verifies as a Go program would verify it.
import type { KeyObject } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { errorText, RecoveryError } from '../errors.ts';
import { type Certificate, parseCertificates } from './certificate.ts';
import { keyMatches } from './key.ts';
import { verifyChain } from './verify.ts';

/** What a new certificate is to say. */
export interface Wanted {
  readonly commonName: string;
  readonly organizations: readonly string[];
  /** Canonical, sorted; the bytes in `exact` say it where they are given. */
  readonly hostnames: readonly string[];
  readonly isCa: boolean;
  /** Object identifiers; without them the certificate is not restricted. */
  readonly extendedKeyUsage?: readonly string[];
  /** Of a leaf that is made from a template: the DER of its subject and of each alternative name. */
  readonly exact?: { readonly subject: Buffer; readonly alternativeNames: readonly Buffer[] };
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** Usages that a chain can be verified for. */
export const usageOids = { serverAuth: '1.3.6.1.5.5.7.3.1', clientAuth: '1.3.6.1.5.5.7.3.2' } as const;

export interface SignedWith {
  readonly key: KeyObject;
  /** Undefined for a self-signed CA. */
  readonly issuer: Certificate | undefined;
  readonly now: Date;
}

/** The certificate that `pem` is. Throws SignFailed when it is not the one that was wanted. */
export function checked(pem: string, wanted: Wanted, signedWith: SignedWith): Certificate {
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError('SignFailed', `Cannot sign certificate "${wanted.commonName}": its check failed, ${problem}`);
  let certificates: Certificate[];
  try {
    certificates = parseCertificates(Buffer.from(pem), 'the new certificate');
  } catch (err) {
    throw refuse(errorText(err));
  }
  const [made, other] = certificates;
  if (made === undefined || other !== undefined) throw refuse('it is not one certificate');
  const problem = problemOf(made, wanted, signedWith);
  if (problem !== undefined) throw refuse(problem);
  return made;
}

function problemOf(made: Certificate, wanted: Wanted, { key, issuer, now }: SignedWith): string | undefined {
  const wrong = wrongFields(made, wanted);
  if (wrong.length > 0) return `not as asked for: ${wrong.join(', ')}`;
  if (!keyMatches(made, key)) return 'its key is another one';
  const verifiable = (['serverAuth', 'clientAuth'] as const).filter((usage) =>
    wanted.extendedKeyUsage?.includes(usageOids[usage]),
  );
  for (const usage of verifiable.length > 0 ? verifiable : [undefined]) {
    const answer = verifyChain({
      leaf: made,
      intermediates: [],
      roots: [issuer ?? made],
      at: now,
      ...(usage !== undefined && { usage }),
    });
    if (!answer.ok) return answer.reason;
  }
  // a chain ends at a trusted certificate without looking at that one's own signature
  return issuer !== undefined || made.x509.verify(made.x509.publicKey) ? undefined : 'its signature is wrong';
}

function wrongFields({ facts, fields }: Certificate, wanted: Wanted): string[] {
  const pairs: Readonly<Record<string, readonly [unknown, unknown]>> = {
    'common name': [facts.commonName, wanted.commonName],
    organizations: [facts.organizations, wanted.organizations],
    ...(wanted.exact === undefined
      ? { 'host names': [facts.hostnames, wanted.hostnames] }
      : {
          subject: [fields.subject.der, wanted.exact.subject],
          'alternative names': [fields.alternativeNames, wanted.exact.alternativeNames],
        }),
    'extended key usage': [fields.extendedKeyUsage, wanted.extendedKeyUsage],
    'CA flag': [facts.isCa, wanted.isCa],
    'key usage': [fields.keyUsage, { digitalSignature: true, keyEncipherment: true, certSign: wanted.isCa }],
    notBefore: [facts.notBefore.getTime(), wanted.notBefore.getTime()],
    notAfter: [facts.notAfter.getTime(), wanted.notAfter.getTime()],
  };
  return Object.entries(pairs)
    .filter(([, [is, should]]) => !isDeepStrictEqual(is, should))
    .map(([name]) => name);
}
