// From objects of the API to entries, and from entries to facts: bytes go no further, project.ts sees data only.
import { faultText, isCode, type RecoveryError } from '../errors.ts';
import type { Kubeconfigs } from '../inventory/model.ts';
import type { ConfigMap, Secret } from '../kube/kube.ts';
import { type Certificate, type CertificateFacts, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { pairMatches, parsePrivateKey, publicKeyMatches } from '../pki/key.ts';
import { type Entries } from '../store/store.ts';
import { understandKubeconfigs } from '../plan/understand.ts';
import type { MaterialFacts } from './project.ts';
import { type ArtefactContent, caBundleKey, certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { SyncedObject } from './synced-objects.ts';

export type ApiObject = Secret | ConfigMap;

const mismatch = (message: string): MaterialFacts => ({ problem: { reason: 'mismatchedPair', message } });

/** Facts about the entries of an object; missing entries are judged by project. */
export function factsOf({ expects, what }: Pick<SyncedObject, 'expects' | 'what'>, entries: Entries): MaterialFacts {
  try {
    return checked(expects, entries, what);
  } catch (err) {
    // A fault of this program concerns this object, and on disk it is no reason to keep unreadable files.
    if (!isCode(err, 'MaterialInvalid')) {
      return { problem: { reason: 'unreadable', message: `cannot read it: fault of this program, ${faultText(err)}` } };
    }
    return { problem: { reason: 'unreadable', message: problemOf(err, what) } };
  }
}

function checked(expects: ArtefactContent, entries: Entries, what: string): MaterialFacts {
  switch (expects.kind) {
    case 'pair':
      return pairFacts(entries, what);
    case 'bundle':
      return bundleFacts(entries, what);
    case 'keyPair':
      return keyPairFacts(entries, expects, what);
    case 'kubeconfigs':
      return kubeconfigsFacts(expects.of, entries);
    case 'opaque':
      return opaqueFacts(entries, what);
  }
}

/** The parsers name the object themselves; the message that project makes names it too. */
const problemOf = (err: RecoveryError, what: string): string =>
  err.message.replace(` of ${what}`, '').replace(/^Cannot/, 'cannot');

/**
 * Facts about an external object, whose readers have parsers of their own: Go's skip unknown blocks in a CA bundle. So
 * content that cannot be parsed here is written with a warning; a pair of which both halves parse must match.
 */
function opaqueFacts(entries: Entries, what: string): MaterialFacts {
  const blank = [certificateKey, privateKeyKey, caBundleKey].find((key) => isBlank(entries[key]));
  return { ...readOpaque(entries, what), ...(blank !== undefined && { blank }) };
}

const isBlank = (bytes?: Uint8Array): boolean =>
  bytes !== undefined && !Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes('-----BEGIN');

function readOpaque(entries: Entries, what: string): MaterialFacts {
  const { [certificateKey]: certificate, [privateKeyKey]: key, [caBundleKey]: bundle } = entries;
  try {
    if (certificate !== undefined && key !== undefined) return pairFacts(entries, what);
    if (bundle !== undefined) return bundleFacts(entries, what);
    if (certificate === undefined && key === undefined) return {};
    const there = certificate === undefined ? privateKeyKey : certificateKey;
    return { warning: `it holds "${there}" without the other half of the pair` };
  } catch (err) {
    if (!isCode(err, 'MaterialInvalid')) throw err;
    const whole = wholeCertificates(bundle ?? certificate);
    const validity = bundle === undefined ? whole.slice(0, 1) : whole;
    return { warning: problemOf(err, what), validity: validity.length > 0 ? validity.map(validityOf) : undefined };
  }
}

/** Read like tls.X509KeyPair: blocks of other kinds may stand next to the certificates. */
function pairFacts(entries: Entries, what: string): MaterialFacts {
  const [pem, key] = [entries[certificateKey], entries[privateKeyKey]];
  if (pem === undefined || key === undefined) return {};
  const [leaf] = parseCertificates(pem, what, 'skipped');
  if (leaf === undefined) return {};
  if (!pairMatches(leaf, key, what)) {
    return mismatch(`"${certificateKey}" was not made for the key in "${privateKeyKey}", a matching pair is wanted`);
  }
  return { validity: [validityOf(leaf)] };
}

function bundleFacts(entries: Entries, what: string): MaterialFacts {
  const pem = entries[caBundleKey];
  if (pem === undefined) return {};
  return { validity: parseCertificates(pem, what).map(validityOf) };
}

/** Checks each for the certificate and key of its user, a server, and a CA that verifies it. */
function kubeconfigsFacts(of: Kubeconfigs, entries: Entries): MaterialFacts {
  if (of.servers.some(({ key }) => entries[key] === undefined)) return {};
  const { certificates } = understandKubeconfigs(of, { entries, annotations: {}, version: '' });
  return { validity: certificates.map(validityOf) };
}

function validityOf({ facts: { notBefore, notAfter } }: Certificate): Pick<CertificateFacts, 'notBefore' | 'notAfter'> {
  return { notBefore, notAfter };
}

function keyPairFacts(entries: Entries, names: { privateKey: string; publicKey: string }, what: string): MaterialFacts {
  const [privatePem, publicPem] = [entries[names.privateKey], entries[names.publicKey]];
  if (privatePem === undefined || publicPem === undefined) return {};
  const key = parsePrivateKey(privatePem, what);
  if (!publicKeyMatches(publicPem, key, what)) {
    return mismatch(`"${names.publicKey}" does not hold the public half of "${names.privateKey}"`);
  }
  return {};
}
