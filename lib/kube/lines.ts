// The connections ("lines") to one API server with one set of credentials: one for requests, others for watches, each
// HTTP/2 with many streams. A kube-apiserver allows 100 streams on a connection; a line takes at most 80 watches, so
// that streams which the server has not yet forgotten never block a new watch.
// A line that stays silent is given up: undici sends PINGs, but waits for their answers without end.
import { subscribe } from 'node:diagnostics_channel';
import type { EventEmitter } from 'node:events';
import type { TLSSocket } from 'node:tls';
import { buildConnector, Client } from 'undici';
import type { Credentials } from '../kubeconfig/credentials.ts';
import type { Clock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';

export interface LineOptions {
  readonly credentials: Credentials;
  readonly clock: Clock;
  /** Milliseconds until a connection must stand, TLS included. Default 5000. */
  readonly connectTimeoutMs?: number | undefined;
  /** Milliseconds between two PINGs; three without an answer end the connection. Default 5000. */
  readonly pingMs?: number | undefined;
}

export interface Line {
  readonly client: Client;
  /** Watches that use it now. */
  watches: number;
  /** Something came back on the connection since the last look. */
  heard: boolean;
  multiplexed: boolean;
  readonly ended: AbortController;
}

// undici takes its listeners off a stream that was cancelled; when the session then ends with an error, Node tells that
// stream too, and an 'error' without a listener ends the process. Every request hears of its failure in any case.
subscribe('http2.client.stream.created', (message) => {
  (message as { readonly stream: EventEmitter }).stream.on('error', () => undefined);
});

const watchesPerLine = 80;
const idleMs = 60_000;
const defaultConnectTimeoutMs = 5000;
/**
 * Of a request's answer, in bytes. etcd takes no object above 1.5 MiB (etcd server/embed/config.go, DefaultMaxRequestBytes),
 * and JSON writes one byte as six at most (`\u003c`): any single object fits. More than one may not, see list.ts.
 */
const longestAnswer = 10 * 1024 * 1024;
/** No request is waited for longer, so that after this time nobody can want a retired line any more. */
const longestRequestMs = 60_000;

export class Lines {
  readonly #options: LineOptions;
  readonly #watchLines = new Set<Line>();
  /** Retired ones too, until what runs on them has finished. */
  readonly #all = new Set<Line>();
  #requestLine: Line | undefined;
  /** Learned from ALPN. A server without HTTP/2 gets a connection for each watch. */
  #perLine = watchesPerLine;

  constructor(options: LineOptions) {
    this.#options = options;
  }

  forRequest(): Line {
    this.#requestLine ??= this.#open(longestAnswer);
    return this.#requestLine;
  }

  /** A line with room for one more watch, which is counted until `leave`. */
  forWatch(): Line {
    let line = [...this.#watchLines].find(({ watches }) => watches < this.#perLine);
    if (line === undefined) {
      line = this.#open();
      this.#watchLines.add(line);
    }
    line.watches += 1;
    return line;
  }

  leave(line: Line): void {
    line.watches -= 1;
    if (line.watches > 0) return;
    // The last watch line is kept for the next watch; it ends by itself when idle.
    const kept = this.#watchLines.has(line) && this.#watchLines.size === 1;
    if (!kept) this.retire(line);
  }

  /** No new work on this line, which may be dead: what runs on it may finish, within its own time limits. */
  retire(line: Line): void {
    this.#forget(line);
    if (line.watches > 0) return; // the last of its watches retires it again
    line.ended.abort();
    if (line.client.destroyed || line.client.closed) return;
    const over = new AbortController();
    const forget = (): void => {
      this.#all.delete(line);
      over.abort();
    };
    void line.client.close().then(forget, forget);
    void this.#giveUp(line, over.signal);
  }

  /** Ends all watches for `reason`; requests under way are finished, because their outcome matters to who asked. */
  supersede(reason: RecoveryError): void {
    for (const line of this.#watchLines) void this.#end(line, reason);
    if (this.#requestLine !== undefined) this.retire(this.#requestLine);
  }

  async destroy(reason: RecoveryError): Promise<void> {
    await Promise.all([...this.#all].map((line) => this.#end(line, reason)));
  }

  /** A write that got no answer stays on its connection (see connection.ts), which may be dead. */
  async #giveUp(line: Line, over: AbortSignal): Promise<void> {
    await this.#options.clock.sleep(longestRequestMs, over);
    if (!over.aborted) await this.#end(line, new RecoveryError('KubeUnavailable', 'the connection was given up'));
  }

  #forget(line: Line): void {
    this.#watchLines.delete(line);
    if (this.#requestLine === line) this.#requestLine = undefined;
  }

  #end(line: Line, reason: RecoveryError): Promise<void> {
    this.#forget(line);
    this.#all.delete(line);
    line.ended.abort();
    return line.client.destroyed ? Promise.resolve() : line.client.destroy(reason);
  }

  /** `maxResponseSize`: a watch has none, it is one answer for minutes. */
  #open(maxResponseSize = -1): Line {
    const { credentials, connectTimeoutMs = defaultConnectTimeoutMs, pingMs = 5000 } = this.#options;
    const connector = buildConnector({
      ca: credentials.ca,
      // Said here, because Node's default is what NODE_TLS_REJECT_UNAUTHORIZED says.
      rejectUnauthorized: true,
      // As Go takes a CA file: every certificate in it is trusted, also a CA that another one has signed.
      allowPartialTrustChain: true,
      ...credentials.clientCertificate,
      ...(credentials.serverName !== undefined && { servername: credentials.serverName }),
      allowH2: true,
      preferH2: true,
      timeout: connectTimeoutMs,
      // Every new connection verifies the server's certificate of now, never one remembered by a resumed session.
      maxCachedSessions: 0,
    });
    const client = new Client(new URL(credentials.server).origin, {
      connect: (options, callback) => {
        connector(options, (...[err, socket]: [Error, null] | [null, unknown]) => {
          if (err !== null) callback(err, null);
          else {
            this.#connected(line, socket as TLSSocket);
            callback(null, socket as TLSSocket);
          }
        });
      },
      // Time limits are the callers': a watch has none but silence, a request its own.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxResponseSize,
      keepAliveTimeout: idleMs,
      h2Options: { pingInterval: pingMs },
    });
    const line: Line = { client, watches: 0, heard: true, multiplexed: false, ended: new AbortController() };
    this.#all.add(line);
    const events: EventEmitter = client; // 'ping' is not in the types
    events.on('ping', () => (line.heard = true));
    // A listener keeps Node from treating a failed connection as an unhandled error; each request gets it anyway.
    events.on('error', () => undefined);
    events.on('disconnect', () => (line.multiplexed = false));
    void this.#listen(line, 3 * pingMs);
    return line;
  }

  #connected(line: Line, socket: TLSSocket): void {
    line.heard = true;
    line.multiplexed = socket.alpnProtocol === 'h2';
    if (line.multiplexed) void this.#expectSettings(line, socket);
    if (line.multiplexed || line === this.#requestLine) return;
    this.#perLine = 1;
    if (line.watches > 1) {
      void this.#end(
        line,
        new RecoveryError('KubeUnavailable', 'the server has no HTTP/2: one connection for each watch'),
      );
    }
  }

  /**
   * A server sends its SETTINGS first of all (RFC 9113, 3.4). Where the connection was reset just after TLS stood, neither
   * undici nor Node says so, and every request would wait for what never comes.
   */
  async #expectSettings(line: Line, socket: TLSSocket): Promise<void> {
    const { clock, connectTimeoutMs = defaultConnectTimeoutMs } = this.#options;
    await clock.sleep(connectTimeoutMs, line.ended.signal);
    if (line.ended.signal.aborted || socket.destroyed || socket.bytesRead > 0) return;
    const message = `the server said nothing for ${connectTimeoutMs} ms after the connection was opened`;
    await this.#end(line, new RecoveryError('KubeUnavailable', message));
  }

  async #listen(line: Line, limitMs: number): Promise<void> {
    const { signal } = line.ended;
    while (!signal.aborted) {
      line.heard = false;
      await this.#options.clock.sleep(limitMs, signal);
      if (signal.aborted || line.heard || !line.multiplexed) continue;
      await this.#end(line, new RecoveryError('KubeUnavailable', `the connection was silent for ${limitMs} ms`));
    }
  }
}
