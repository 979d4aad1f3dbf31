// Certificate signing requests (PKCS #10, RFC 2986) from PEM text, strictly: one block and nothing else. Whether a request
// is signed by its own key is told here, because kube-controller-manager's signer does not ask (pkg/apis/certificates,
// ParseCSR reads only): without it, somebody could get a certificate for a key that is not theirs.
// The few fields are read from their DER and node:crypto verifies the bytes: @peculiar/x509 costs time and memory that a
// process that never signs does not pay.
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { errorText, isCode } from '../errors.ts';
import { childrenOf, DerReader, type DerValue, readDer, tags } from './der.ts';
import { basicConstraints, keyUsage, listExtensions, readBasicConstraints, readKeyUsage } from './extensions.ts';
import { subjectAltName } from './extensions.ts';
import { type KeyAlgorithm, keyAlgorithmOf } from './key.ts';
import { type DistinguishedName, ipText, nameTags, readDistinguishedName } from './names.ts';
import { readPem, unreadable } from './pem.ts';

/** A name that a request asks for besides its subject. `kind` is `other` for what Kubernetes has no use for. */
interface AlternativeName {
  readonly kind: 'DNS' | 'IP' | 'email' | 'URI' | 'other';
  readonly value: string;
}

export interface CertificateRequest {
  readonly subject: DistinguishedName;
  /** What of the subject's encoding Go's crypto/x509/pkix does not write; undefined: all of it is as there. */
  readonly unusualSubject?: string;
  readonly key: KeyAlgorithm;
  /** Its signature is that of its own key: its maker has the private key. */
  readonly provesPossession: boolean;
  readonly alternativeNames: readonly AlternativeName[];
  /** An extension asks for the rights of a CA. */
  readonly wantsCa: boolean;
  /** Object identifiers of the extensions that it asks for. */
  readonly extensions: readonly string[];
  /** Object identifiers of its attributes: the request for extensions, a challenge password. */
  readonly attributes: readonly string[];
}

/** The attribute that holds the extensions which are asked for. */
export const extensionRequest = '1.2.840.113549.1.9.14';
const attributesTag = 0xa0;

/** RFC 8017, RFC 5758, RFC 8410. SHA-1 is refused, as by Go's CheckSignature. */
const signatures: Readonly<Record<string, { readonly key: KeyAlgorithm['name']; readonly hash: string | null }>> = {
  '1.2.840.113549.1.1.11': { key: 'RSA', hash: 'sha256' },
  '1.2.840.113549.1.1.12': { key: 'RSA', hash: 'sha384' },
  '1.2.840.113549.1.1.13': { key: 'RSA', hash: 'sha512' },
  '1.2.840.10045.4.3.2': { key: 'ECDSA', hash: 'sha256' },
  '1.2.840.10045.4.3.3': { key: 'ECDSA', hash: 'sha384' },
  '1.2.840.10045.4.3.4': { key: 'ECDSA', hash: 'sha512' },
  '1.3.101.112': { key: 'Ed25519', hash: null },
};

const kinds: Readonly<Record<number, AlternativeName['kind']>> = {
  [nameTags.email]: 'email',
  [nameTags.dns]: 'DNS',
  [nameTags.uri]: 'URI',
  [nameTags.ip]: 'IP',
};

/** `what` names it in messages: `CertificateSigningRequest "csr-x"`. Throws MaterialInvalid. */
export function parseCertificateRequest(pem: Uint8Array, what: string): CertificateRequest {
  const subject = `request of ${what}`;
  const refuse = unreadable(subject);
  const der = onlyBlock(pem, subject);
  try {
    return readRequest(der);
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) throw refuse(err.message);
    throw refuse(`the block is not a certificate request (${errorText(err)})`);
  }
}

/** Its subject and nothing else, at a fraction of the cost. Throws where it cannot be read. */
export function readRequestSubject(pem: Uint8Array): DistinguishedName {
  return readDistinguishedName(partsOf(onlyBlock(pem, 'request')).subject);
}

function onlyBlock(pem: Uint8Array, subject: string): Buffer {
  const blocks = readPem(pem, subject);
  const [block] = blocks;
  if (block?.label === 'CERTIFICATE REQUEST' && blocks.length === 1) return block.der;
  const found = block === undefined ? 'none' : blocks.map(({ label }) => `"${label}"`).join(', ');
  throw unreadable(subject)(`PEM blocks: ${found}, wanted one "CERTIFICATE REQUEST"`);
}

interface RequestParts {
  /** What is signed. */
  readonly info: DerValue;
  readonly signatureAlgorithm: DerValue;
  readonly signature: DerValue;
  readonly subject: DerValue;
  readonly publicKey: DerValue;
  readonly attributes: DerValue | undefined;
}

function partsOf(der: Buffer): RequestParts {
  const [info, signatureAlgorithm, signature, ...after] = childrenOf(readDer(der));
  if (info === undefined || signatureAlgorithm === undefined || signature === undefined || after.length > 0) {
    throw new RangeError('it does not have three parts');
  }
  const [version, subject, publicKey, attributes, ...rest] = childrenOf(info);
  if (version?.tag !== tags.integer || subject === undefined || publicKey === undefined || rest.length > 0) {
    throw new RangeError('parts are missing, or there are more');
  }
  return { info, signatureAlgorithm, signature, subject, publicKey, attributes };
}

function readRequest(der: Buffer): CertificateRequest {
  const parts = partsOf(der);
  const { subject, publicKey, attributes } = parts;
  if (attributes !== undefined && attributes.tag !== attributesTag)
    throw new RangeError('attributes are something else');
  const key = createPublicKey({ key: publicKey.raw, format: 'der', type: 'spki' });
  const algorithm = keyAlgorithmOf(key);
  const { extensions, oids } = readAttributes(attributes);
  const unusualSubject = unusualEncoding(subject);
  const asked = <T>(oid: string, read: (value: DerReader) => T): T | undefined => {
    const value = extensions.get(oid);
    return value && read(new DerReader(value));
  };
  const wantsCa = asked(basicConstraints, readBasicConstraints)?.ca === true;
  return {
    subject: readDistinguishedName(subject),
    ...(unusualSubject !== undefined && { unusualSubject }),
    key: algorithm,
    provesPossession: isSignedBy(key, parts),
    alternativeNames: readNames(extensions),
    wantsCa: wantsCa || asked(keyUsage, readKeyUsage)?.certSign === true,
    extensions: [...extensions.keys()],
    attributes: oids,
  };
}

/** Their values by type. */
type Extensions = ReadonlyMap<string, Buffer>;

/** Go reads the extensions of every such attribute and refuses a second one of a kind; here a second attribute is too much. */
function readAttributes(attributes: DerValue | undefined): { extensions: Extensions; oids: string[] } {
  const all = new DerReader(attributes?.content ?? Buffer.alloc(0)).all((list) => {
    const attribute = list.inside(tags.sequence, 'attribute');
    const oid = attribute.oid('type of an attribute');
    const values = attribute.value(tags.set, 'values of an attribute');
    if (!attribute.isEmpty) throw new RangeError('broken attribute');
    return { oid, values };
  });
  const [asked, second] = all.filter(({ oid }) => oid === extensionRequest);
  if (second !== undefined || (asked !== undefined && childrenOf(asked.values).length !== 1)) {
    throw new RangeError('more than one list of extensions');
  }
  const list = listExtensions(asked && new DerReader(asked.values.content));
  return { extensions: new Map(list.map(({ oid, value }) => [oid, value])), oids: all.map(({ oid }) => oid) };
}

/**
 * Go writes one value in each set but for several organizations, and its text as PrintableString or UTF8String
 * (crypto/x509/pkix, appendRDNs; encoding/asn1). What reads otherwise elsewhere has no place in a name that grants rights.
 */
function unusualEncoding(subject: DerValue): string | undefined {
  for (const set of childrenOf(subject)) {
    const values = childrenOf(set);
    if (values.length !== 1) return 'a set with several values';
    const [, text] = values.flatMap((value) => childrenOf(value));
    if (text?.tag !== tags.printableString && text?.tag !== tags.utf8String) {
      return `a string of ASN.1 tag ${text?.tag ?? 'unknown'}`;
    }
  }
  return undefined;
}

function readNames(extensions: Extensions): AlternativeName[] {
  const value = extensions.get(subjectAltName);
  if (value === undefined) return [];
  const names = childrenOf(readDer(value));
  // An empty list is not what RFC 5280 allows, and it is not nothing.
  if (names.length === 0) return [{ kind: 'other', value: '' }];
  return names.map(({ tag, content }) => {
    const kind = kinds[tag] ?? 'other';
    const text = kind === 'IP' ? ipText(content) : kind === 'other' ? undefined : content.toString('latin1');
    return { kind, value: text ?? content.toString('hex') };
  });
}

function isSignedBy(key: KeyObject, { info, signatureAlgorithm, signature }: RequestParts): boolean {
  const scheme = signatures[new DerReader(signatureAlgorithm.content).oid('signature algorithm')];
  if (scheme?.key !== keyAlgorithmOf(key).name) return false;
  // BIT STRING: its first byte counts unused bits
  if (signature.tag !== tags.bitString || signature.content[0] !== 0) return false;
  try {
    return verify(scheme.hash, info.raw, key, signature.content.subarray(1));
  } catch {
    return false; // a signature of another length or form
  }
}
