// Certificate signing requests (PKCS #10, RFC 2986) from PEM text, strictly: one block and nothing else. Whether a
// request is signed by its own key is checked here, because kube-controller-manager's signer does not
// (pkg/apis/certificates, ParseCSR reads only): without it, a requester could get a certificate for another owner's
// key.
// The few fields are read from their DER and node:crypto verifies the bytes: @peculiar/x509 costs time and memory that
// a process that never signs does not pay.
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { errorText, isCode } from '../errors.ts';
import { bmpString, checkPublicKey, isBmpText, isText } from './certificate-fields.ts';
import { childrenOf, DerReader, type DerValue, readDer, tags } from './der.ts';
import { basicConstraints, keyUsage, listExtensions, readBasicConstraints, readKeyUsage } from './extensions.ts';
import { subjectAltName } from './extensions.ts';
import { type KeyAlgorithm, keyAlgorithmOf } from './key.ts';
import { type DistinguishedName, ipText, nameTags, readDistinguishedName } from './names.ts';
import { readPem, unreadable } from './pem.ts';

/** A requested alternative name. `kind` is `other` for kinds that Kubernetes does not use. */
interface AlternativeName {
  readonly kind: 'DNS' | 'IP' | 'email' | 'URI' | 'other';
  readonly value: string;
}

export interface CertificateRequest {
  readonly subject: DistinguishedName;
  /** Part of the subject's encoding that Go's crypto/x509/pkix does not write; undefined: none. */
  readonly unusualSubject?: string;
  readonly key: KeyAlgorithm;
  /** DER of the public key with its algorithm, as in a certificate (certificate-fields.ts). */
  readonly publicKeyInfo: Buffer;
  /** Whether its own key made its signature: then its maker has the private key. */
  readonly provesPossession: boolean;
  readonly alternativeNames: readonly AlternativeName[];
  /** An extension requests the rights of a CA. */
  readonly wantsCa: boolean;
  /** Object identifiers of the requested extensions. */
  readonly extensions: readonly string[];
  /** Object identifiers of its attributes: the request for extensions, a challenge password. */
  readonly attributes: readonly string[];
}

/** The attribute that holds the requested extensions. */
export const extensionRequest = '1.2.840.113549.1.9.14';
const microsoftRequest = '1.3.6.1.4.1.311.2.1.14';
const attributesTag = 0xa0;
/** DER of the only version that exists, and that Go's and OpenSSL's writers know: 0. */
const versionDer = Buffer.from([tags.integer, 1, 0]);

/** RFC 8017, RFC 5758, RFC 8410. SHA-1, which Go's CheckSignature still accepts, proves nothing. */
const signatures: Readonly<Record<string, { readonly key: KeyAlgorithm['name']; readonly hash: string | null }>> = {
  '1.2.840.113549.1.1.11': { key: 'RSA', hash: 'sha256' },
  '1.2.840.113549.1.1.12': { key: 'RSA', hash: 'sha384' },
  '1.2.840.113549.1.1.13': { key: 'RSA', hash: 'sha512' },
  '1.2.840.10045.4.3.2': { key: 'ECDSA', hash: 'sha256' },
  '1.2.840.10045.4.3.3': { key: 'ECDSA', hash: 'sha384' },
  '1.2.840.10045.4.3.4': { key: 'ECDSA', hash: 'sha512' },
  '1.3.101.112': { key: 'Ed25519', hash: null },
};

/** Go verifies no signature with a larger exponent (crypto/rsa, checkPublicKeySize). */
const largestExponent = 2n ** 31n - 1n;

const kinds: Readonly<Record<number, AlternativeName['kind']>> = {
  [nameTags.email]: 'email',
  [nameTags.dns]: 'DNS',
  [nameTags.uri]: 'URI',
  [nameTags.ip]: 'IP',
};

/** `what` names its source in messages: `CertificateSigningRequest "csr-x"`. Throws MaterialInvalid. */
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

/** Reads the subject and nothing else, at a fraction of the cost. Throws where it cannot be read. */
export function readRequestSubject(pem: Uint8Array): DistinguishedName {
  return readDistinguishedName(partsOf(onlyBlock(pem, 'request')).subject);
}

function onlyBlock(pem: Uint8Array, subject: string): Buffer {
  const blocks = readPem(pem, subject);
  const [block] = blocks;
  if (block?.label === 'CERTIFICATE REQUEST' && blocks.length === 1) {
    // OpenSSL takes a blank line for the end of headers (RFC 1421).
    if (blankLine.test(bodyOf(pem))) throw unreadable(subject)('a blank line inside its PEM block');
    return block.der;
  }
  const found = block === undefined ? 'none' : blocks.map(({ label }) => `"${label}"`).join(', ');
  throw unreadable(subject)(`PEM blocks: ${found}, wanted one "CERTIFICATE REQUEST"`);
}

const blankLine = /\n[ \t\r]*\n/;

/** Returns the text from its BEGIN to before its END. */
function bodyOf(pem: Uint8Array): string {
  const text = Buffer.from(pem).toString('latin1');
  return text.slice(text.indexOf('-----BEGIN'), text.indexOf('-----END'));
}

interface RequestParts {
  /** The signed part. */
  readonly info: DerValue;
  readonly signatureAlgorithm: DerValue;
  readonly signature: DerValue;
  readonly subject: DerValue;
  readonly publicKey: DerValue;
  readonly attributes: DerValue;
}

/**
 * Splits a request into its parts, each with its tag: Go and OpenSSL require it, and a name for one reader must be a
 * name for all.
 */
function partsOf(der: Buffer): RequestParts {
  const request = new DerReader(readOne(der, tags.sequence).content);
  const info = request.value(tags.sequence, 'what is signed');
  const signatureAlgorithm = request.value(tags.sequence, 'signature algorithm');
  const signature = request.value(tags.bitString, 'signature');
  if (childrenOf(signatureAlgorithm).length > 2) throw new RangeError('broken signature algorithm');
  const parts = new DerReader(info.content);
  const version = parts.value(tags.integer, 'version');
  const subject = parts.value(tags.sequence, 'subject');
  const publicKey = parts.value(tags.sequence, 'public key');
  // Go and OpenSSL require the list, empty or not.
  const attributes = parts.value(attributesTag, 'list of attributes');
  if (!request.isEmpty || !parts.isEmpty) throw new RangeError('it has more parts than a request');
  if (!version.raw.equals(versionDer)) throw new RangeError('its version is not 1');
  return { info, signatureAlgorithm, signature, subject, publicKey, attributes };
}

/** Requires DER throughout, also of values that are not used here: OpenSSL reads each value of each attribute. */
function requireDer(bytes: Buffer): void {
  const reader = new DerReader(bytes);
  while (!reader.isEmpty) {
    const { tag, content } = reader.any();
    if ((tag & constructed) !== 0) requireDer(content);
    else if (tag === asn1Null && content.length > 0) throw new RangeError('NULL with a content');
  }
}

const constructed = 0x20;
const asn1Null = 0x05;

function readOne(der: Buffer, tag: number): DerValue {
  const value = readDer(der);
  if (value.tag !== tag) throw new RangeError('it is of another type');
  return value;
}

function readRequest(der: Buffer): CertificateRequest {
  const parts = partsOf(der);
  requireDer(der);
  const { subject, publicKey, attributes } = parts;
  // OpenSSL accepts more than Go: compressed points, curves by their parameters, RSA without NULL.
  checkPublicKey(new DerReader(publicKey.content));
  const key = createPublicKey({ key: publicKey.raw, format: 'der', type: 'spki' });
  const algorithm = keyAlgorithmOf(key);
  if (!key.export({ type: 'spki', format: 'der' }).equals(publicKey.raw)) throw new RangeError('public key is not DER');
  if ((key.asymmetricKeyDetails?.publicExponent ?? 0n) > largestExponent)
    throw new RangeError('RSA exponent is too large');
  requireWholeAttributes(subject);
  const { extensions, oids } = readAttributes(attributes);
  const unusualSubject = unusualEncoding(subject);
  const asked = <T>(oid: string, read: (value: DerReader) => T): T | undefined => {
    const value = extensions.get(oid);
    return value && read(new DerReader(value));
  };
  const wantsCa = asked(basicConstraints, readBasicConstraints)?.ca === true;
  return {
    subject: readDistinguishedName(subject, requireText),
    ...(unusualSubject !== undefined && { unusualSubject }),
    key: algorithm,
    publicKeyInfo: publicKey.raw,
    provesPossession: isSignedBy(key, parts),
    alternativeNames: readNames(extensions),
    wantsCa: wantsCa || asked(keyUsage, readKeyUsage)?.certSign === true,
    extensions: [...extensions.keys()],
    attributes: oids,
  };
}

/** Values of extensions by type. */
type Extensions = ReadonlyMap<string, Buffer>;

/**
 * Go reads the extensions of every such attribute and refuses a second extension of a kind; here a second attribute is
 * refused.
 */
function readAttributes(attributes: DerValue): { extensions: Extensions; oids: string[] } {
  const all = new DerReader(attributes.content).all((list) => {
    const attribute = list.inside(tags.sequence, 'attribute');
    const oid = attribute.oid('type of an attribute');
    const values = attribute.value(tags.set, 'values of an attribute');
    if (!attribute.isEmpty || values.content.length === 0) throw new RangeError('broken attribute');
    return { oid, values };
  });
  const [asked, second] = all.filter(({ oid }) => oid === extensionRequest);
  if (second !== undefined || (asked !== undefined && childrenOf(asked.values).length !== 1)) {
    throw new RangeError('more than one list of extensions');
  }
  if (all.some(({ oid }) => oid === microsoftRequest)) {
    throw new RangeError(`extensions in attribute ${microsoftRequest}, which OpenSSL reads and Go does not`);
  }
  if (asked !== undefined) requireWholeExtensions(asked.values);
  const list = listExtensions(asked && new DerReader(asked.values.content));
  return { extensions: new Map(list.map(({ oid, value }) => [oid, value])), oids: all.map(({ oid }) => oid) };
}

/** Refuses content after a value: Go skips it, OpenSSL the whole list. */
function requireWholeExtensions(values: DerValue): void {
  for (const extension of childrenOf(values).flatMap((list) => childrenOf(list))) {
    const [, second, ...after] = childrenOf(extension);
    if (after.length > (second?.tag === tags.boolean ? 1 : 0)) throw new RangeError('broken extension');
  }
}

/**
 * Returns the part of an encoding that Go does not write: Go writes one value in each set but for several
 * organizations, and its text as PrintableString or UTF8String (crypto/x509/pkix, appendRDNs; encoding/asn1). A name
 * that readers decode differently must not grant rights.
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
  const names = childrenOf(readOne(value, tags.sequence));
  // RFC 5280 does not allow an empty list, so it is not taken for a missing extension.
  if (names.length === 0) return [{ kind: 'other', value: '' }];
  return names.map(({ tag, content }) => {
    const kind = kinds[tag] ?? 'other';
    if (kind === 'other') return { kind, value: content.toString('hex') };
    if (kind === 'IP') return { kind, value: requireName(ipText(content), 'an IP address of another length') };
    const text = content.toString('latin1');
    return {
      kind,
      value: requireName(ia5.test(text) ? text : undefined, 'a name with characters that names do not have'),
    };
  });
}

/** IA5String without controls: a reader in C ends a name at a NUL. */
const ia5 = /^[ -~]*$/;

function requireName(text: string | undefined, found: string): string {
  if (text === undefined) throw new RangeError(`${found} among the alternative names`);
  return text;
}

/** Requires a type, a value and nothing after them: node:crypto and Go's reader of certificates skip what follows. */
function requireWholeAttributes(subject: DerValue): void {
  const attributes = childrenOf(subject).flatMap((set) => childrenOf(set));
  if (attributes.some((attribute) => childrenOf(attribute).length !== 2)) {
    throw new RangeError('an attribute of its subject is not a type and a value');
  }
}

function requireText(value: DerValue): void {
  if (!isText(value) || (value.tag === bmpString && !isBmpText(value.content)))
    throw new RangeError('a value of its subject is no text of its type');
}

function isSignedBy(key: KeyObject, { info, signatureAlgorithm, signature }: RequestParts): boolean {
  const algorithm = new DerReader(signatureAlgorithm.content);
  const scheme = signatures[algorithm.oid('signature algorithm')];
  if (scheme?.key !== keyAlgorithmOf(key).name) return false;
  if (scheme.hash === null && !algorithm.isEmpty) return false; // RFC 8410: no parameters, and Go knows none
  // BIT STRING: its first byte counts unused bits
  if (signature.tag !== tags.bitString || signature.content[0] !== 0) return false;
  try {
    return verify(scheme.hash, info.raw, key, signature.content.subarray(1));
  } catch {
    return false; // a signature of another length or form
  }
}
