// Names that a serving certificate may carry: DNS names (RFC 1123, with a wildcard as the first label) and IP addresses.
import { isIP } from 'node:net';
import { canonicalHostname } from '../pki/names.ts';

export const dnsLabel = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
export const dnsSubdomain = /^(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;

function isDnsName(name: string): boolean {
  if (name.length > 253) return false;
  const labels = name.split('.');
  const rest = labels[0] === '*' && labels.length > 1 ? labels.slice(1) : labels;
  // An all-numeric last label is what a mistyped IPv4 address looks like (RFC 1123, section 2.1).
  return rest.every((label) => dnsLabel.test(label)) && !/^\d+$/.test(rest.at(-1) ?? '');
}

/**
 * The one spelling of a host name, without the final dot of a DNS name, so that two spellings count once and compare
 * equal to what a certificate holds; undefined when `text` is neither a DNS name nor an IP address.
 */
export function checkedHostname(text: string): string | undefined {
  if (isIP(text) !== 0) return text.includes('%') ? undefined : canonicalHostname(text);
  const name = canonicalHostname(text).replace(/\.$/, '');
  return isDnsName(name) ? name : undefined;
}
