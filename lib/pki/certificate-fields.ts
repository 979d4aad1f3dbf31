// The fields of a certificate (RFC 5280, 4.1) that node:crypto does not give away, or only as text that would have to
// be parsed again: exact names, basic constraints, key usage, alternative names, key identifiers.
import { childrenOf, oidText, readDer, tags, type DerValue } from './der.ts';
import { readDistinguishedName, type DistinguishedName } from './distinguished-name.ts';
import { canonicalHostname, ipText } from './hostname.ts';

export interface CertificateFields {
  /** 1, 2 or 3. */
  readonly version: number;
  readonly subject: DistinguishedName;
  readonly issuer: DistinguishedName;
  readonly signatureOid: string;
  readonly basicConstraints?: { readonly ca: boolean; readonly pathLength?: number };
  /** Undefined where the certificate does not restrict it. */
  readonly keyUsage?: {
    readonly digitalSignature: boolean;
    readonly keyEncipherment: boolean;
    readonly certSign: boolean;
  };
  /** Object identifiers; undefined where the certificate does not restrict them. */
  readonly extendedKeyUsage?: readonly string[];
  /** Canonical form. */
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  /** DER of each alternative name of any kind, as it stands there. */
  readonly alternativeNames: readonly Buffer[];
  /** Hex. */
  readonly subjectKeyId?: string;
  readonly authorityKeyId?: string;
  /** DER of the public key with its algorithm, and the object identifier of that. */
  readonly publicKeyInfo: Buffer;
  readonly keyOid: string;
  /** It says under which policies it was issued. */
  readonly hasPolicies: boolean;
  /** Of policyConstraints: from so many certificates below it on, each needs a policy (RFC 5280, 4.2.1.11). */
  readonly requireExplicitPolicy?: number;
  /** Critical extensions that are not read here: a verifier must refuse the certificate. */
  readonly unknownCritical: readonly string[];
}

export type Extensions = ReadonlyMap<string, { readonly critical: boolean; readonly value: Buffer }>;

const known = {
  subjectKeyId: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  nameConstraints: '2.5.29.30',
  certificatePolicies: '2.5.29.32',
  policyMappings: '2.5.29.33',
  authorityKeyId: '2.5.29.35',
  policyConstraints: '2.5.29.36',
  extendedKeyUsage: '2.5.29.37',
  inhibitAnyPolicy: '2.5.29.54',
  authorityInfoAccess: '1.3.6.1.5.5.7.1.1',
} as const;
const knownOids: ReadonlySet<string> = new Set(Object.values(known));

/** Context-specific tags of GeneralName, AuthorityKeyIdentifier and TBSCertificate. */
const context = {
  dnsName: 0x82,
  ipAddress: 0x87,
  keyIdentifier: 0x80,
  requireExplicitPolicy: 0x80,
  version: 0xa0,
  extensions: 0xa3,
};

/** Of what checkEncoding has let pass. Throws RangeError where the bytes are not a certificate. */
export function readCertificateFields(der: Buffer): CertificateFields {
  const [tbs, signatureAlgorithm] = childrenOf(readDer(der));
  if (tbs === undefined || signatureAlgorithm === undefined) throw new RangeError('not a certificate');
  const parts = childrenOf(tbs);
  const versionPart = parts[0]?.tag === context.version ? parts.shift() : undefined;
  const [, signature, issuer, , subject, publicKey] = parts;
  if (!signature || !issuer || !subject || !publicKey) throw new RangeError('not a certificate');
  const extensions = readExtensions(parts.find(({ tag }) => tag === context.extensions));
  const names = readAlternativeNames(extensions);
  return {
    version: versionPart === undefined ? 1 : readInteger(versionPart.content) + 1,
    subject: readDistinguishedName(subject),
    issuer: readDistinguishedName(issuer),
    signatureOid: oidText(firstOf(signatureAlgorithm)),
    ...readBasicConstraints(extensions),
    ...readKeyUsage(extensions),
    ...readExtendedKeyUsage(extensions),
    dnsNames: names.filter(({ tag }) => tag === context.dnsName).map(({ content }) => dnsText(content)),
    ipAddresses: names
      .filter(({ tag }) => tag === context.ipAddress)
      .map(({ content }) => ipText(content))
      .filter((ip) => ip !== undefined),
    alternativeNames: names.map(({ raw }) => raw),
    ...readKeyIds(extensions),
    publicKeyInfo: publicKey.raw,
    keyOid: oidText(firstOf(firstOf(publicKey))),
    hasPolicies: extensions.has(known.certificatePolicies),
    ...readPolicyConstraints(extensions),
    unknownCritical: [...extensions]
      .filter(([oid, { critical }]) => critical && !knownOids.has(oid))
      .map(([oid]) => oid),
  };
}

function firstOf(value: DerValue): DerValue {
  const [first] = childrenOf(value);
  if (first === undefined) throw new RangeError('empty sequence');
  return first;
}

function dnsText(content: Buffer): string {
  return canonicalHostname(content.toString('latin1'));
}

/** The value of a small non-negative INTEGER, given as whole DER. */
function readInteger(der: Buffer): number {
  const { content } = readDer(der);
  if (content.length === 0 || content.length > 6) throw new RangeError('number out of range');
  return content.readIntBE(0, content.length);
}

/** `part` holds the sequence of extensions as its first value. */
export function readExtensions(part: DerValue | undefined): Extensions {
  if (part === undefined) return new Map();
  return new Map(
    childrenOf(firstOf(part)).map((extension) => {
      const [oid, ...rest] = childrenOf(extension);
      const value = rest.at(-1);
      if (oid === undefined || value?.tag !== tags.octetString) throw new RangeError('extension without a value');
      const critical = rest[0]?.tag === tags.boolean && rest[0].content[0] !== 0;
      return [oidText(oid), { critical, value: value.content }];
    }),
  );
}

export function readBasicConstraints(extensions: Extensions): Pick<CertificateFields, 'basicConstraints'> {
  const extension = extensions.get(known.basicConstraints);
  if (extension === undefined) return {};
  const parts = childrenOf(readDer(extension.value));
  const ca = parts.some(({ tag, content }) => tag === tags.boolean && content[0] !== 0);
  const length = parts.find(({ tag }) => tag === tags.integer);
  const pathLength = length === undefined ? -1 : readInteger(length.raw);
  // A negative one is none for the Go that accepts it.
  return { basicConstraints: { ca, ...(pathLength >= 0 && { pathLength }) } };
}

export function readKeyUsage(extensions: Extensions): Pick<CertificateFields, 'keyUsage'> {
  const extension = extensions.get(known.keyUsage);
  if (extension === undefined) return {};
  // BIT STRING: the first byte counts unused bits, bit 0 is the highest of the next
  const bits = readDer(extension.value).content[1] ?? 0;
  return {
    keyUsage: {
      digitalSignature: (bits & 0x80) !== 0,
      keyEncipherment: (bits & 0x20) !== 0,
      certSign: (bits & 0x04) !== 0,
    },
  };
}

function readExtendedKeyUsage(extensions: Extensions): Pick<CertificateFields, 'extendedKeyUsage'> {
  const extension = extensions.get(known.extendedKeyUsage);
  if (extension === undefined) return {};
  return { extendedKeyUsage: childrenOf(readDer(extension.value)).map(oidText) };
}

function readAlternativeNames(extensions: Extensions): DerValue[] {
  const extension = extensions.get(known.subjectAltName);
  return extension === undefined ? [] : childrenOf(readDer(extension.value));
}

function readPolicyConstraints(extensions: Extensions): Pick<CertificateFields, 'requireExplicitPolicy'> {
  const extension = extensions.get(known.policyConstraints);
  if (extension === undefined) return {};
  try {
    const parts = childrenOf(readDer(extension.value));
    const required = parts.find(({ tag }) => tag === context.requireExplicitPolicy)?.content;
    if (required === undefined || required.length === 0 || required.length > 6) return {};
    return { requireExplicitPolicy: required.readIntBE(0, required.length) };
  } catch (err) {
    if (err instanceof RangeError) return {}; // older Go reads no policies, and newer Go none of this certificate
    throw err;
  }
}

function readKeyIds(extensions: Extensions): Pick<CertificateFields, 'subjectKeyId' | 'authorityKeyId'> {
  const subject = extensions.get(known.subjectKeyId);
  const authority = extensions.get(known.authorityKeyId);
  const id =
    authority && childrenOf(readDer(authority.value)).find(({ tag }) => tag === context.keyIdentifier)?.content;
  return {
    ...(subject !== undefined && { subjectKeyId: readDer(subject.value).content.toString('hex') }),
    ...(id !== undefined && { authorityKeyId: id.toString('hex') }),
  };
}
