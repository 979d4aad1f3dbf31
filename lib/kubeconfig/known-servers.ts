// The API servers that are known for this machine, by which a kubeconfig shows whether it is this machine's. Pure.
import { bareHost, isLoopbackHost } from '../address.ts';
import type { IssuedHere } from '../pki/issued-here.ts';

/** URLs of this machine's API server, as far as known, and the check of its CAs' certificates. */
export interface KnownServers {
  readonly controlPlane?: string;
  readonly local?: string;
  /** Servers that components of this machine reach with certificates of its own CA. */
  readonly components?: readonly string[];
  readonly issued?: IssuedHere | undefined;
  /** Only the server and its CA count, not the user. */
  readonly anyUser?: boolean;
}

/** Whether the URL of a server is one of this machine's API server. */
export function isHere(asked: unknown, { controlPlane, local, components = [] }: KnownServers): boolean {
  const server = urlOf(asked);
  if (server === undefined) return false;
  const own = urlOf(local);
  return (
    own?.host === server.host ||
    (isLoopbackHost(bareHost(server)) && own?.port === server.port) ||
    [controlPlane, ...components].some((url) => urlOf(url)?.host === server.host)
  );
}

const urlOf = (text: unknown): URL | undefined =>
  typeof text === 'string' ? (URL.parse(text) ?? undefined) : undefined;
