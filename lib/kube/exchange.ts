// Exchanges over a connection of the pool: one request and its answer, or one watch and its events. Each is limited: a
// request by its time, a watch by the silence of the server.
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import type { Client } from 'undici';
import { bounds } from '../bounds.ts';
import type { Clock } from '../clock.ts';
import { parseAnswer } from './answer.ts';
import { type Attempt, networkError, statusError, tooLarge, unavailable } from './api-error.ts';
import type { KubeRequest, WatchEvent } from './kube.ts';
import { heardOn, isUnsent, type ConnectionPool } from './pool.ts';

interface Exchange {
  readonly pool: ConnectionPool;
  readonly attempt: Attempt;
  /** Path with query on the server's host. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly clock: Clock;
}

const requestTimeoutMs = 10_000;
const longestSilenceMs = 30_000;
/** Limit of a request that may wait, even while data arrive. */
const longestRequestMs = 60_000;

/** Sends a request and returns its answer, if it is a 2xx that fits. Throws as `KubeConnection.request`. */
export async function send<T>(exchange: Exchange, request: KubeRequest): Promise<T> {
  const { pool, attempt, clock } = exchange;
  const { timeoutMs = requestTimeoutMs, signal } = request;
  const longestMs = request.longestMs ?? (request.timeoutMs === undefined ? longestSilenceMs : undefined);
  const { pace } = pool;
  const { step } = pace;
  const mayWait = longestMs !== undefined;
  const limitMs = mayWait ? pace.limitMs(timeoutMs, longestMs) : timeoutMs;
  const progress = { of: () => pace.delivered, longestMs: longestRequestMs };
  const limit = new TimeLimit(clock, { ms: limitMs, ...(mayWait && { progress }) }, signal);
  try {
    return await inTurn<T>(exchange, request, { limit, usualMs: timeoutMs });
  } catch (err) {
    if (limit.passed) {
      const server = err instanceof Late ? err.server : 'silent';
      if (server === 'slow' && mayWait) pace.late(step, limit.hasProgressed);
      const state = `no answer within ${limit.spentMs} ms, server ${attempt.server}`;
      throw unavailable(attempt, state, undefined, {
        ...(server === 'silent' && { away: true }),
        ...(server === 'slow' && { slow: true }),
      });
    }
    if (signal.aborted) throw unavailable(attempt, 'stopped before the answer came');
    throw networkError(attempt, err);
  } finally {
    limit.end();
  }
}

/** Error of a request not answered in time: how the server behaved until then, towards this request or earlier ones. */
class Late extends Error {
  readonly server: 'silent' | 'slow' | 'busy';

  constructor(server: Late['server']) {
    super(server);
    this.server = server;
  }
}

interface Waiting {
  readonly limit: TimeLimit;
  readonly usualMs: number;
}

async function inTurn<T>(exchange: Exchange, request: KubeRequest, waiting: Waiting): Promise<T> {
  const { pool, attempt, clock } = exchange;
  const { limit } = waiting;
  for (;;) {
    if (!(await pool.pace.enter(limit.signal))) throw new Late('busy');
    const connection = pool.forRequest();
    const heardBefore = heardOn(connection);
    const began = clock.now().getTime();
    try {
      // undici notices an abort only once the connection is open (or fails); a request aborted before is never sent.
      const answer = readAnswer(connection.client, exchange, request, limit.signal);
      const { status, retryAfter, text } = await Promise.race([answer, limit.reached]);
      pool.pace.answered(clock.now().getTime() - began, waiting.usualMs, text.length);
      // kube-apiserver closes an HTTP/2 connection after a 401 (k8s.io/apiserver, UnauthenticatedHTTP2DOSMitigation).
      if (status === 401) pool.drain(connection);
      if (status < 200 || status >= 300) throw statusError(attempt, status, text, retryAfter);
      return parseAnswer(request, attempt, text) as T;
    } catch (err) {
      if (limit.passed) throw new Late(pool.isSlow(connection, heardBefore) ? 'slow' : 'silent');
      if (!isUnsent(err) || request.signal.aborted) throw err;
    } finally {
      pool.finished(connection);
      pool.pace.leave();
    }
  }
}

interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  text: string;
}

async function readAnswer(
  client: Client,
  { pool, path, headers }: Exchange,
  { method, body, contentType = 'application/json', mostBytes = bounds.answer.most.bytes }: KubeRequest,
  signal: AbortSignal,
): Promise<Answer> {
  const answer = await client.request({
    method,
    path,
    headers: body === undefined ? headers : { ...headers, 'content-type': contentType },
    body: body === undefined ? null : JSON.stringify(body),
    signal: body === undefined ? signal : untilSent(client, signal),
  });
  const text = await textOf(answer.body, mostBytes, pool);
  return { status: answer.statusCode, retryAfter: retryAfterOf(answer.headers), text };
}

/** Text of an answer, at most so long. By events: an iterator takes half as much again of the time of a request. */
function textOf(body: Readable, mostBytes: number, { pace }: ConnectionPool): Promise<string> {
  // Bytes are outside the heap, whose collector is late to free them: of several large answers all would be kept.
  const decoder = new StringDecoder('utf8');
  let text = '';
  let bytes = 0;
  return new Promise((resolve, reject) => {
    body.on('data', (piece: Buffer) => {
      bytes += piece.length;
      if (bytes > mostBytes) body.destroy(tooLarge());
      else text += decoder.write(piece);
      pace.delivered += 1;
    });
    body.on('end', () => resolve(text + decoder.end()));
    body.on('error', reject);
    body.on('close', () => {
      if (!body.readableEnded) reject(new Error('the answer was cut off'));
    });
  });
}

function retryAfterOf({ 'retry-after': value }: IncomingHttpHeaders): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

/**
 * A request with a body can be aborted only while there is no connection: when a stream is destroyed whose body still
 * waits to be sent, Node 24 goes on sending for ever and takes all memory (Http2Session::SendPendingData). Afterwards
 * no caller waits for it any more; it finishes by itself, or with its connection.
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

/**
 * Events of one watch, one JSON object on each line, until the server closes it or `signal` aborts (returns), or it
 * fails (throws). Every line received is delivered, or the watch fails: after a lost event only a list helps. An
 * event that is too large fails it (`isTooLarge`).
 */
export async function* watchEvents(
  { pool, attempt, path, headers, clock }: Exchange,
  { silenceMs, signal }: { readonly silenceMs: number; readonly signal: AbortSignal },
): AsyncGenerator<WatchEvent, void, undefined> {
  if (signal.aborted) return;
  const connection = pool.forWatch();
  const limit = new TimeLimit(clock, { ms: silenceMs }, signal);
  /** Answer of the server in place of a watch. */
  let refusal: Answer | undefined;
  try {
    const asked = connection.client.request({ method: 'GET', path, headers, signal: limit.signal });
    const { statusCode, headers: answered, body } = await Promise.race([asked, limit.reached]);
    body.setEncoding('utf8');
    let rest = '';
    if (statusCode !== 200) refusal = { status: statusCode, retryAfter: retryAfterOf(answered), text: '' };
    for await (const chunk of body as AsyncIterable<string>) {
      limit.restart();
      rest += chunk;
      if (refusal !== undefined) {
        refusal.text = rest;
        if (rest.length > bounds.refusal.most.characters) break;
      } else if (chunk.includes('\n')) {
        const lines = rest.split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) yield parseEvent(line, attempt);
      }
      if (rest.length > bounds.event.most.characters) throw tooLarge();
    }
    if (refusal === undefined && rest !== '') throw unavailable(attempt, 'the stream ended in the middle of an event');
  } catch (err) {
    if (signal.aborted) return;
    if (limit.passed) {
      pool.drain(connection);
      throw unavailable(attempt, `nothing was heard for ${silenceMs} ms`);
    }
    if (refusal === undefined) throw networkError(attempt, err);
    // Its status is known, though its text was cut off.
  } finally {
    limit.end();
    pool.release(connection);
  }
  if (refusal !== undefined) throw statusError(attempt, refusal.status, refusal.text, refusal.retryAfter);
}

function parseEvent(line: string, attempt: Attempt): WatchEvent {
  try {
    return JSON.parse(line) as WatchEvent;
  } catch {
    throw unavailable(attempt, 'the server sent no JSON');
  }
}

/** Abort reason: without one each answer would make a DOMException, with its stack, that is never read. */
const answered = 'answered';
/** How often in its time a limit checks for a restart. */
const looks = 4;

interface Limits {
  /** Limit of silence, where it restarts; else of the whole time. */
  readonly ms: number;
  /** Counter that grows as long as data arrive: then the time restarts, until `longestMs` have passed in all. */
  readonly progress?: { readonly of: () => number; readonly longestMs: number };
}

/** A signal that aborts when the caller's does, or when the time is up since its start, or restart. */
class TimeLimit {
  passed = false;
  /** Milliseconds until it passed. */
  spentMs = 0;
  hasProgressed = false;
  readonly #given = Promise.withResolvers<never>();
  readonly #stop = new AbortController();
  readonly #finished = new AbortController();
  readonly #caller: AbortSignal;
  readonly #abort = (): void => {
    this.#stop.abort();
    this.#given.reject(new Error('given up'));
  };
  #hasRestarted = false;

  constructor(clock: Clock, limits: Limits, caller: AbortSignal) {
    this.#caller = caller;
    this.reached.catch(() => undefined); // it may reject when nothing waits for it
    if (caller.aborted) this.#abort();
    else caller.addEventListener('abort', this.#abort, { once: true });
    void this.#wait(clock, limits);
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Rejects when the signal aborts. */
  get reached(): Promise<never> {
    return this.#given.promise;
  }

  /**
   * Restarts the time. Costs nothing: a watch calls it for each chunk received. The time is then up to a quarter
   * longer.
   */
  restart(): void {
    this.#hasRestarted = true;
  }

  end(): void {
    this.#finished.abort(answered);
    this.#caller.removeEventListener('abort', this.#abort);
  }

  async #wait(clock: Clock, { ms, progress }: Limits): Promise<void> {
    let come = progress?.of();
    for (let left = looks; left > 0; left = this.#hasRestarted ? looks : left - 1) {
      this.#hasRestarted = false;
      await clock.sleep(ms / looks, this.#finished.signal);
      if (this.#finished.signal.aborted) return;
      this.spentMs = Math.round(this.spentMs + ms / looks);
      if (progress === undefined) continue;
      if (this.spentMs >= progress.longestMs) break;
      if (progress.of() !== come) this.#hasRestarted = this.hasProgressed = true;
      come = progress.of();
    }
    this.passed = true;
    this.#abort();
  }
}
