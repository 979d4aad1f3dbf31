// The connection to one API server: requests, watches, and credentials that are read again when files change or the
// server refuses them. No request that the server may have carried out is sent again here: only requests answered by
// 401, and streams that it refused unprocessed (GOAWAY, REFUSED_STREAM; undici does that, once).
// A kubeconfig that cannot be used yet (half-written, or its CA file missing, because the syncer of this very process
// publishes it) is like an API server that is away, where the caller waits for it: each request and each watch reads
// the files again, and fails as KubeUnavailable until they can be used.
import {
  type Credentials,
  type KubeconfigOptions,
  readKubeconfig,
  sameCredentials,
} from '../kubeconfig/credentials.ts';
import { errorText, isCode, RecoveryError } from '../errors.ts';
import { type Log, Repeats } from '../log.ts';
import { describeRequest, inPlace } from './answer.ts';
import { type Attempt, isAway, unavailable } from './api-error.ts';
import { Breakers, type ServerBreaker } from './circuit-breaker.ts';
import { send, watchEvents } from './exchange.ts';
import type { KubeConnection, KubeRequest, WatchEvent, WatchOptions } from './kube.ts';
import { ConnectionPool, type PoolOptions } from './pool.ts';
import { requireShortPath, requireVersion } from './sendable.ts';
import { Trust } from './trust.ts';

export interface ConnectionOptions extends KubeconfigOptions, Omit<PoolOptions, 'credentials'> {
  readonly kubeconfigFile: string;
  /** Credentials in place of a kubeconfig, where they are never written into a file. */
  readonly credentials?: Credentials | undefined;
  /** Whether to wait for a kubeconfig that cannot be used yet. Default: it is ConfigInvalid. */
  readonly waitsForKubeconfig?: boolean | undefined;
  readonly userAgent: string;
  readonly log?: Log;
  /** Breakers of the process, where several connections lead to one server. Default: this connection's own. */
  readonly breakers?: Breakers | undefined;
}

/** Shortest time between two reads of the files after refusals. */
const rereadMs = 1000;
/**
 * Interval of reads while credentials cannot be used yet: the files are read once for many watches that need them
 * together.
 */
const readAgainMs = 50;
const logAgainMs = 10_000;

type Asked = Omit<Attempt, 'server'>;

/** Objects that belong to one set of credentials. */
interface Session {
  readonly credentials: Credentials;
  readonly pool: ConnectionPool;
  readonly breaker: ServerBreaker;
}

/** Why there is no session yet. */
interface Unusable {
  readonly err: unknown;
  readonly attempts: number;
}

class Connection implements KubeConnection {
  readonly #options: ConnectionOptions;
  readonly #trust = new Trust();
  readonly #breakers: Breakers;
  #session: Session | undefined;
  #unusable: Unusable | undefined;
  readonly #repeats: Repeats;
  #readAt = 0;
  #reloading: Promise<'unchanged' | 'changed'> | undefined;
  #isClosed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#repeats = new Repeats(options.clock, logAgainMs);
    this.#breakers = options.breakers ?? new Breakers(options.clock);
  }

  /** Until the server is known, names the kubeconfig. */
  get server(): string {
    return this.#session?.credentials.server ?? `unknown, by kubeconfig "${this.#options.kubeconfigFile}"`;
  }

  get files(): readonly string[] {
    return this.#session?.credentials.files ?? [this.#options.kubeconfigFile];
  }

  async request<T>(request: KubeRequest): Promise<T> {
    const asked = describeRequest(request.method, request.path);
    requireVersion(request, asked);
    requireShortPath(request.path, asked);
    const used = await this.#open(asked);
    try {
      return await this.#send<T>(request, asked);
    } catch (err) {
      if (request.signal.aborted || !isCode(err, 'KubeUnauthorized', 'KubeUnavailable', 'KubeWrongAnswer')) throw err;
      await this.#rereadIfDue();
      // A 401 was not carried out, so it may be sent again; whether any other request was carried out is not known.
      if (isCode(err, 'KubeUnauthorized') && this.#session !== used) return this.#send<T>(request, asked);
      throw err;
    }
  }

  async *watch(path: string, options: WatchOptions): AsyncGenerator<WatchEvent, void, undefined> {
    const asked = { ...describeRequest('GET', path), verb: 'watch' };
    requireShortPath(path, asked);
    const session = this.#opened() ?? (await this.#open(asked));
    const attempt = this.#attempt(asked);
    const failed = session.breaker.watch(attempt);
    try {
      for await (const event of watchEvents(
        this.#exchange(session, attempt, path, accepted(options.objects)),
        options,
      )) {
        session.breaker.answered();
        this.#trust.worked();
        yield event;
      }
    } catch (err) {
      failed(err);
      this.#distrust(err, session);
      throw err;
    }
  }

  reload(): Promise<'unchanged' | 'changed'> {
    this.#reloading ??= this.#reload().finally(() => (this.#reloading = undefined));
    return this.#reloading;
  }

  /** Without credentials there is none to wait for: no request was sent. */
  async turn(signal: AbortSignal): Promise<() => void> {
    return (await this.#session?.breaker.turn(signal)) ?? (() => undefined);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#session?.pool.close(new RecoveryError('KubeUnavailable', 'the connection is closed'));
  }

  /** Synchronous: a caller that uses the session in the same tick meets no change and no close in between. */
  #opened(): Session | undefined {
    return this.#isClosed ? undefined : this.#session;
  }

  /** Throws KubeUnavailable while there are no credentials, and after close. */
  async #open(asked: Asked): Promise<Session> {
    if (this.#session === undefined && !this.#isClosed) {
      try {
        if (this.#reloading === undefined && this.#isRecent(readAgainMs)) throw this.#unusable?.err;
        await this.reload();
      } catch (err) {
        throw unavailable(this.#attempt(asked), oneLine(err), err);
      }
    }
    const session = this.#opened();
    if (session === undefined) throw unavailable(this.#attempt(asked), 'the connection is closed');
    return session;
  }

  async #send<T>(request: KubeRequest, asked: Asked): Promise<T> {
    const { breaker } = await this.#open(asked);
    const attempt = this.#attempt(asked);
    return breaker.through(attempt, request.signal, async () => {
      const session = this.#opened() ?? (await this.#open(asked)); // closed or changed since, perhaps
      const exchange = this.#exchange(session, attempt, request.path, accepted(request.objects));
      try {
        const answer = await send<T>(exchange, request);
        if (session === this.#session) this.#trust.worked();
        return answer;
      } catch (err) {
        this.#distrust(err, session);
        throw err;
      }
    });
  }

  async #reload(): Promise<'unchanged' | 'changed'> {
    const { kubeconfigFile, credentials, log, clock } = this.#options;
    this.#readAt = clock.now().getTime();
    let read: Credentials;
    try {
      read = credentials ?? (await readKubeconfig(kubeconfigFile, this.#options));
    } catch (err) {
      if (this.#session === undefined && this.#options.waitsForKubeconfig === true) this.#wait(err);
      throw err;
    }
    if (this.#isClosed) return 'unchanged';
    const next = { ...read, ca: this.#trust.use(read.ca) };
    if (this.#session !== undefined && sameCredentials(next, this.#session.credentials)) return 'unchanged';
    const isFirst = this.#session === undefined && this.#unusable === undefined;
    this.#change(next);
    const attempt = this.#unusable && { attempt: this.#unusable.attempts + 1 };
    this.#unusable = undefined;
    this.#repeats.ended('kubeconfig');
    if (!isFirst) log?.info('connection.changed', { path: kubeconfigFile, server: this.server, ...attempt });
    return 'changed';
  }

  #wait(err: unknown): void {
    const { log, kubeconfigFile } = this.#options;
    const attempt = (this.#unusable?.attempts ?? 0) + 1;
    this.#unusable = { err, attempts: attempt };
    if (this.#repeats.met('kubeconfig') === undefined) return;
    const code = err instanceof RecoveryError ? err.code : undefined;
    log?.warn('api.waiting', { path: kubeconfigFile, err: oneLine(err), attempt, code });
  }

  #change(credentials: Credentials): void {
    const { clock, connectTimeoutMs, pingMs } = this.#options;
    const pool = new ConnectionPool({ credentials, clock, connectTimeoutMs, pingMs });
    const former = this.#session;
    this.#session = { credentials, pool, breaker: this.#breakers.of(credentials) };
    former?.pool.drainAll(new RecoveryError('KubeUnavailable', 'the credentials on disk changed'));
  }

  /** `session`: the session that failed; a failure with other credentials does not count for the present ones. */
  #distrust(err: unknown, session: Session): void {
    if (session !== this.#session || this.#isClosed || !isAway(err) || err.details['untrusted'] !== true) return;
    const former = this.#trust.failed();
    if (former === undefined) return;
    this.#change({ ...session.credentials, ca: former });
    const { kubeconfigFile, log } = this.#options;
    const message =
      'the CA in the kubeconfig does not know the server; the one by which it was known before stays in use';
    log?.warn('connection.kept', { path: kubeconfigFile, server: this.server, message, err: err.message });
  }

  /**
   * Reads again at most once a second. A file that cannot be used now changes nothing: the refusal itself is reported.
   */
  async #rereadIfDue(): Promise<void> {
    if (this.#isRecent(rereadMs) && this.#reloading === undefined) return;
    await this.reload().catch(() => undefined);
  }

  /** Whether the files were read within this time; not when the clock was set back since. */
  #isRecent(ms: number): boolean {
    const since = this.#options.clock.now().getTime() - this.#readAt;
    return since >= 0 && since < ms;
  }

  #attempt(asked: Asked): Attempt {
    const name = this.#session?.credentials.serverName;
    return { ...asked, server: name === undefined ? this.server : `${this.server} (${name})` };
  }

  #exchange({ credentials: { server, token }, pool }: Session, attempt: Attempt, path: string, accept: string) {
    const { userAgent, clock } = this.#options;
    const headers = {
      accept,
      'user-agent': userAgent,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
    return { pool, attempt, path: `${new URL(server).pathname.replace(/\/$/, '')}${path}`, headers, clock };
  }
}

const json = 'application/json';

/** Accept header of a request; a server that does not know the form sends whole objects. */
const accepted = (objects: KubeRequest['objects']): string =>
  objects === undefined ? json : `${json};as=${inPlace[objects]};g=meta.k8s.io;v=v1,${json}`;

/** Problems of a kubeconfig come as a list. */
const oneLine = (err: unknown): string => errorText(err).replaceAll(/\n\s*/g, '; ');

/** Connects lazily: at the first request or watch. Throws ConfigInvalid for an unusable kubeconfig. */
export async function openConnection(options: ConnectionOptions): Promise<KubeConnection> {
  const connection = new Connection(options);
  try {
    await connection.reload();
  } catch (err) {
    if (options.waitsForKubeconfig !== true || !isCode(err, 'ConfigInvalid')) throw err;
  }
  return connection;
}
