// Reads of one object that several entries of an inventory lie in: one answer serves all that ask while it is on its way.
// Nothing is kept: the next pass, and each write, reads anew.
import type { KubeConnection, KubeRequest } from './kube.ts';

type Requests = Pick<KubeConnection, 'request'>;

/** A connection for reads alone. */
export function sharingReads(connection: Requests): Requests {
  const onTheirWay = new Map<string, { readonly signal: AbortSignal; readonly answer: Promise<unknown> }>();
  return {
    async request<T>(asked: KubeRequest): Promise<T> {
      const { path, signal } = asked;
      const known = onTheirWay.get(path);
      if (known?.signal === signal) return known.answer as Promise<T>;
      const answer = connection.request<T>(asked);
      onTheirWay.set(path, { signal, answer });
      try {
        return await answer;
      } finally {
        if (onTheirWay.get(path)?.answer === answer) onTheirWay.delete(path);
      }
    },
  };
}
