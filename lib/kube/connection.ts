// The connection to one API server: requests with a time limit, watches, and credentials that are read again when
// files change or the server refuses them. Nothing that the server may have carried out is sent again by itself: only
// what it answered by 401, and streams that it refused unprocessed (GOAWAY, REFUSED_STREAM; undici does that, once).
import type { Client } from 'undici';
import { type Credentials, readKubeconfig, sameCredentials } from '../kubeconfig/credentials.ts';
import type { Clock } from '../clock.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { Log } from '../log.ts';
import { away, describeRequest, isAway, networkError, statusError, unavailable } from './api-error.ts';
import type { Attempt } from './api-error.ts';
import { parseAnswer } from './answer.ts';
import { Gates, type IdentityGate } from './gates.ts';
import type { KubeConnection, KubeRequest, WatchEvent } from './kube.ts';
import type { KubeconfigOptions } from '../kubeconfig/credentials.ts';
import { Lines } from './lines.ts';
import type { LineOptions } from './lines.ts';
import { TimeLimit } from './time-limit.ts';
import { Trust } from './trust.ts';
import { watchEvents } from './watch.ts';

export type ConnectionOptions = KubeconfigOptions &
  Omit<LineOptions, 'credentials'> & {
    readonly userAgent: string;
    readonly log?: Log;
    /** Of the process, where several connections lead to one server. Default: this one asks alone. */
    readonly gates?: Gates | undefined;
  } & (
    | { readonly kubeconfigFile: string; readonly credentials?: undefined }
    | { readonly credentials: Credentials; readonly kubeconfigFile?: undefined }
  );

const requestTimeoutMs = 10_000;
const rereadMs = 1000;

class Connection implements KubeConnection {
  readonly #options: ConnectionOptions;
  readonly #clock: Clock;
  #credentials: Credentials;
  readonly #trust: Trust;
  #lines: Lines;
  readonly #gates: Gates;
  #gate: IdentityGate;
  #rereadAt: number;
  #reloading: Promise<'unchanged' | 'changed'> | undefined;
  #closed = false;

  constructor(options: ConnectionOptions, credentials: Credentials) {
    this.#options = options;
    this.#clock = options.clock;
    this.#credentials = credentials;
    this.#trust = new Trust(credentials.ca);
    this.#lines = this.#newLines();
    this.#gates = options.gates ?? new Gates(options.clock);
    this.#gate = this.#gates.of(credentials);
    this.#rereadAt = this.#clock.now().getTime();
  }

  get server(): string {
    return this.#credentials.server;
  }

  get serverName(): string | undefined {
    return this.#credentials.serverName;
  }

  get files(): readonly string[] {
    return this.#credentials.files ?? [];
  }

  async request<T>(request: KubeRequest): Promise<T> {
    const used = this.#lines;
    try {
      return await this.#send<T>(request);
    } catch (err) {
      if (request.signal.aborted || !isCode(err, 'KubeUnauthorized', 'KubeUnavailable', 'KubeWrongAnswer')) throw err;
      await this.#rereadIfDue();
      // A 401 was carried out by nobody, so it may be sent again; whether anything else was is not known.
      if (isCode(err, 'KubeUnauthorized') && this.#lines !== used) return this.#send<T>(request);
      throw err;
    }
  }

  async *watch(
    path: string,
    { silenceMs, signal }: { silenceMs: number; signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void, undefined> {
    const attempt = { ...this.#attempt('GET', path), verb: 'watch' };
    if (this.#closed) throw unavailable(attempt, 'the connection is closed');
    const lines = this.#lines;
    const entry = this.#gate.enterAside(attempt);
    const line = lines.forWatch();
    try {
      const events = watchEvents({
        server: this.server,
        path,
        headers: this.#headers(),
        dispatcher: line.client,
        attempt,
        silenceMs,
        signal,
        clock: this.#clock,
        onSilence: () => lines.retire(line),
      });
      for await (const event of events) {
        entry.answered();
        this.#trust.worked();
        yield event;
      }
    } catch (err) {
      if (isAway(err)) entry.failed(err);
      this.#distrust(err, lines);
      throw err;
    } finally {
      entry.end();
      lines.leave(line);
    }
  }

  reload(): Promise<'unchanged' | 'changed'> {
    this.#reloading ??= this.#reload().finally(() => (this.#reloading = undefined));
    return this.#reloading;
  }

  turn(signal: AbortSignal): Promise<() => void> {
    return this.#gate.turn(signal);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#lines.destroy(new RecoveryError('KubeUnavailable', 'the connection is closed'));
  }

  async #reload(): Promise<'unchanged' | 'changed'> {
    const { kubeconfigFile, log } = this.#options;
    this.#rereadAt = this.#clock.now().getTime();
    if (kubeconfigFile === undefined) return 'unchanged';
    const read = await readKubeconfig(kubeconfigFile, this.#options);
    if (this.#closed) return 'unchanged';
    const next = { ...read, ca: this.#trust.use(read.ca) };
    if (sameCredentials(next, this.#credentials)) return 'unchanged';
    this.#change(next);
    log?.info('connection.changed', { path: kubeconfigFile, server: this.server });
    return 'changed';
  }

  #change(next: Credentials): void {
    const old = this.#lines;
    this.#credentials = next;
    this.#lines = this.#newLines();
    this.#gate = this.#gates.of(next);
    old.supersede(new RecoveryError('KubeUnavailable', 'the credentials on disk changed'));
  }

  /** `lines`: on which it failed; those of other credentials say nothing of these. */
  #distrust(err: unknown, lines: Lines): void {
    if (lines !== this.#lines || this.#closed || !isAway(err) || err.details['untrusted'] !== true) return;
    const former = this.#trust.failed();
    if (former === undefined) return;
    this.#change({ ...this.#credentials, ca: former });
    const { kubeconfigFile, log } = this.#options;
    const message =
      'the CA in the kubeconfig does not know the server; the one by which it was known before stays in use';
    const path = kubeconfigFile === undefined ? {} : { path: kubeconfigFile };
    log?.warn('connection.kept', { ...path, server: this.server, message, err: err.message });
  }

  /** At most once a second. A file that cannot be used now changes nothing: the refusal itself is what is reported. */
  async #rereadIfDue(): Promise<void> {
    const since = this.#clock.now().getTime() - this.#rereadAt;
    if (since >= 0 && since < rereadMs && this.#reloading === undefined) return; // negative: the clock was set back
    await this.reload().catch(() => undefined);
  }

  #newLines(): Lines {
    const { clock, connectTimeoutMs, pingMs } = this.#options;
    return new Lines({ credentials: this.#credentials, clock, connectTimeoutMs, pingMs });
  }

  #attempt(method: string, path: string): Attempt {
    const name = this.serverName === undefined ? '' : ` (${this.serverName})`;
    return { ...describeRequest(method, path), server: `${this.server}${name}` };
  }

  #headers(): Record<string, string> {
    const { token } = this.#credentials;
    return {
      accept: 'application/json',
      'user-agent': this.#options.userAgent,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
  }

  async #send<T>(request: KubeRequest): Promise<T> {
    const attempt = this.#attempt(request.method, request.path);
    if (this.#closed) throw unavailable(attempt, 'the connection is closed');
    const entry = await this.#gate.enter(attempt, request.signal);
    const lines = this.#lines;
    try {
      const answer = await this.#answer<T>(request, attempt);
      entry.answered();
      if (lines === this.#lines) this.#trust.worked();
      return answer;
    } catch (err) {
      this.#distrust(err, lines);
      if (isAway(err)) entry.failed(err);
      else if (isAnswer(err) && (err.details['status'] ?? err.details['tooLarge']) !== undefined) entry.answered();
      throw err;
    } finally {
      entry.end();
    }
  }

  async #answer<T>(request: KubeRequest, attempt: Attempt): Promise<T> {
    const { timeoutMs = requestTimeoutMs, signal } = request;
    if (this.#closed) throw unavailable(attempt, 'the connection is closed');
    const lines = this.#lines;
    const line = lines.forRequest();
    const limit = new TimeLimit(this.#clock, timeoutMs, signal);
    try {
      // undici notices an abort only once the connection stands (or fails); what was given up before is never sent.
      const exchange = this.#exchange(line.client, request, limit.signal);
      const { status, retryAfter, text } = await Promise.race([exchange, limit.reached]);
      if (status < 200 || status >= 300) throw statusError(attempt, status, text, retryAfter);
      return parseAnswer(request, attempt, text) as T;
    } catch (err) {
      if (limit.passed) {
        lines.retire(line); // the connection may be dead: the next request gets a new one
        throw away(attempt, `no answer within ${timeoutMs} ms, server ${attempt.server}`);
      }
      if (signal.aborted) throw unavailable(attempt, 'stopped before the answer came');
      throw isAnswer(err) ? err : networkError(attempt, err);
    } finally {
      limit.end();
    }
  }

  async #exchange(
    client: Client,
    { method, path, body, contentType }: KubeRequest,
    signal: AbortSignal,
  ): Promise<Answer> {
    const answer = await client.request({
      method,
      path: `${new URL(this.server).pathname.replace(/\/$/, '')}${path}`,
      headers: { ...this.#headers(), ...(body !== undefined && { 'content-type': contentType ?? 'application/json' }) },
      body: body === undefined ? null : JSON.stringify(body),
      signal: body === undefined ? signal : untilSent(client, signal),
    });
    const retryAfter = answer.headers['retry-after'];
    return {
      status: answer.statusCode,
      retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
      text: await answer.body.text(),
    };
  }
}

interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly text: string;
}

/**
 * A request with a body can be taken back only while there is no connection: when a stream is destroyed whose body still
 * waits to be sent, Node 24 goes on sending for ever and takes all memory (Http2Session::SendPendingData). Afterwards
 * nobody waits for it any more; it ends by itself, or with its connection.
 */
function untilSent(client: Client, signal: AbortSignal): AbortSignal {
  const stop = new AbortController();
  const abort = (): void => {
    if (!client.stats.connected) stop.abort();
  };
  if (signal.aborted) stop.abort();
  else signal.addEventListener('abort', abort, { once: true });
  return stop.signal;
}

/** An error that is already complete: it stands for an answer of the server. Others are reasons why none came. */
const isAnswer = (err: unknown): err is RecoveryError =>
  err instanceof RecoveryError && err.details['verb'] !== undefined;

/** Opens nothing yet: the first request or watch does. Throws ConfigInvalid for an unusable kubeconfig. */
export async function openConnection(options: ConnectionOptions): Promise<KubeConnection> {
  const { credentials, kubeconfigFile } = options;
  return new Connection(options, credentials ?? (await readKubeconfig(kubeconfigFile, options)));
}
