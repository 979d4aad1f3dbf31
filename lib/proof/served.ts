// The certificate that a TLS server presents, compared with the one on disk.
//
// The handshake does not verify the peer: the certificate is compared by its SHA-256 fingerprint with bytes on disk,
// and an expired certificate must be seen and reported, not only refused. The chain is then verified as its readers
// verify it: the right leaf is useless to them behind an expired intermediate.
// Nothing is sent over this connection, and no answer of the server is trusted.
import { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { isIP } from 'node:net';
import type { Address } from '../address.ts';
import type { Clock } from '../clock.ts';
import { errorText } from '../errors.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { presentedChain, unverifiedSocket } from '../pki/presented.ts';
import type { ProofResult } from './result.ts';
import { type ReadersTrust, refusalOf } from './trust-of-readers.ts';

export interface ServedOptions extends Address {
  /**
   * Name for SNI. An IP address cannot be sent (RFC 6066, section 3): then no name is. Without a name, or with a name
   * that none of its SNI certificates matches, kube-apiserver answers with its default certificate.
   */
  readonly serverName: string;
  /** SHA-256 of the leaf's DER on disk, lower-case hex. */
  readonly expected: string;
  /** Trust of the certificate's readers: a certificate that they refuse is not proven. */
  readonly trust?: ReadersTrust | undefined;
  /** PEM of the client, for a server that requires one (etcd); without it such a server logs a refused client. */
  readonly client?: { readonly cert: string; readonly key: string } | undefined;
  /** Milliseconds. Default 2 000. */
  readonly timeoutMs?: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface ServedResult extends ProofResult {
  /** SHA-256 of the served certificate; undefined when the handshake failed. */
  readonly servedFingerprint?: string;
  readonly servedNotAfter?: Date;
  /** Only with `trust`. */
  readonly verified?: boolean;
}

/** SHA-256 of the DER, lower-case hex. */
export const fingerprintOf = ({ fingerprint256 }: X509Certificate): string =>
  fingerprint256.replaceAll(':', '').toLowerCase();

/** Makes one handshake. Resolves with the served certificate; never rejects. */
export async function proveServed(options: ServedOptions): Promise<ServedResult> {
  const { host, port, serverName, expected, clock } = options;
  const name = `"${serverName}" at ${host}:${port}`;
  // OpenSSL refuses some clients' pairs (a key that is too short) before it sends anything.
  const answer = await handshake(options).catch(errorText);
  if (typeof answer === 'string') return { state: 'unproven', message: `No TLS answer for ${name}: ${answer}` };
  const { fingerprint, notAfter, chain } = answer;
  const problem = options.trust && refusal(chain, options.trust, clock.now());
  const served = {
    servedFingerprint: fingerprint,
    servedNotAfter: notAfter,
    ...(options.trust === undefined ? {} : { verified: problem === undefined }),
  };
  const ends = `${notAfter < clock.now() ? 'expired' : 'valid until'} ${notAfter.toISOString()}`;
  if (fingerprint === expected) {
    const message = `The certificate on disk is served for ${name} (${ends})`;
    if (problem === undefined) return { ...served, state: 'proven', message };
    return { ...served, state: 'unproven', message: `${message}, and its readers refuse it: ${problem}` };
  }
  const wanted = `wanted sha256 ${expected.slice(0, 16)}, got ${fingerprint.slice(0, 16)}`;
  return { ...served, state: 'unproven', message: `Another certificate is served for ${name} (${ends}): ${wanted}` };
}

function refusal(chain: string, trust: ReadersTrust, at: Date): string | undefined {
  if (trust.bundles.length === 0) return undefined;
  try {
    return refusalOf(parseCertificates(Buffer.from(chain), 'the server'), trust, at);
  } catch (err) {
    return errorText(err);
  }
}

interface Answer {
  readonly fingerprint: string;
  readonly notAfter: Date;
  /** PEM of the presented chain, leaf first. */
  readonly chain: string;
}

type Handshake = Pick<ServedOptions, 'host' | 'port' | 'serverName' | 'client' | 'timeoutMs' | 'clock' | 'signal'>;

const handshake = (options: Handshake): Promise<Answer> => withHandshake(options, peerOf);

/**
 * Returns the certificates that the server presents, leaf first, PEM. It has proven that it has the key of the leaf;
 * whether the certificate is to be trusted is not checked here. Throws when there is no answer.
 */
export const servedChain = (options: Handshake): Promise<string> => withHandshake(options, presentedChain);

/** Throws when there is no answer. */
async function withHandshake<T>(options: Handshake, read: (socket: TLSSocket) => T): Promise<T> {
  const { host, port, serverName, client, timeoutMs = 2_000, clock, signal } = options;
  const at = { host, port, servername: isIP(serverName) ? '' : serverName, ...client };
  const socket = await unverifiedSocket(at, timeoutMs, { clock, signal });
  if (socket === undefined)
    throw new Error(signal.aborted ? 'given up before one came' : `none within ${timeoutMs} ms`);
  try {
    return read(socket);
  } finally {
    // A handshake that is complete on this side is completed on the other, which else logs a broken one.
    socket.destroySoon();
  }
}

/** Reads both at one time: Node gives a peer's certificates once. */
function peerOf(socket: TLSSocket): Answer {
  const chain = presentedChain(socket);
  const leaf = new X509Certificate(chain);
  return { fingerprint: fingerprintOf(leaf), notAfter: leaf.validToDate, chain };
}
