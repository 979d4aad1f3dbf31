// What stays in memory of a request that waits. It is read again when it is looked at: whoever may ask decides how large
// a request is, up to 1.5 MiB, and how many there are. Pure.
import { readRequestSubject } from '../pki/csr.ts';
import { requestedAt, type SigningRequest } from './request.ts';
import { judgeSize, nodeOf } from './shape.ts';

export interface Outline {
  readonly name: string;
  readonly uid: string | undefined;
  readonly requestedAt: Date;
  /** Characters of the whole object as JSON. */
  readonly size: number;
  /** The node that it asks for, read once; undefined: it names none, is too large or cannot be read. */
  readonly node?: string;
}

export function outlineOf(request: SigningRequest): Outline {
  const { name, uid } = request.metadata;
  const size = JSON.stringify(request).length;
  const node = judgeSize(size) === undefined ? askedNode(request) : undefined;
  return { name, uid, requestedAt: requestedAt(request), size, ...(node !== undefined && { node }) };
}

/** Its subject only: the signature is checked when it is judged. */
export function askedNode({ spec }: SigningRequest): string | undefined {
  try {
    return nodeOf(readRequestSubject(Buffer.from(spec.request, 'base64')).commonName);
  } catch {
    return undefined; // its look will say what it is
  }
}
