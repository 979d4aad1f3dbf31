// Requests that must not be sent: a replacement that would overwrite any newer state, and a path that ends the
// connection of all other requests.
import { RecoveryError } from '../errors.ts';
import type { KubeRequest } from './kube.ts';

interface Asked {
  readonly verb: string;
  readonly object: string;
}

/** nghttp2 takes a header of 64 KiB, and Node closes the whole session for a longer one. */
const longestPath = 60_000;

/** Throws KubeRejected for a path that is too long: requesters may give their objects names of any length. */
export function requireShortPath(path: string, { verb, object }: Asked): void {
  if (path.length <= longestPath) return;
  const message = `Cannot ${verb} ${object.slice(0, 100)}: its path has ${path.length} characters, wanted ${longestPath} at most`;
  throw new RecoveryError('KubeRejected', message);
}

/** Throws KubeWrongAnswer for a PUT without a resourceVersion: the object was read without one. */
export function requireVersion({ method, body }: KubeRequest, { verb, object }: Asked): void {
  const { metadata } = (body ?? {}) as { readonly metadata?: { readonly resourceVersion?: unknown } };
  if (method !== 'PUT' || (metadata?.resourceVersion ?? '') !== '') return;
  throw new RecoveryError('KubeWrongAnswer', `Cannot ${verb} ${object}: it was read without a resourceVersion`);
}
