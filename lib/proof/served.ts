// Which certificate a TLS server answers with, held against the one on disk.
//
// The handshake does not verify the peer: the certificate is compared by its SHA-256 fingerprint with bytes that we
// hold, which is stronger than any chain, and an expired certificate must be seen and reported, not only refused.
// Nothing is sent over this connection, and nothing that the server says is believed.
import type { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';
import { isIP } from 'node:net';
import type { Address } from '../address.ts';
import type { Clock } from '../clock.ts';
import { errorText } from '../errors.ts';
import { presentedChain } from '../pki/presented.ts';
import { waitAtMost } from '../retry.ts';
import type { ProofResult } from './result.ts';

export interface ServedOptions extends Address {
  /**
   * The name asked for by SNI. An IP address cannot be asked for (RFC 6066, section 3): then no name is sent. With no name,
   * or one that none of its SNI certificates matches, kube-apiserver answers with its default certificate.
   */
  readonly serverName: string;
  /** SHA-256 of the leaf's DER on disk, lower-case hex. */
  readonly expected: string;
  /** CA certificates (PEM): the message then also says whether the chain verifies with them. */
  readonly trust?: string;
  /** PEM of who asks, for a server that talks to nobody else (etcd); without it such a server logs a refused client. */
  readonly client?: { readonly cert: string; readonly key: string } | undefined;
  /** Default 2 000. */
  readonly timeoutMs?: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface ServedResult extends ProofResult {
  /** SHA-256 of what was served; undefined when the handshake failed. */
  readonly servedFingerprint?: string;
  readonly servedNotAfter?: Date;
  /** Only with `trust`. */
  readonly verified?: boolean;
}

/** SHA-256 of the DER, lower-case hex. */
export const fingerprintOf = ({ fingerprint256 }: X509Certificate): string =>
  fingerprint256.replaceAll(':', '').toLowerCase();

/** One handshake. Resolves with what was served; never rejects. */
export async function proveServed(options: ServedOptions): Promise<ServedResult> {
  const { host, port, serverName, expected, clock } = options;
  const name = `"${serverName}" at ${host}:${port}`;
  // OpenSSL refuses some clients' pairs (a key that is too short) before anything is sent.
  const answer = await handshake(options).catch(errorText);
  if (typeof answer === 'string') return { state: 'unproven', message: `No TLS answer for ${name}: ${answer}` };
  const { fingerprint, notAfter, problem } = answer;
  const served = {
    servedFingerprint: fingerprint,
    servedNotAfter: notAfter,
    ...(options.trust === undefined ? {} : { verified: problem === undefined }),
  };
  const ends = `${notAfter < clock.now() ? 'expired' : 'valid until'} ${notAfter.toISOString()}`;
  const chain = options.trust !== undefined && problem !== undefined ? `, and does not verify: ${problem}` : '';
  if (fingerprint === expected) {
    return { ...served, state: 'proven', message: `The certificate on disk is served for ${name} (${ends}${chain})` };
  }
  const wanted = `wanted sha256 ${expected.slice(0, 16)}, got ${fingerprint.slice(0, 16)}`;
  return { ...served, state: 'unproven', message: `Another certificate is served for ${name} (${ends}): ${wanted}` };
}

interface Answer {
  readonly fingerprint: string;
  readonly notAfter: Date;
  readonly problem: string | undefined;
}

type Handshake = Pick<
  ServedOptions,
  'host' | 'port' | 'serverName' | 'trust' | 'client' | 'timeoutMs' | 'clock' | 'signal'
>;

const handshake = (options: Handshake): Promise<Answer> => withHandshake(options, peerOf);

/**
 * What the server presents, leaf first, PEM. It has shown that it has the key of the leaf; whether the certificate is to be
 * believed is not asked here. Throws when there is no answer.
 */
export const servedChain = (options: Handshake): Promise<string> => withHandshake(options, presentedChain);

/** Throws when there is none. */
async function withHandshake<T>(options: Handshake, read: (socket: TLSSocket) => T): Promise<T> {
  const { host, port, serverName, trust, client, timeoutMs = 2_000, clock, signal } = options;
  const socket = connect({
    host,
    port,
    servername: isIP(serverName) ? '' : serverName,
    rejectUnauthorized: false, // compared by fingerprint: see the head of this file
    // As Go takes a CA file: every certificate in it is trusted, also a CA that another one has signed.
    ...(trust === undefined ? {} : { ca: trust, allowPartialTrustChain: true }),
    ...client,
  });
  let isWhole = false;
  try {
    await waitAtMost(
      timeoutMs,
      once(socket, 'secureConnect').then(() => (isWhole = true)),
      { clock, signal },
    );
    if (isWhole) return read(socket);
    throw new Error(signal.aborted ? 'given up because the process stops' : `none within ${timeoutMs} ms`);
  } finally {
    socket.on('error', () => {}); // a reset after the decision is nobody's concern
    // A handshake that is whole on our side is made whole on the other, which else logs a broken one.
    if (isWhole) socket.destroySoon();
    else socket.destroy();
  }
}

function peerOf(socket: TLSSocket): Answer {
  const leaf = socket.getPeerX509Certificate();
  if (leaf === undefined) throw new Error('the server showed no certificate');
  const problem = socket.authorized ? undefined : errorText(socket.authorizationError);
  return { fingerprint: fingerprintOf(leaf), notAfter: new Date(leaf.validTo), problem };
}
