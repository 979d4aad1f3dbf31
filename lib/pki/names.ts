// Names in certificates, as text and as bytes. Host names and addresses have one written form, so that a name in a
// configuration, a name in a certificate and a requested name can be compared as text. Alternative names (RFC 5280,
// 4.2.1.6) are brought into the order in which Go's crypto/x509 and kubeadm write them; unknown kinds are kept
// unchanged. Distinguished names are compared by their exact bytes, as in Go.
import { isIP, SocketAddress } from 'node:net';
import { DerReader, type DerValue, readDer, stringText, tags, writeDer } from './der.ts';

const mapped = '::ffff:';

/** DNS names in lower case; IPv6 addresses in RFC 5952 form, IPv4-mapped addresses as IPv4. */
export function canonicalHostname(name: string): string {
  switch (isIP(name)) {
    case 0:
      return name.toLowerCase();
    case 4:
      return name;
    default: {
      const { address } = new SocketAddress({ address: name, family: 'ipv6' });
      const inner = address.startsWith(mapped) ? address.slice(mapped.length) : '';
      return isIP(inner) === 4 ? inner : address;
    }
  }
}

/** Returns the names in canonical form, sorted by code unit, without duplicates. */
export function canonicalHostnames(names: Iterable<string>): string[] {
  return [...new Set([...names].map(canonicalHostname))].toSorted();
}

/** Text of the 4 or 16 bytes of an address; undefined for any other length. */
export function ipText(bytes: Buffer): string | undefined {
  if (bytes.length === 4) return bytes.join('.');
  if (bytes.length !== 16) return undefined;
  const groups = Array.from({ length: 8 }, (_, group) => bytes.readUInt16BE(group * 2).toString(16));
  return canonicalHostname(groups.join(':'));
}

/**
 * Whether a DNS name of a certificate covers `asked`, by the rules of Go's x509.VerifyHostname: a wildcard stands for
 * exactly one label and only as the whole leftmost one. Both in canonical form; no trailing dot in the certificate's
 * name.
 */
export function dnsNameCovers(pattern: string, asked: string): boolean {
  const host = asked.endsWith('.') ? asked.slice(0, -1) : asked;
  if (!pattern.startsWith('*.')) return pattern === host && host !== '';
  const dot = host.indexOf('.');
  return dot > 0 && host.slice(dot) === pattern.slice(1);
}

/**
 * Wanted names, each a DNS name or an address in canonical form, that a certificate with the held names does not cover.
 */
export const uncoveredHostnames = (wanted: readonly string[], held: readonly string[]): readonly string[] =>
  wanted.filter((name) => !held.some((one) => one === name || (isIP(name) === 0 && dnsNameCovers(one, name))));

/** Context-specific tags of GeneralName. */
export const nameTags = { email: 0x81, dns: 0x82, uri: 0x86, ip: 0x87 } as const;

/** DER of the name for a DNS name or an IP address. */
export function hostnameDer(hostname: string): Buffer {
  return isIP(hostname) === 0
    ? writeDer(nameTags.dns, Buffer.from(hostname, 'latin1'))
    : writeDer(nameTags.ip, addressBytes(hostname));
}

function addressBytes(address: string): Buffer {
  const text = canonicalHostname(address);
  return isIP(text) === 4 ? Buffer.from(text.split('.').map(Number)) : ipv6Bytes(text);
}

/** Bytes of an IPv6 address in any notation. */
export function ipv6Bytes(text: string): Buffer {
  const [head = '', tail] = text.split('::').map((half) => half.replace(/[^:]*\.[^:]*$/, dottedGroups));
  const groups = (half: string): string[] => half.split(':').filter((group) => group !== '');
  const after = tail === undefined ? [] : groups(tail);
  const between = Array.from({ length: 8 - groups(head).length - after.length }, () => '0');
  return Buffer.from([...groups(head), ...between, ...after].map((group) => group.padStart(4, '0')).join(''), 'hex');
}

/** Last two groups of `::1.2.3.4`. */
function dottedGroups(ipv4: string): string {
  const hex = Buffer.from(ipv4.split('.').map(Number)).toString('hex');
  return `${hex.slice(0, 4)}:${hex.slice(4)}`;
}

/**
 * DNS names sorted, then e-mail addresses, IP addresses and URIs in their order, then the rest; each once, an IPv4
 * address always in four bytes. kubeadm sorts and shortens in the same way, but drops all kinds but DNS names and IP
 * addresses (cmd/kubeadm/app/util/pkiutil).
 */
export function orderedNames(names: readonly Buffer[]): Buffer[] {
  const plain = [...new Map(names.map((name) => short(name)).map((name) => [name.toString('hex'), name])).values()];
  const of = (kind: number): Buffer[] => plain.filter((name) => name[0] === kind);
  const content = (name: Buffer): Buffer => readDer(name).content;
  const dns = of(nameTags.dns).toSorted((a, b) => Buffer.compare(content(a), content(b)));
  const known: readonly number[] = Object.values(nameTags);
  const rest = plain.filter((name) => !known.includes(name[0] ?? 0));
  return [...dns, ...of(nameTags.email), ...of(nameTags.ip), ...of(nameTags.uri), ...rest];
}

function short(name: Buffer): Buffer {
  const { tag, content } = readDer(name);
  const text = tag === nameTags.ip ? ipText(content) : undefined;
  return text === undefined ? name : hostnameDer(text);
}

export interface DistinguishedName {
  readonly der: Buffer;
  /** RFC 2253 text, last RDN first. */
  readonly text: string;
  /** The last common name, where there are several (as in Go); empty where there is none. */
  readonly commonName: string;
  readonly organizations: readonly string[];
  /** All attributes, in the order of the bytes: types by short name (CN, O), all else as object identifiers. */
  readonly attributes: readonly { readonly type: string; readonly value: string }[];
}

const shortNames: Readonly<Record<string, string>> = {
  '2.5.4.3': 'CN',
  '2.5.4.5': 'SERIALNUMBER',
  '2.5.4.6': 'C',
  '2.5.4.7': 'L',
  '2.5.4.8': 'ST',
  '2.5.4.9': 'STREET',
  '2.5.4.10': 'O',
  '2.5.4.11': 'OU',
  '2.5.4.17': 'POSTALCODE',
};

function escapeValue(value: string): string {
  return value
    .replaceAll(/[,+"\\<>;]/g, String.raw`\$&`)
    .replace(/^[# ]/, String.raw`\$&`)
    .replace(/(?<!^) $/, String.raw`\ `);
}

/** Parses a name and calls `check` with the value of each attribute. */
export function readDistinguishedName(name: DerValue, check: (value: DerValue) => void = () => {}): DistinguishedName {
  const rdns = new DerReader(name.content).all((sets) =>
    sets.inside(tags.set, 'part of a name').all((attributes) => {
      const attribute = attributes.inside(tags.sequence, 'attribute of a name');
      const oid = attribute.oid('type of a name');
      const value = attribute.any();
      check(value);
      return { type: shortNames[oid] ?? oid, value: stringText(value) };
    }),
  );
  const attributes = rdns.flat();
  const valuesOf = (wanted: string): string[] =>
    attributes.filter(({ type }) => type === wanted).map(({ value }) => value);
  const text = rdns
    .toReversed()
    .map((rdn) => rdn.map(({ type, value }) => `${type}=${escapeValue(value)}`).join('+'))
    .join(',');
  return { der: name.raw, text, commonName: valuesOf('CN').at(-1) ?? '', organizations: valuesOf('O'), attributes };
}

const oids = { commonName: Buffer.from('0603550403', 'hex'), organization: Buffer.from('060355040a', 'hex') };

/** Characters of a PrintableString in Go's encoding/asn1; any other text becomes a UTF8String. */
const printable = /^[A-Za-z0-9 '()+,./:=?-]*$/;

/**
 * Returns the name that Go makes of organizations and a common name. Organizations that are given together are in one
 * RDN, in the order of their DER.
 */
export function distinguishedName(
  commonName: string,
  ...organizations: readonly (readonly string[])[]
): DistinguishedName {
  const attribute = (oid: Buffer, text: string): Buffer => {
    const tag = printable.test(text) ? tags.printableString : tags.utf8String;
    return writeDer(tags.sequence, oid, writeDer(tag, Buffer.from(text)));
  };
  const rdns = [
    ...organizations
      .filter(({ length }) => length > 0)
      .map((all) => all.map((one) => attribute(oids.organization, one))),
    [attribute(oids.commonName, commonName)],
  ];
  const sets = rdns.map((rdn) => writeDer(tags.set, ...rdn.toSorted((a, b) => Buffer.compare(a, b))));
  return readDistinguishedName(readDer(writeDer(tags.sequence, ...sets)));
}
