// A proxy between a client and a real kube-apiserver that makes the network and the server misbehave on request.
// Two layers. This file: TCP, with an address of its own in 127/8, so that it can refuse, reset, close, stall, and be
// without a route (the kernel's own EHOSTUNREACH, by an unreachable route for that one address; needs root and `ip`).
// fault-forwarder.ts: HTTP/2, with a certificate of its own for the same names, for everything above TCP.
// TLS ends here, so clients authenticate by token: a client certificate does not pass through.
import { execFile, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createAuthority, createLeaf } from '../certificates/certificates.ts';
import { type Asked, Forwarder, type ForwardFault, type Seen } from './fault-forwarder.ts';

const run = promisify(execFile);

export type Fault =
  /** Nothing listens; open connections are reset. */
  | { readonly kind: 'refused' }
  /** EHOSTUNREACH; open connections hang, as they do when a cable is pulled. */
  | { readonly kind: 'noRoute' }
  /** RST on every open connection and on each new one. */
  | { readonly kind: 'reset' }
  /** FIN on every open connection and on each new one, wherever the stream stands. */
  | { readonly kind: 'eof' }
  /** Connections are accepted and stay open; no byte passes, in either direction. */
  | { readonly kind: 'stall' }
  | ForwardFault;

export interface FaultProxyOptions {
  readonly target: {
    readonly port: number;
    readonly host?: string;
    /** File of the CA that the real server is verified against. */
    readonly caFile: string;
    readonly serverName: string;
  };
  /** Dates of the proxy's own certificate. Default: valid now. */
  readonly validity?: { readonly notBefore: Date; readonly notAfter: Date };
}

interface Link {
  readonly client: Socket;
  readonly inner: Socket;
}

const unreachable = new Set<string>();
process.on('exit', () => {
  for (const address of unreachable) spawnSync('ip', routeArguments('del', address));
});

const routeArguments = (verb: 'add' | 'del', address: string): string[] => [
  'route',
  verb,
  'unreachable',
  `${address}/32`,
  'table',
  'local',
];

export class FaultProxy implements AsyncDisposable {
  /** File of the CA that signed the proxy's certificate. */
  readonly ca: string;
  readonly #directory: string;
  readonly #address: string;
  readonly #forwarder: Forwarder;
  readonly #server: Server;
  readonly #links = new Set<Link>();
  #port = 0;
  #fault: Fault | undefined;
  #accepted = 0;

  constructor(directory: string, ca: string, address: string, forwarder: Forwarder) {
    this.#directory = directory;
    this.ca = ca;
    this.#address = address;
    this.#forwarder = forwarder;
    // Half-open is ours to decide: a FIN passes on as a FIN.
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
  }

  get url(): string {
    return `https://${this.#address}:${this.#port}`;
  }

  /** Connections open now, and accepted so far. */
  get connections(): { readonly open: number; readonly accepted: number } {
    return { open: this.#links.size, accepted: this.#accepted };
  }

  /** Every request that reached the proxy, in order, with the status that the real server (or a fault) gave. */
  get seen(): readonly Seen[] {
    return this.#forwarder.seen;
  }

  /** Starts a fault in the place of the present one. It acts on what is open and on what comes, until clear(). */
  async inject(fault: Fault): Promise<void> {
    await this.clear();
    this.#fault = fault;
    switch (fault.kind) {
      case 'refused':
        await this.#stopListening();
        this.#each(({ client }) => client.resetAndDestroy());
        break;
      case 'noRoute':
        await run('ip', routeArguments('add', this.#address));
        unreachable.add(this.#address);
        break;
      case 'reset':
        this.#each(({ client }) => client.resetAndDestroy());
        break;
      case 'eof':
        this.#each(({ client }) => client.end());
        break;
      case 'stall':
        this.#each(stop);
        break;
      case 'goAway':
      case 'status':
      case 'expiredEvent':
      case 'unexpectedEof':
      case 'endWatch':
      case 'loseAnswer':
      case 'cutAnswer':
      case 'late':
      case 'garbage':
      case 'slow':
        this.#forwarder.inject(fault);
    }
  }

  /**
   * Calls `act` once, when the real server has answered the `nth` request that matches and before the answer passes:
   * a fault that is injected then swallows the answer of what was carried out.
   */
  atAnswer(match: (asked: Asked) => boolean, act: (asked: Asked) => Promise<void>, nth = 1): void {
    let count = 0;
    this.#forwarder.onAnswer(async (asked) => {
      if (!match(asked)) return;
      count += 1;
      if (count === nth) await act(asked);
    });
  }

  /** Back to a plain connection. What was stalled goes on. */
  async clear(): Promise<void> {
    const fault = this.#fault;
    this.#fault = undefined;
    this.#forwarder.inject(undefined);
    if (fault?.kind === 'refused') await this.listen();
    if (fault?.kind === 'noRoute') await this.#restoreRoute();
    if (fault?.kind === 'stall') this.#each(go);
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.#port, this.#address, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    const address = this.#server.address();
    if (typeof address === 'object' && address !== null) this.#port = address.port;
  }

  async close(): Promise<void> {
    await this.#restoreRoute();
    this.#each(({ client, inner }) => {
      client.destroy();
      inner.destroy();
    });
    await this.#stopListening();
    await this.#forwarder.close();
    await rm(this.#directory, { recursive: true, force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #each(act: (link: Link) => void): void {
    for (const link of this.#links) act(link);
  }

  #accept(client: Socket): void {
    this.#accepted += 1;
    client.on('error', () => undefined);
    if (this.#fault?.kind === 'reset') {
      client.resetAndDestroy();
      return;
    }
    if (this.#fault?.kind === 'eof') {
      client.end();
      return;
    }
    const inner = connect({ port: this.#forwarder.port, host: '127.0.0.1', allowHalfOpen: true });
    const link = { client, inner };
    this.#links.add(link);
    inner.on('error', () => client.resetAndDestroy());
    inner.once('close', () => client.destroySoon());
    client.once('close', () => {
      inner.destroy();
      this.#links.delete(link);
    });
    if (this.#fault?.kind !== 'stall') go(link);
  }

  #stopListening(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#server.listening) this.#server.close();
      resolve();
    });
  }

  async #restoreRoute(): Promise<void> {
    if (!unreachable.delete(this.#address)) return;
    await run('ip', routeArguments('del', this.#address));
  }
}

function go({ client, inner }: Link): void {
  client.pipe(inner);
  inner.pipe(client);
}

function stop({ client, inner }: Link): void {
  client.unpipe(inner).pause();
  inner.unpipe(client).pause();
}

/** Starts a proxy in front of a kube-apiserver. Use it with `await using`, or close it yourself. */
export async function startFaultProxy({ target, validity }: FaultProxyOptions): Promise<FaultProxy> {
  const address = `127.${randomInt(2, 255)}.${randomInt(256)}.${randomInt(2, 255)}`;
  const directory = await mkdtemp(join(tmpdir(), 'fault-proxy-'));
  const authority = await createAuthority(join(directory, 'ca'), { commonName: 'fault-proxy' });
  const leaf = await createLeaf(join(directory, 'serving'), authority, {
    commonName: target.serverName,
    dnsNames: [...new Set([target.serverName, 'localhost-recovery', 'localhost', 'kubernetes'])],
    ipAddresses: [address, '127.0.0.1'],
    usages: ['serverAuth'],
    ...validity,
  });
  const forwarder = new Forwarder({
    origin: `https://${target.host ?? '127.0.0.1'}:${target.port}`,
    serverName: target.serverName,
    ca: await readFile(target.caFile),
    cert: await readFile(leaf.cert),
    key: await readFile(leaf.key),
  });
  await forwarder.listen();
  const proxy = new FaultProxy(directory, authority.cert, address, forwarder);
  await proxy.listen();
  return proxy;
}
