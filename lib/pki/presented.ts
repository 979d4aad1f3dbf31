// Certificates that a TLS server presents in the handshake. It has proven that it has the key of the leaf; whether the
// certificates are to be trusted is not checked here.
import type { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { bounds } from '../bounds.ts';

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
