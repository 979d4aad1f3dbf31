// TLS server of the metrics, for clients with a certificate of one CA. Its files may be replaced at any time: they are
// read again each minute.
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { createServer, type Server } from 'node:tls';
import type { Clock } from './clock.ts';
import { errorText, RecoveryError } from './errors.ts';

export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** The CAs whose clients are let in. */
  readonly clientCaFile: string;
}

const handshakeMs = 5000;
const againMs = 60_000;

/** `onClient`: receives the connection of a client that has shown such a certificate. Throws MaterialInvalid. */
export async function createMetricsServer(
  files: TlsFiles,
  { clock, signal, onClient }: { clock: Clock; signal: AbortSignal; onClient: (socket: Socket) => void },
): Promise<Server> {
  try {
    const verified = { requestCert: true, rejectUnauthorized: true, handshakeTimeout: handshakeMs };
    const server = createServer({ ...verified, ...(await materialOf(files)) }, onClient);
    server.on('tlsClientError', () => undefined);
    server.once('listening', () => void keepReading(server, files, { clock, signal }));
    return server;
  } catch (err) {
    throw new RecoveryError('MaterialInvalid', `Cannot serve metrics over TLS: ${errorText(err)}`, { cause: err });
  }
}

async function materialOf({ certFile, keyFile, clientCaFile }: TlsFiles) {
  const [cert, key, ca] = await Promise.all([certFile, keyFile, clientCaFile].map((path) => readFile(path)));
  return { cert, key, ca };
}

/** Files in the middle of a replacement are read a minute later. */
async function keepReading(server: Server, files: TlsFiles, { clock, signal }: { clock: Clock; signal: AbortSignal }) {
  while (!signal.aborted) {
    await clock.sleep(againMs, signal);
    await materialOf(files)
      .then((material) => server.setSecureContext(material))
      .catch(() => undefined);
  }
}
