// The HTTP/2 layer of the fault proxy: ends TLS, hands each stream to the real API server over a verified connection,
// and answers, cuts, delays or loses streams as the fault of the moment says.
import {
  connect,
  constants,
  createSecureServer,
  type ClientHttp2Session,
  type Http2SecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';
import { PassThrough, pipeline } from 'node:stream';
import type { TLSSocket } from 'node:tls';

export interface Asked {
  readonly method: string;
  readonly path: string;
}

/** Which requests a fault is for, and for how many of them. Default: all of them, until the fault is cleared. */
interface Selection {
  readonly match?: (asked: Asked) => boolean;
  readonly times?: number;
}

export type ForwardFault =
  /** GOAWAY on all open connections, once. Code 0: "finish what you have"; another: the connection is broken. */
  | { readonly kind: 'goAway'; readonly code?: number }
  /**
   * Answers with this status and a Status body; the real server is not asked, unless it is `carriedOut`: then its own
   * answer is thrown away (as a write that etcd commits after the API server has given up waiting for it).
   * `endWatches` ends the open watches as well, so that they meet it too.
   */
  | ({
      readonly kind: 'status';
      readonly status: number;
      readonly retryAfter?: number;
      readonly endWatches?: boolean;
      readonly carriedOut?: boolean;
    } & Selection)
  /** 410 as an ERROR event inside a watch that began with 200, then a normal end. */
  | ({ readonly kind: 'expiredEvent' } & Selection)
  /** Sends the first half of a watch's next event, then ends the stream, or the whole connection (default). */
  | ({ readonly kind: 'unexpectedEof'; readonly of?: 'stream' | 'connection' } & Selection)
  /** Ends watches in an orderly way: no error, no event lost, nothing left in the middle. */
  | ({ readonly kind: 'endWatch' } & Selection)
  /** The real server carries the request out; the connection is reset before its answer passes. */
  | ({ readonly kind: 'loseAnswer' } & Selection)
  /** The real server carries the request out; its answer ends in the middle, as the stream does, or the connection. */
  | ({ readonly kind: 'cutAnswer'; readonly of?: 'stream' | 'connection' } & Selection)
  /** The network delivers late: handed on when the fault is cleared, even if the client has given up long before. */
  | ({ readonly kind: 'late' } & Selection)
  /** A line that is no JSON before each event of a watch. */
  | ({ readonly kind: 'garbage' } & Selection)
  /** Milliseconds before every answer and every piece of it. */
  | ({ readonly kind: 'slow'; readonly delayMs: number } & Selection);

export interface Seen extends Asked {
  status?: number;
}

export interface ForwarderOptions {
  readonly origin: string;
  readonly serverName: string;
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

const reasons: Readonly<Record<number, string>> = {
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  410: 'Expired',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
};

const statusBody = (code: number): string =>
  JSON.stringify({
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    message: 'made up by the fault proxy',
    reason: reasons[code] ?? 'Unknown',
    code,
  });

const isWatch = ({ path }: Asked): boolean => /[?&]watch=(true|1)(&|$)/.test(path);
const delay = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/** A watch from the request on: one that the real server has not answered yet ends as soon as it has begun. */
class OpenWatch {
  readonly asked: Asked;
  readonly #stream: ServerHttp2Stream;
  #begun = false;
  #last: string | undefined;

  constructor(asked: Asked, stream: ServerHttp2Stream) {
    this.asked = asked;
    this.#stream = stream;
  }

  /** In an orderly way, after this. */
  end(last = ''): void {
    this.#last ??= last;
    if (this.#begun && !this.#stream.writableEnded) this.#stream.end(this.#last);
  }

  began(): void {
    this.#begun = true;
    if (this.#last !== undefined) this.end(this.#last);
  }
}

export class Forwarder {
  readonly seen: Seen[] = [];
  readonly #options: ForwarderOptions;
  readonly #server: Http2SecureServer;
  readonly #sessions = new Map<ServerHttp2Session, ClientHttp2Session>();
  readonly #watches = new Set<OpenWatch>();
  /** Those in the middle of a TLS handshake belong to no session yet. */
  readonly #raw = new Set<Socket>();
  readonly #sockets = new WeakMap<object, TLSSocket>();
  #newest: TLSSocket | undefined;
  #fault: ForwardFault | undefined;
  #used = 0;
  /** Hands on what was held by the fault `late`. */
  #release: (() => void)[] = [];
  #onAnswer: ((asked: Seen) => Promise<void> | void) | undefined;

  constructor(options: ForwarderOptions) {
    this.#options = options;
    const settings = { maxConcurrentStreams: 100 };
    this.#server = createSecureServer({ cert: options.cert, key: options.key, settings });
    this.#server.on('connection', (socket: Socket) => {
      this.#raw.add(socket);
      socket.once('close', () => this.#raw.delete(socket));
    });
    this.#server.on('session', (session) => this.#open(session));
    this.#server.on('sessionError', () => undefined);
    this.#server.prependListener('secureConnection', (socket) => {
      socket.on('error', () => undefined);
      this.#newest = socket; // the session that is made of it is announced next, synchronously
    });
    this.#server.on('tlsClientError', () => undefined);
    this.#server.on('stream', (stream, headers) => {
      stream.on('error', () => undefined);
      void this.#serve(stream, headers).catch(() => stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    });
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  listen(): Promise<void> {
    return new Promise((resolve) => void this.#server.listen(0, '127.0.0.1', resolve));
  }

  async close(): Promise<void> {
    for (const [session, upstream] of this.#sessions) {
      session.destroy();
      upstream.destroy();
    }
    for (const socket of this.#raw) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  inject(fault: ForwardFault | undefined): void {
    for (const release of this.#release.splice(0)) release();
    this.#fault = fault;
    this.#used = 0;
    if (fault?.kind === 'goAway') {
      for (const session of this.#sessions.keys()) session.goaway(fault.code ?? 0);
      this.#fault = undefined;
    }
    if (fault?.kind === 'status' && fault.endWatches === true) for (const watch of this.#watches) watch.end();
    if (fault?.kind !== 'endWatch' && fault?.kind !== 'expiredEvent') return;
    for (const watch of this.#watches) {
      if (this.#take(fault.kind, watch.asked) === undefined) continue;
      watch.end(fault.kind === 'expiredEvent' ? `{"type":"ERROR","object":${statusBody(410)}}\n` : '');
    }
  }

  /** Calls `act` for each request that the real server has answered, before that answer passes. */
  onAnswer(act: ((asked: Seen) => Promise<void> | void) | undefined): void {
    this.#onAnswer = act;
  }

  #open(session: ServerHttp2Session): void {
    const { origin, ca, serverName } = this.#options;
    const upstream = connect(origin, { ca, servername: serverName });
    this.#sessions.set(session, upstream);
    if (this.#newest !== undefined) this.#sockets.set(session, this.#newest);
    session.on('error', () => undefined);
    upstream.on('error', () => session.destroy());
    session.once('close', () => {
      this.#sessions.delete(session);
      upstream.destroy();
    });
    upstream.once('close', () => session.destroy());
  }

  /** The fault, if it is of this kind and for this request; counts its use. */
  #take<K extends ForwardFault['kind']>(kind: K, asked: Asked): Extract<ForwardFault, { kind: K }> | undefined {
    const fault: (ForwardFault & Selection) | undefined = this.#fault;
    if (fault?.kind !== kind || this.#used >= (fault.times ?? Number.POSITIVE_INFINITY)) return undefined;
    if (fault.match !== undefined && !fault.match(asked)) return undefined;
    this.#used += 1;
    return fault as Extract<ForwardFault, { kind: K }>;
  }

  async #serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): Promise<void> {
    const asked: Seen = { method: headers[':method'] ?? 'GET', path: headers[':path'] ?? '/' };
    this.seen.push(asked);
    const session = stream.session as ServerHttp2Session | undefined;
    const upstream = session && this.#sessions.get(session);
    if (session === undefined || upstream === undefined) return stream.close();
    const made = this.#take('status', asked);
    if (made !== undefined && made.carriedOut !== true) return answerMadeUp(stream, asked, made);
    const { ':authority': _, host: __, ...passed } = headers;
    const own = { ...passed, ':authority': new URL(this.#options.origin).host };
    if (this.#take('late', asked) !== undefined) return this.#deliverLate(stream, own, asked);
    const watch = isWatch(asked) ? new OpenWatch(asked, stream) : undefined;
    if (watch !== undefined) this.#watches.add(watch);
    stream.once('close', () => watch && this.#watches.delete(watch));
    const onward = upstream.request(own);
    onward.on('error', () => stream.writableEnded || stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    stream.once('close', () => onward.close(constants.NGHTTP2_CANCEL));
    stream.pipe(onward);
    // Read at once: an answer that waits in a stream which has ended is lost to who comes late.
    const pieces = pipeline(onward, new PassThrough(), () => undefined);
    const answer = await new Promise<IncomingHttpHeaders>((resolve) => void onward.once('response', resolve));
    asked.status = Number(answer[':status']);
    await this.#onAnswer?.(asked);
    if (made !== undefined) return answerMadeUp(stream, asked, made);
    if (this.#take('loseAnswer', asked) !== undefined) {
      session.destroy();
      return;
    }
    await this.#slow(asked);
    if (stream.destroyed) return;
    stream.respond(answer);
    if (asked.status === 200) watch?.began();
    await this.#answer(asked, stream, pieces);
  }

  /** By a connection of its own: the client's may be gone by then. Nothing waits for the answer any more. */
  async #deliverLate(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, asked: Seen): Promise<void> {
    const { origin, ca, serverName } = this.#options;
    const body: Buffer[] = [];
    stream.on('data', (piece: Buffer) => body.push(piece));
    await new Promise<void>((resolve) => void this.#release.push(resolve));
    const upstream = connect(origin, { ca, servername: serverName });
    const onward = upstream.request(headers);
    onward.end(Buffer.concat(body));
    const answer = await new Promise<IncomingHttpHeaders>((resolve) => void onward.once('response', resolve));
    asked.status = Number(answer[':status']);
    onward.resume().once('close', () => upstream.close());
  }

  async #answer(asked: Asked, stream: ServerHttp2Stream, pieces: AsyncIterable<Buffer>): Promise<void> {
    const watch = isWatch(asked);
    for await (const piece of pieces) {
      await this.#slow(asked);
      if (stream.destroyed || stream.writableEnded) return;
      const cut = watch ? this.#take('unexpectedEof', asked) : this.#take('cutAnswer', asked);
      if (cut !== undefined) {
        const half = piece.subarray(0, piece.length >> 1);
        const socket = stream.session && this.#sockets.get(stream.session);
        if (cut.of === 'stream') stream.end(half);
        else stream.write(half, () => socket?.destroy()); // no GOAWAY, no end of the TLS stream: just FIN
        return;
      }
      if (watch && this.#take('garbage', asked) !== undefined) stream.write('<html>not JSON</html>\n');
      stream.write(piece);
    }
    if (!stream.destroyed && !stream.writableEnded) stream.end();
  }

  async #slow(asked: Asked): Promise<void> {
    const slow = this.#take('slow', asked);
    if (slow !== undefined) await delay(slow.delayMs);
  }
}

function answerMadeUp(
  stream: ServerHttp2Stream,
  asked: Seen,
  { status, retryAfter }: { readonly status: number; readonly retryAfter?: number },
): void {
  asked.status = status;
  if (stream.destroyed) return;
  const retry = retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) };
  stream.respond({ ':status': status, 'content-type': 'application/json', ...retry });
  stream.end(statusBody(status));
}
