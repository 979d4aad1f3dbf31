// A slow network between a client and an API server: TCP passes as it is, late or little by little. TLS does not end
// here, so client certificates and the protocol that both agree on pass too.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Transform, type TransformCallback } from 'node:stream';

export interface Slowness {
  /** Milliseconds before each piece that the server sends. */
  readonly delayMs?: number;
  /** What the server sends, all connections together. */
  readonly bytesPerSecond?: number;
}

/** What all connections share. */
class Meter {
  readonly #bytesPerSecond: number;
  #freeAt = 0;

  constructor(bytesPerSecond: number) {
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Milliseconds until so many bytes have passed, after all that came before. */
  take(bytes: number): number {
    const now = performance.now();
    this.#freeAt = Math.max(this.#freeAt, now) + (bytes / this.#bytesPerSecond) * 1000;
    return this.#freeAt - now;
  }
}

const smallPiece = 1024;

export class SlowLink implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  accepted = 0;

  constructor(port: number, { delayMs = 0, bytesPerSecond = Number.POSITIVE_INFINITY }: Slowness) {
    const meter = new Meter(bytesPerSecond);
    this.#server = createServer((client) => {
      this.accepted += 1;
      const server = connect({ port, host: '127.0.0.1' });
      for (const socket of [client, server]) {
        this.#sockets.add(socket);
        socket.on('error', () => undefined).once('close', () => this.#sockets.delete(socket));
      }
      client.once('close', () => server.destroy());
      client.pipe(server);
      server.pipe(delayed(delayMs)).pipe(metered(meter)).pipe(client);
    });
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Each piece later by the same time: those that follow each other are not added up. */
function delayed(ms: number): Transform {
  const delays = new Set<NodeJS.Timeout>();
  let end: TransformCallback | undefined;
  const ended = (): void => {
    if (delays.size === 0) end?.();
  };
  return new Transform({
    transform(piece: Buffer, _, done) {
      const timer = setTimeout(() => {
        delays.delete(timer);
        this.push(piece);
        ended();
      }, ms);
      delays.add(timer);
      done();
    },
    flush(done) {
      end = done;
      ended();
    },
    destroy(err, done) {
      for (const timer of delays) clearTimeout(timer);
      done(err);
    },
  });
}

function metered(meter: Meter): Transform {
  return new Transform({
    async transform(piece: Buffer, _, done) {
      for (let at = 0; at < piece.length && !this.destroyed; at += smallPiece) {
        const part = piece.subarray(at, at + smallPiece);
        await new Promise((resolve) => void setTimeout(resolve, meter.take(part.length)));
        if (!this.destroyed) this.push(part);
      }
      done();
    },
  });
}

/** In front of the API server at this port. Use it with `await using`. */
export async function startSlowLink(port: number, slowness: Slowness): Promise<SlowLink> {
  const link = new SlowLink(port, slowness);
  await link.listen();
  return link;
}
