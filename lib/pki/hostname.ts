// One written form for each DNS name and IP address, so that a name in a configuration, a name in a certificate and a
// name that is asked for can be compared as text.
import { isIP, SocketAddress } from 'node:net';

const mapped = '::ffff:';

/** DNS names in lower case; IPv6 addresses as in RFC 5952, those that only wrap an IPv4 address as that address. */
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

/** Canonical, sorted by code unit, without duplicates. */
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
 * Whether a DNS name of a certificate covers `asked`, as Go's x509.VerifyHostname: a wildcard stands for exactly one
 * label and only as the whole leftmost one. Both in canonical form; no trailing dot in the certificate's name.
 */
export function dnsNameCovers(pattern: string, asked: string): boolean {
  const host = asked.endsWith('.') ? asked.slice(0, -1) : asked;
  if (!pattern.startsWith('*.')) return pattern === host && host !== '';
  const dot = host.indexOf('.');
  return dot > 0 && host.slice(dot) === pattern.slice(1);
}
