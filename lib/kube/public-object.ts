// Reads one public object of an API server whose CA certificate this machine has, though that may have expired. A trust
// anchor is a name and a public key (RFC 5280, 6.1.1 d): the expiry of the CA certificate that brought these is no part
// of path validation. So the server is verified here, by the key of that CA: signatures, its name, its own dates and
// usage, all but the dates of the anchor. TLS has proven by then that it has the key of its certificate. Nothing is
// sent before the server is verified, and no credential ever is: a verified server counts as the API server for one
// public answer, which the caller has to judge. Everything else goes through connection.ts, which checks all dates.
import type { EventEmitter } from 'node:events';
import { isIP } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { Client } from 'undici';
import { bounds } from '../bounds.ts';
import { serverAddress } from '../address.ts';
import { type Clock, steadyMs } from '../clock.ts';
import { errorText } from '../errors.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { presentedChain, unverifiedSocket } from '../pki/presented.ts';
import { verifyChain } from '../pki/verify.ts';
import { version } from '../program.ts';
import { waitAtMost } from '../retry.ts';
import { describeRequest, parseAnswer } from './answer.ts';
import { type Attempt, networkError, statusError, unavailable } from './api-error.ts';

export interface PublicRead {
  /** `https://10.0.0.1:6443`, with the path that some proxies put before the API. */
  readonly server: string;
  /** Name for SNI and verification. Undefined: the host of `server`. */
  readonly serverName: string | undefined;
  /** CAs whose key identifies the server. */
  readonly anchors: readonly Certificate[];
  readonly path: string;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Throws as `KubeConnection.request`; for a server that fails verification KubeUnavailable, with `untrusted` in its
 * details.
 */
export async function readPublicObject<T>(asked: PublicRead): Promise<T> {
  const { server, serverName, path, timeoutMs, clock, signal } = asked;
  const url = new URL(server);
  const name = serverName ?? serverAddress(url).host;
  const attempt: Attempt = {
    ...describeRequest('GET', path),
    server: serverName === undefined ? server : `${server} (${serverName})`,
  };
  const limit = steadyMs(clock) + timeoutMs;
  let client: Client | undefined;
  try {
    client = clientOn(await verifiedSocket(asked, { name, attempt }), url);
    const headers = { accept: 'application/json', 'user-agent': `kube-cert-recovery/${version}` };
    const exchange = client.request({ method: 'GET', path: `${url.pathname.replace(/\/$/, '')}${path}`, headers });
    let answer: { readonly status: number; readonly text: string } | undefined;
    const read = exchange.then(async ({ statusCode: status, body }) => (answer = { status, text: await body.text() }));
    await waitAtMost(Math.max(0, limit - steadyMs(clock)), read, { clock, signal });
    if (answer === undefined) throw unavailable(attempt, `no answer within ${timeoutMs} ms, server ${attempt.server}`);
    if (answer.status < 200 || answer.status >= 300) throw statusError(attempt, answer.status, answer.text);
    return parseAnswer({ method: 'GET', path, signal }, attempt, answer.text) as T;
  } catch (err) {
    throw networkError(attempt, err);
  } finally {
    await client?.destroy();
  }
}

/** Client of this connection and no other: a verified socket is used once. */
function clientOn(socket: TLSSocket, { origin }: URL): Client {
  let isUsed = false;
  const client = new Client(origin, {
    connect: (_options, callback) => {
      const ended = isUsed ? Object.assign(new Error('ended'), { code: 'UND_ERR_CLOSED' }) : undefined;
      isUsed = true;
      // Deferred: undici does not expect it before its own call has returned.
      queueMicrotask(() => (ended === undefined ? callback(null, socket) : callback(ended, null)));
    },
    maxResponseSize: bounds.publicAnswer.most.bytes,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const events: EventEmitter = client; // as in pool.ts: a failed connection is no unhandled error
  events.on('error', () => undefined);
  return client;
}

interface Peer {
  /** DNS name or IP address. */
  readonly name: string;
  readonly attempt: Attempt;
}

/** Opens a verified connection to the server, on which nothing was sent yet. */
async function verifiedSocket(asked: PublicRead, { name, attempt }: Peer): Promise<TLSSocket> {
  const { server, anchors, timeoutMs, clock, signal } = asked;
  const at = {
    ...serverAddress(new URL(server)),
    servername: isIP(name) === 0 ? name : '',
    ALPNProtocols: ['http/1.1'],
    ca: anchors.map(({ pem }) => pem),
  };
  // Node would also check the dates of the anchor. All its other checks are made below, before anything is sent.
  const socket = await unverifiedSocket(at, timeoutMs, { clock, signal });
  if (socket === undefined)
    throw unavailable(attempt, `no connection within ${timeoutMs} ms, server ${attempt.server}`);
  try {
    const problem = peerProblem(presentedChain(socket), { name, anchors, now: clock.now() });
    if (problem === undefined) return socket;
    const state = `the server's certificate is not one of the CA that is known here, by its key: ${problem}, server ${attempt.server}`;
    throw unavailable(attempt, state, undefined, { away: true, untrusted: true });
  } catch (err) {
    socket.destroy();
    throw err;
  }
}

interface Known {
  readonly name: string;
  readonly anchors: readonly Certificate[];
  readonly now: Date;
}

/** Why a server with this chain (PEM, leaf first) is not the server of that name, whatever the dates of the anchors. */
function peerProblem(chain: string, { name, anchors, now }: Known): string | undefined {
  let presented: readonly Certificate[];
  try {
    presented = parseCertificates(Buffer.from(chain), 'the server');
  } catch (err) {
    return errorText(err);
  }
  const [leaf, ...intermediates] = presented;
  if (leaf === undefined) return 'it has shown none';
  const question = { leaf, intermediates, roots: anchors, at: now, hostname: name } as const;
  const answer = verifyChain({ ...question, usage: 'serverAuth', rootDates: 'ignored' });
  return answer.ok ? undefined : answer.reason;
}
