// Address of a server, in the form for sockets.
import { isIP } from 'node:net';

export interface Address {
  /** A name or an IP address, without brackets; empty: all addresses of the machine. */
  readonly host: string;
  readonly port: number;
}

/** `127.0.0.1:6443`, `[::1]:6443`. */
export const addressText = ({ host, port }: Address): string => `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;

/** Address of an https URL. */
export const serverAddress = (url: URL): Address => ({ host: bareHost(url), port: Number(url.port || '443') });

/** Host without brackets: an IPv6 address has them in a URL (RFC 3986, section 3.2.2), and nowhere else. */
export const bareHost = ({ hostname }: Pick<URL, 'hostname'>): string => hostname.replace(/^\[(.+)\]$/, '$1');

/** Host that a URL names, without brackets; undefined for other text. */
export function hostOfUrl(text: string): string | undefined {
  const url = URL.parse(text.trim());
  return url === null || url.hostname === '' ? undefined : bareHost(url);
}

/** `host`: a name or an address without brackets. */
export const isLoopbackHost = (host: string): boolean =>
  host === 'localhost' || host === '::1' || host.startsWith('127.');

/** `address`: of a socket; an IPv4 address may be mapped into IPv6. */
export const isLoopbackAddress = (address = ''): boolean => isLoopbackHost(address.replace(/^::ffff:(?=\d+\.)/, ''));

/**
 * A loop, as `/\/+$/` tries each slash of a path that ends in another character. The first slash stays where `least` is
 * 1.
 */
export function withoutSlashesAtEnd(path: string, least = 0): string {
  let length = path.length;
  while (length > least && path[length - 1] === '/') length -= 1;
  return path.slice(0, length);
}
