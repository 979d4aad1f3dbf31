// The extensions of a certificate or a request, read by Go's rules (crypto/x509, parser.go).
import { DerReader, type DerValue, tags } from './der.ts';
import { isAscii, isDomain, type NameConstraints, readNameConstraints } from './name-constraints.ts';
import { canonicalHostname, ipText, nameTags } from './names.ts';

/** Context-specific tags. */
export const context = (number: number): number => 0x80 | number;
export const contextConstructed = (number: number): number => 0xa0 | number;

/**
 * A check that newer Go has added: a cluster whose components are built with an older Go (or with
 * GODEBUG=x509negativeserial=1) keeps working, so it is no damage, and no certificate is discarded for it.
 */
export interface LaterRefusal {
  /** The first release that refuses it. */
  readonly since: '1.23' | '1.24' | '1.25';
  /** A sentence without a full stop: `its serial number is negative`. */
  readonly problem: string;
}

interface BasicConstraints {
  readonly ca: boolean;
  readonly pathLength?: number;
}

interface KeyUsage {
  readonly digitalSignature: boolean;
  readonly keyEncipherment: boolean;
  readonly certSign: boolean;
}

export interface ExtensionFields {
  readonly basicConstraints?: BasicConstraints;
  /** Undefined where the certificate does not restrict it. */
  readonly keyUsage?: KeyUsage;
  /** Object identifiers; undefined where the certificate does not restrict them. */
  readonly extendedKeyUsage?: readonly string[];
  /** Canonical form. */
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  /** Unchanged DER of each alternative name of any kind. */
  readonly alternativeNames: readonly Buffer[];
  /** Hex. */
  readonly subjectKeyId?: string;
  readonly authorityKeyId?: string;
  /** policyConstraints: number of certificates below it after which each needs a policy (RFC 5280, 4.2.1.11). */
  readonly requireExplicitPolicy?: number;
  readonly nameConstraints?: NameConstraints;
  /** Critical extensions that are not read here: a verifier must refuse the certificate. */
  readonly unknownCritical: readonly string[];
}

interface Extension {
  readonly oid: string;
  readonly critical: boolean;
  readonly value: Buffer;
}

/** Returns the extensions at the beginning of `part`; each once. Throws RangeError. */
export function listExtensions(part: DerReader | undefined): readonly Extension[] {
  if (part === undefined) return [];
  const found = part.inside(tags.sequence, 'extensions').all((list) => {
    const extension = list.inside(tags.sequence, 'extension');
    const oid = extension.oid('type of an extension');
    const critical = extension.next === tags.boolean && extension.boolean('critical');
    return { oid, critical, value: extension.content(tags.octetString, 'value of an extension') };
  });
  if (new Set(found.map(({ oid }) => oid)).size < found.length) throw new RangeError('an extension is there twice');
  return found;
}

/** Adds to `later`. Throws RangeError where no Go has ever accepted them. */
export function readExtensions(part: DerReader | undefined, later: LaterRefusal[]): ExtensionFields {
  const list = listExtensions(part);
  const fields = list.map(({ oid, critical, value }) => {
    const never = neverCritical[oid];
    if (critical && never !== undefined) later.push({ since: '1.23', problem: `its ${never} is marked critical` });
    const read = readers[oid]?.(new DerReader(value), later);
    return { ...read, ...readPolicies(oid, value, later) };
  });
  const none = { dnsNames: [], ipAddresses: [], alternativeNames: [] };
  const all = Object.assign(none, ...fields) as Omit<ExtensionFields, 'unknownCritical'>;
  const isRead = (oid: string): boolean =>
    isKnown(oid) && !(oid === nameConstraintsOid && all.nameConstraints?.hasOthers === true);
  return { ...all, unknownCritical: list.flatMap(({ oid, critical }) => (critical && !isRead(oid) ? [oid] : [])) };
}

const neverCritical: Readonly<Record<string, string>> = {
  '2.5.29.14': 'subject key identifier',
  '2.5.29.35': 'authority key identifier',
  '1.3.6.1.5.5.7.1.1': 'authority information access',
};

type Reader = (value: DerReader, later: LaterRefusal[]) => Partial<ExtensionFields> | undefined;

/** Usages that a chain can be verified for. */
export const usageOids = { serverAuth: '1.3.6.1.5.5.7.3.1', clientAuth: '1.3.6.1.5.5.7.3.2' } as const;

export const keyUsage = '2.5.29.15';
export const subjectAltName = '2.5.29.17';
export const basicConstraints = '2.5.29.19';
const nameConstraintsOid = '2.5.29.30';

/** Readers of extensions by type, which throw for an invalid value. */
const readers: Readonly<Record<string, Reader>> = {
  '2.5.29.14': (value) => ({
    subjectKeyId: value.content(tags.octetString, 'subject key identifier').toString('hex'),
  }),
  [keyUsage]: (value) => ({ keyUsage: readKeyUsage(value) }),
  [subjectAltName]: readAlternativeNames,
  [basicConstraints]: (value, later) => ({ basicConstraints: readBasicConstraints(value, later) }),
  [nameConstraintsOid]: (value) => ({ nameConstraints: readNameConstraints(value) }),
  '2.5.29.31'(value) {
    each(value, 'CRL distribution points', (points) => {
      const point = points.inside(tags.sequence, 'CRL distribution point');
      const uris = point.optional(contextConstructed(0))?.inside(contextConstructed(0), 'CRL distribution point');
      while (uris?.next === context(6)) uris.any();
    });
    return undefined;
  },
  '2.5.29.32'(value, later) {
    const seen = each(value, 'certificate policies', (policies) => {
      const oid = policies.inside(tags.sequence, 'policy').content(tags.oid, 'policy');
      if (!isOid(oid)) throw new RangeError('certificate policies are damaged');
      return oid.toString('hex');
    });
    if (new Set(seen).size < seen.length) later.push({ since: '1.24', problem: 'a certificate policy is there twice' });
    return undefined;
  },
  '2.5.29.35'(value) {
    const parts = value.inside(tags.sequence, 'authority key identifier');
    return parts.next === context(0) ? { authorityKeyId: parts.any().content.toString('hex') } : undefined;
  },
  '2.5.29.37': (value) => ({
    extendedKeyUsage: each(value, 'extended key usages', (usages) => usages.oid('extended key usage')),
  }),
  '1.3.6.1.5.5.7.1.1'(value) {
    each(value, 'authority info access', (accesses) => {
      const access = accesses.inside(tags.sequence, 'authority info access');
      access.oid('access method');
      if (access.next === context(6)) access.any();
    });
    return undefined;
  },
};

/** The policy extensions, which older Go did not read. */
const laterReaders: Readonly<Record<string, (value: DerReader) => Partial<ExtensionFields> | undefined>> = {
  '2.5.29.33'(value) {
    each(value, 'policy mappings', (mappings) => {
      const mapping = mappings.inside(tags.sequence, 'policy mapping');
      for (const side of ['issuer', 'subject']) mapping.content(tags.oid, `policy of the ${side}`);
    });
    return undefined;
  },
  '2.5.29.36'(value) {
    const parts = value.inside(tags.sequence, 'policy constraints');
    const [required] = [0, 1].map((number) =>
      parts.next === context(number) ? int64(parts.integer('policy constraint', context(number))) : undefined,
    );
    return required === undefined ? undefined : { requireExplicitPolicy: required };
  },
  '2.5.29.54'(value) {
    int64(value.integer('inhibitAnyPolicy'));
    return undefined;
  },
};

function readPolicies(oid: string, value: Buffer, later: LaterRefusal[]): Partial<ExtensionFields> | undefined {
  try {
    return laterReaders[oid]?.(new DerReader(value));
  } catch (err) {
    if (!(err instanceof RangeError)) throw err;
    later.push({ since: '1.24', problem: err.message });
    return undefined;
  }
}

const isKnown = (oid: string): boolean => oid in laterReaders || oid in readers;

export function readKeyUsage(value: DerReader): KeyUsage {
  const bits = value.bitString('key usage').bytes[0] ?? 0; // bit 0 is the highest
  return {
    digitalSignature: (bits & 0x80) !== 0,
    keyEncipherment: (bits & 0x20) !== 0,
    certSign: (bits & 0x04) !== 0,
  };
}

export function readBasicConstraints(value: DerReader, later?: LaterRefusal[]): BasicConstraints {
  const parts = value.inside(tags.sequence, 'basic constraints');
  const ca = parts.next === tags.boolean && parts.boolean('CA flag');
  const pathLength = parts.next === tags.integer ? int64(parts.integer('path length')) : undefined;
  // A Go release that accepts a negative path length ignores it.
  if (pathLength !== undefined && pathLength < 0)
    later?.push({ since: '1.25', problem: 'its path length is negative' });
  return { ca, ...(pathLength !== undefined && pathLength >= 0 && { pathLength }) };
}

const each = <T>(value: DerReader, what: string, read: (items: DerReader) => T): T[] =>
  value.inside(tags.sequence, what).all(read);

function int64(value: bigint): number {
  if (BigInt.asIntN(64, value) !== value) throw new RangeError('number out of range');
  return Number(value);
}

/** Whether the bytes are an object identifier; arcs of any size. */
function isOid(content: Buffer): boolean {
  const starts = (byte: number, at: number): boolean => byte === 0x80 && (at === 0 || (content[at - 1] ?? 0) < 0x80);
  return content.length > 0 && (content.at(-1) ?? 0) < 0x80 && !content.some(starts);
}

function readAlternativeNames(value: DerReader): Partial<ExtensionFields> {
  const names = each(value, 'alternative names', (items) => items.any());
  for (const name of names) checkAlternativeName(name);
  const contents = (wanted: number): Buffer[] => names.flatMap(({ tag, content }) => (tag === wanted ? [content] : []));
  return {
    dnsNames: contents(nameTags.dns).map((content) => canonicalHostname(content.toString('latin1'))),
    ipAddresses: contents(nameTags.ip).flatMap((content) => ipText(content) ?? []),
    alternativeNames: names.map(({ raw }) => raw),
  };
}

function checkAlternativeName({ tag, content }: DerValue): void {
  const isAsciiKind = tag === nameTags.email || tag === nameTags.dns || tag === nameTags.uri;
  if (isAsciiKind && !isAscii(content)) throw new RangeError('an alternative name is no text');
  if (tag === nameTags.uri && !isUri(content.toString('latin1'))) throw new RangeError('an alternative name is no URI');
  if (tag === nameTags.ip && content.length !== 4 && content.length !== 16) {
    throw new RangeError(`an IP address of ${content.length} bytes`);
  }
}

/** Whether net/url accepts the text: no control characters, no broken escapes, a valid host. */
function isUri(text: string): boolean {
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(text) || /%(?![0-9A-Fa-f]{2})/.test(text.split('?')[0] ?? '')) return false;
  const host = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#]*)/i.exec(text)?.[1] ?? '';
  return !text.startsWith(':') && (host === '' || isDomain(host, false));
}
