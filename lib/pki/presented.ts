// A TLS server that is verified by what it presents. The handshake has proven that it has the key of its leaf; whether its
// certificates are to be trusted is not checked here.
import type { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { bounds } from '../bounds.ts';
import type { Clock } from '../clock.ts';
import { waitAtMost } from '../retry.ts';

/**
 * Opens a connection to a server that nothing verifies: the caller does, by what it presents, before anything is sent.
 * Undefined where the handshake is not complete in time. Rejects with errors of the connection.
 */
export async function unverifiedSocket(
  options: ConnectionOptions,
  timeoutMs: number,
  waiting: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<TLSSocket | undefined> {
  const { connect } = await import('node:tls'); // a run that finds nothing to prove need not load it
  const socket = connect({ ...options, rejectUnauthorized: false });
  let isWhole = false;
  try {
    const whole = once(socket, 'secureConnect').then(() => (isWhole = true));
    await waitAtMost(timeoutMs, whole, waiting);
    return isWhole ? socket : undefined;
  } finally {
    socket.on('error', () => undefined); // a reset after the decision does not matter
    if (!isWhole) socket.destroy();
  }
}

/** Leaf first, PEM. Throws where there is none. */
export function presentedChain(socket: Pick<TLSSocket, 'getPeerX509Certificate'>): string {
  const chain: X509Certificate[] = [];
  let next = socket.getPeerX509Certificate();
  if (next === undefined) throw new Error('the server showed no certificate');
  while (next !== undefined && chain.length < bounds.presented.most.certificates) {
    chain.push(next);
    next = next.issuerCertificate;
  }
  return chain.map((certificate) => certificate.toString()).join('');
}
