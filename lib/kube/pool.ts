// The pool of connections to one API server with one set of credentials: one for requests, more for watches, each
// HTTP/2 with many streams. A kube-apiserver allows 100 streams on a connection; a connection takes at most 80 watches,
// so that streams which the server has not yet forgotten never block a new watch. Without HTTP/2 there is one for each
// request in flight, and for each watch.
// A connection that stays silent is closed: undici sends PINGs, but waits for their answers for ever.
import { subscribe } from 'node:diagnostics_channel';
import type { EventEmitter } from 'node:events';
import type { TLSSocket } from 'node:tls';
import { buildConnector, Client } from 'undici';
import type { Credentials } from '../kubeconfig/credentials.ts';
import type { Clock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import { causesOf } from './api-error.ts';
import { Pace } from './pace.ts';

export interface PoolOptions {
  readonly credentials: Credentials;
  readonly clock: Clock;
  /** Milliseconds until a connection must be open, TLS included; longer where the server is slow. Default 5000. */
  readonly connectTimeoutMs?: number | undefined;
  /** Milliseconds between two PINGs; three without an answer close the connection. Default 5000. */
  readonly pingMs?: number | undefined;
}

export interface PooledConnection {
  readonly client: Client;
  /** Watches that use it now. */
  watches: number;
  /** Requests that use it now. */
  requests: number;
  /** The present socket, or the last one. */
  socket: TLSSocket | undefined;
  /** Whether data came on the connection since the last check. */
  heard: boolean;
  isMultiplexed: boolean;
  readonly ended: AbortController;
}

// undici takes its listeners off a stream that was cancelled; when the session then closes with an error, Node destroys
// that stream with it, and an 'error' without a listener terminates the process. Every request gets its failure in any
// case.
subscribe('http2.client.stream.created', (message) => {
  (message as { readonly stream: EventEmitter }).stream.on('error', () => undefined);
});

const mostWatches = 80;
const idleMs = 60_000;
const defaultConnectTimeoutMs = 5000;
/** Limit for a server that accepts the connection, and does not complete its TLS handshake. */
const longestConnectMs = 15_000;
/** Most connections for requests at a time, without HTTP/2. */
const mostRequests = 16;
/** Reason for moving queued requests to other connections: none of them has been sent. */
const withoutHttp2 = new RecoveryError(
  'KubeUnavailable',
  'the server has no HTTP/2: one connection for each request and watch',
);

/** Whether a request failed before it was sent, by `withoutHttp2`. */
export const isUnsent = (err: unknown): boolean => causesOf(err).includes(withoutHttp2);

/** Longest time of a request: after it a draining connection is of no use. */
const longestRequestMs = 60_000;

export class ConnectionPool {
  readonly #options: PoolOptions;
  readonly #forWatches = new Set<PooledConnection>();
  /** All connections, draining ones included until their requests have finished. */
  readonly #all = new Set<PooledConnection>();
  readonly #forRequests = new Set<PooledConnection>();
  /** Learned from ALPN. */
  #isMultiplexed = true;
  readonly pace: Pace;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.pace = new Pace(options.clock);
  }

  /** Connection for a request that has its turn (pace.ts), counted until `finished`. */
  forRequest(): PooledConnection {
    let connection = [...this.#forRequests].find(({ requests }) => this.#isMultiplexed || requests === 0);
    if (connection === undefined) {
      connection = this.#open();
      this.#forRequests.add(connection);
    }
    connection.requests += 1;
    return connection;
  }

  finished(connection: PooledConnection): void {
    connection.requests -= 1;
  }

  /**
   * Whether data came since a request began that has timed out: then the server is slow, and the connection stays;
   * otherwise it may be lost, and the next request gets a new one.
   */
  isSlow(connection: PooledConnection, before: Heard): boolean {
    const { socket, bytes } = heardOn(connection);
    const isHeard = socket !== before.socket || bytes > before.bytes;
    const isConnecting = !isHeard && (socket === undefined || socket.destroyed);
    if (isConnecting) return false; // the connect limit decides
    if (!isHeard || !connection.isMultiplexed) this.drain(connection);
    return isHeard;
  }

  /** Connection with room for another watch, counted until `release`. */
  forWatch(): PooledConnection {
    let connection = [...this.#forWatches].find(({ watches }) => watches < (this.#isMultiplexed ? mostWatches : 1));
    if (connection === undefined) {
      connection = this.#open();
      this.#forWatches.add(connection);
    }
    connection.watches += 1;
    return connection;
  }

  release(connection: PooledConnection): void {
    connection.watches -= 1;
    if (connection.watches > 0) return;
    // The last connection for watches is kept for the next watch; it closes by itself when idle.
    const kept = this.#forWatches.has(connection) && this.#forWatches.size === 1;
    if (!kept) this.drain(connection);
  }

  /**
   * Gives a connection no new requests, because it may be lost: those on it may finish, within their own time limits.
   */
  drain(connection: PooledConnection): void {
    this.#forget(connection);
    if (connection.watches > 0) return; // the last of its watches drains it again
    connection.ended.abort();
    if (connection.client.destroyed || connection.client.closed) return;
    const over = new AbortController();
    const forget = (): void => {
      this.#all.delete(connection);
      over.abort();
    };
    void connection.client.close().then(forget, forget);
    void this.#giveUp(connection, over.signal);
  }

  /** Closes all watches for `reason`; requests in flight are finished, because their outcome matters to the caller. */
  drainAll(reason: RecoveryError): void {
    for (const connection of this.#forWatches) void this.#end(connection, reason);
    for (const connection of this.#forRequests) this.drain(connection);
  }

  async close(reason: RecoveryError): Promise<void> {
    await Promise.all([...this.#all].map((connection) => this.#end(connection, reason)));
  }

  /** Closes a connection in the end: a write that got no answer stays on it (see exchange.ts), and it may be lost. */
  async #giveUp(connection: PooledConnection, over: AbortSignal): Promise<void> {
    await this.#options.clock.sleep(longestRequestMs, over);
    if (!over.aborted) await this.#end(connection, new RecoveryError('KubeUnavailable', 'the connection was given up'));
  }

  #forget(connection: PooledConnection): void {
    this.#forWatches.delete(connection);
    this.#forRequests.delete(connection);
  }

  #end(connection: PooledConnection, reason: RecoveryError): Promise<void> {
    this.#forget(connection);
    this.#all.delete(connection);
    connection.ended.abort();
    return connection.client.destroyed ? Promise.resolve() : connection.client.destroy(reason);
  }

  #open(): PooledConnection {
    const { credentials, pingMs = 5000 } = this.#options;
    const connect = {
      ca: credentials.ca,
      // Explicit, because Node's default depends on NODE_TLS_REJECT_UNAUTHORIZED.
      rejectUnauthorized: true,
      // The semantics of Go for a CA file: every certificate in it is trusted, also a CA signed by another CA.
      allowPartialTrustChain: true,
      ...credentials.clientCertificate,
      ...(credentials.serverName !== undefined && { servername: credentials.serverName }),
      allowH2: true,
      preferH2: true,
      // Every new connection verifies the server's current certificate, never one remembered by a resumed session.
      maxCachedSessions: 0,
    };
    const client = new Client(new URL(credentials.server).origin, {
      connect: (options, callback) => {
        const { step } = this.pace;
        let isTaken = false;
        const connector = buildConnector({ ...connect, timeout: this.#connectMs });
        const opened = connector(options, (...[err, socket]: [Error, null] | [null, unknown]) => {
          if (err !== null) {
            if (isTaken && (err as NodeJS.ErrnoException).code === timedOut) this.pace.late(step, false);
            callback(err, null);
          } else {
            this.#connected(connection, socket as TLSSocket);
            callback(null, socket as TLSSocket);
          }
        }) as unknown as TLSSocket;
        opened.once('connect', () => (isTaken = true));
      },
      // Callers set the limits of time and size: a watch has none but silence, a request its own.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: idleMs,
      h2Options: { pingInterval: pingMs },
    });
    const connection: PooledConnection = {
      client,
      watches: 0,
      requests: 0,
      socket: undefined,
      heard: true,
      isMultiplexed: false,
      ended: new AbortController(),
    };
    this.#all.add(connection);
    const events: EventEmitter = client; // 'ping' is not in the types
    events.on('ping', () => (connection.heard = true));
    // A listener keeps Node from treating a failed connection as an unhandled error; each request gets it anyway.
    events.on('error', () => undefined);
    events.on('disconnect', () => (connection.isMultiplexed = false));
    void this.#listen(connection, 3 * pingMs);
    return connection;
  }

  get #connectMs(): number {
    return this.pace.limitMs(this.#options.connectTimeoutMs ?? defaultConnectTimeoutMs, longestConnectMs);
  }

  #connected(connection: PooledConnection, socket: TLSSocket): void {
    connection.heard = true;
    connection.socket = socket;
    connection.isMultiplexed = socket.alpnProtocol === 'h2';
    this.#isMultiplexed = connection.isMultiplexed;
    this.pace.bound(connection.isMultiplexed ? undefined : mostRequests);
    if (connection.isMultiplexed) void this.#expectSettings(connection, socket);
    else if (connection.watches + connection.requests > 1) void this.#end(connection, withoutHttp2);
  }

  /**
   * Waits for the SETTINGS, which a server sends first of all (RFC 9113, 3.4). Where the connection was reset just
   * after the TLS handshake, neither undici nor Node reports it, and every request would wait for ever.
   */
  async #expectSettings(connection: PooledConnection, socket: TLSSocket): Promise<void> {
    const { clock } = this.#options;
    let limitMs = 0;
    // The server may turn out to be slow during the wait.
    while (limitMs < this.#connectMs && !connection.ended.signal.aborted) {
      const moreMs = this.#connectMs - limitMs;
      await clock.sleep(moreMs, connection.ended.signal);
      limitMs += moreMs;
    }
    if (connection.ended.signal.aborted || socket.destroyed || socket.bytesRead > 0) return;
    const message = `the server said nothing for ${limitMs} ms after the connection was opened`;
    await this.#end(connection, new RecoveryError('KubeUnavailable', message));
  }

  async #listen(connection: PooledConnection, limitMs: number): Promise<void> {
    const { signal } = connection.ended;
    while (!signal.aborted) {
      connection.heard = false;
      const { bytes } = heardOn(connection);
      await this.#options.clock.sleep(limitMs, signal);
      if (signal.aborted || connection.heard || !connection.isMultiplexed) continue;
      if (heardOn(connection).bytes > bytes) continue; // much data is in flight, with the answer to a PING behind it
      await this.#end(connection, new RecoveryError('KubeUnavailable', `the connection was silent for ${limitMs} ms`));
    }
  }
}

const timedOut = 'UND_ERR_CONNECT_TIMEOUT';

/** Data received on a connection so far. */
export interface Heard {
  readonly socket: TLSSocket | undefined;
  readonly bytes: number;
}

export const heardOn = ({ socket }: PooledConnection): Heard => ({ socket, bytes: socket?.bytesRead ?? 0 });
