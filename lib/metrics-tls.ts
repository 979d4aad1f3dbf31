// TLS server of the metrics, for clients with a certificate of one CA. Its files may be replaced at any time: they are
// read again each minute.
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { createServer, type Server } from 'node:tls';
import type { Clock } from './clock.ts';
import { errorText, RecoveryError } from './errors.ts';
import type { Log } from './log.ts';

export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** The CAs whose clients are let in. */
  readonly clientCaFile: string;
}

const handshakeMs = 5000;
const againMs = 60_000;

interface Serving {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly log?: Pick<Log, 'error'> | undefined;
}

/** `onClient`: receives the connection of a client that has shown such a certificate. Throws MaterialInvalid. */
export async function createMetricsServer(
  files: TlsFiles,
  { onClient, ...serving }: Serving & { readonly onClient: (socket: Socket) => void },
): Promise<Server> {
  try {
    const verified = { requestCert: true, rejectUnauthorized: true, handshakeTimeout: handshakeMs };
    const server = createServer({ ...verified, ...(await materialOf(files)) }, onClient);
    server.on('tlsClientError', () => undefined);
    server.once('listening', () => void keepReading(server, files, serving));
    return server;
  } catch (err) {
    throw new RecoveryError('MaterialInvalid', `Cannot serve metrics over TLS: ${errorText(err)}`, { cause: err });
  }
}

async function materialOf({ certFile, keyFile, clientCaFile }: TlsFiles) {
  const [cert, key, ca] = await Promise.all([certFile, keyFile, clientCaFile].map((path) => readFile(path, 'latin1')));
  requireCertificates(ca ?? '', clientCaFile);
  return { cert, key, ca };
}

/** OpenSSL takes CAs up to the first block that is torn, also where that leaves none: then no client would be let in. */
function requireCertificates(text: string, path: string): void {
  const [begun = [], whole = []] = [/^-----BEGIN CERTIFICATE-----/gm, block].map((mark) => text.match(mark) ?? []);
  for (const one of whole) void new X509Certificate(one);
  if (whole.length > 0 && whole.length === begun.length) return;
  throw new Error(`"${path}" holds ${begun.length} certificates, ${whole.length} of them whole`);
}

const block = /^-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/gm;

/** Files in the middle of a replacement are read a minute later; those that stay as they are then are reported. */
async function keepReading(server: Server, files: TlsFiles, { clock, signal, log }: Serving): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    await clock.sleep(againMs, signal);
    try {
      server.setSecureContext(await materialOf(files));
      failures = 0;
    } catch (err) {
      failures += 1;
      const text = `Cannot take the files for metrics over TLS: ${errorText(err)}; the former ones stay in use`;
      if (failures === 2) log?.error('health.failed', { err: text, code: 'MaterialInvalid', attempt: failures });
    }
  }
}
