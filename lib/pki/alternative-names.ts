// Subject alternative names as bytes (RFC 5280, 4.2.1.6): made from text, and brought into the order in which Go's
// crypto/x509 and kubeadm write them. Kinds of names that are not understood here are kept as they are.
import { isIP } from 'node:net';
import { readDer, writeDer } from './der.ts';
import { canonicalHostname, ipText } from './hostname.ts';

/** Context-specific tags of GeneralName. */
const kinds = { email: 0x81, dns: 0x82, uri: 0x86, ip: 0x87 } as const;

/** DER of the name for a DNS name or an IP address. */
export function hostnameDer(hostname: string): Buffer {
  return isIP(hostname) === 0
    ? writeDer(kinds.dns, Buffer.from(hostname, 'latin1'))
    : writeDer(kinds.ip, addressBytes(hostname));
}

function addressBytes(address: string): Buffer {
  const text = canonicalHostname(address);
  if (isIP(text) === 4) return Buffer.from(text.split('.').map(Number));
  const [head = '', tail] = text.split('::').map((half) => half.replace(/[^:]*\.[^:]*$/, dottedGroups));
  const groups = (half: string): string[] => half.split(':').filter((group) => group !== '');
  const after = tail === undefined ? [] : groups(tail);
  const between = Array.from({ length: 8 - groups(head).length - after.length }, () => '0');
  return Buffer.from([...groups(head), ...between, ...after].map((group) => group.padStart(4, '0')).join(''), 'hex');
}

/** The end of `::1.2.3.4` as two groups. */
function dottedGroups(ipv4: string): string {
  const hex = Buffer.from(ipv4.split('.').map(Number)).toString('hex');
  return `${hex.slice(0, 4)}:${hex.slice(4)}`;
}

/**
 * DNS names sorted, then e-mail addresses, IP addresses and URIs in their order, then the rest; each once, an IPv4
 * address always in four bytes. kubeadm sorts and shortens in the same way, but leaves out what is no DNS name and no
 * IP address (cmd/kubeadm/app/util/pkiutil).
 */
export function orderedNames(names: readonly Buffer[]): Buffer[] {
  const plain = [...new Map(names.map((name) => short(name)).map((name) => [name.toString('hex'), name])).values()];
  const of = (kind: number): Buffer[] => plain.filter((name) => name[0] === kind);
  const content = (name: Buffer): Buffer => readDer(name).content;
  const dns = of(kinds.dns).toSorted((a, b) => Buffer.compare(content(a), content(b)));
  const known: readonly number[] = Object.values(kinds);
  const rest = plain.filter((name) => !known.includes(name[0] ?? 0));
  return [...dns, ...of(kinds.email), ...of(kinds.ip), ...of(kinds.uri), ...rest];
}

function short(name: Buffer): Buffer {
  const { tag, content } = readDer(name);
  const text = tag === kinds.ip ? ipText(content) : undefined;
  return text === undefined ? name : hostnameDer(text);
}
