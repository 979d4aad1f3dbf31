// One watch as a sequence of events. The protocol is client-node's Watch (imported alone: the rest of that package
// costs 85 MB); this file keeps what that class does not promise. Watch drops lines that it cannot parse, takes a
// stream cut off in the middle of a line for a normal end, and knows of a refused request only its number.
// So a guard between it and the connection counts lines, sees how the stream ends, and reads the answer to a refusal:
// an event that came over the wire is delivered, or the watch fails.
import type { KubeConfig } from '@kubernetes/client-node';
import { Watch } from '@kubernetes/client-node/dist/watch.js';
import type { Dispatcher } from 'undici';
import type { Clock } from '../clock.ts';
import { errorText } from '../errors.ts';
import type { RecoveryError } from '../errors.ts';
import { networkError, statusError, unavailable } from './api-error.ts';
import type { Attempt } from './api-error.ts';
import type { WatchEvent } from './kube.ts';

interface WatchOptions {
  readonly server: string;
  /** Below `server`. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly dispatcher: Dispatcher;
  readonly attempt: Attempt;
  readonly silenceMs: number;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Called when nothing was heard for `silenceMs`: the connection itself may be dead. */
  readonly onSilence: () => void;
}

const newline = 0x0a;
/** Milliseconds within which a line that came in must have come out as an event. */
const deliveryMs = 1000;
const longestRefusal = 65_536;

/** Events waiting to be taken, and the end: normal when `failure` is undefined. */
class Feed {
  readonly events: WatchEvent[] = [];
  readonly stopped = new AbortController();
  /** Lines that came in, and events that came out of them. */
  lines = 0;
  delivered = 0;
  /** Whether all lines had come out at some moment since it was last set to false. */
  settled = true;
  /** Bytes after the last line end. */
  partial = 0;
  ended = false;
  failure: RecoveryError | undefined;
  #wake: () => void = () => undefined;

  push(event: WatchEvent): void {
    if (this.ended) return;
    this.delivered += 1;
    if (this.delivered === this.lines) this.settled = true;
    this.events.push(event);
    this.#wake();
  }

  end(failure?: RecoveryError): void {
    if (this.ended) return;
    this.ended = true;
    this.failure = failure;
    this.stopped.abort();
    this.#wake();
  }

  change(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve));
  }
}

type Handler = Dispatcher.DispatchHandler;
type Controller = Dispatcher.DispatchController;

/** Stands between fetch and the connection; see the head of this file. */
class Guard implements Handler {
  readonly #inner: Handler;
  readonly #feed: Feed;
  readonly #options: WatchOptions;
  #refusal: { readonly status: number; readonly retryAfter: string | undefined; body: Buffer } | undefined;
  #checking = false;

  constructor(inner: Handler, feed: Feed, options: WatchOptions) {
    this.#inner = inner;
    this.#feed = feed;
    this.#options = options;
  }

  onRequestStart(controller: Controller, context: unknown): void {
    const { signal } = this.#feed.stopped;
    // Watch gives its own means to stop only after the answer has begun; this one works from the start.
    const stop = (): void => controller.abort(new Error('watch stopped'));
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    this.#inner.onRequestStart?.(controller, context);
  }

  onResponseStarted(): void {
    this.#inner.onResponseStarted?.();
  }

  onResponseStart(...args: Parameters<NonNullable<Handler['onResponseStart']>>): void {
    const [, status, headers] = args;
    if (status < 200 || status === 200) return this.#inner.onResponseStart?.(...args);
    const retryAfter = headers['retry-after'];
    this.#refusal = {
      status,
      retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
      body: Buffer.alloc(0),
    };
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#refusal !== undefined) {
      this.#refusal.body = Buffer.concat([this.#refusal.body, chunk]);
      if (this.#refusal.body.length > longestRefusal) this.#refuse();
      return;
    }
    const feed = this.#feed;
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, at + 1)) feed.lines += 1;
    const last = chunk.lastIndexOf(newline);
    feed.partial = last < 0 ? feed.partial + chunk.length : chunk.length - last - 1;
    if (last >= 0) void this.#checkDelivery();
    this.#inner.onResponseData?.(controller, chunk);
  }

  onResponseEnd(...args: Parameters<NonNullable<Handler['onResponseEnd']>>): void {
    if (this.#refusal !== undefined) return this.#refuse();
    this.#inner.onResponseEnd?.(...args);
  }

  onResponseError(controller: Controller, err: Error): void {
    // Taken from here, because fetch hides it behind "terminated". What was delivered before stays delivered.
    if (this.#refusal === undefined) finish(err, this.#feed, this.#options);
    else this.#refuse();
    this.#inner.onResponseError?.(controller, err);
  }

  #refuse(): void {
    if (this.#refusal === undefined) return;
    const { status, body, retryAfter } = this.#refusal;
    this.#feed.end(statusError(this.#options.attempt, status, body.toString('utf8'), retryAfter));
  }

  /** Fails the watch when a line has not become an event: Watch drops what it cannot parse without a word. */
  async #checkDelivery(): Promise<void> {
    if (this.#checking) return;
    this.#checking = true;
    while (this.#feed.delivered < this.#feed.lines && !this.#feed.ended) {
      this.#feed.settled = false;
      await this.#options.clock.sleep(deliveryMs, this.#feed.stopped.signal);
      if (!this.#feed.settled) this.#feed.end(unavailable(this.#options.attempt, 'the server sent no JSON'));
    }
    this.#checking = false;
  }
}

/** What Watch asks of a KubeConfig: only these two are used (client-node 2.0.1, dist/watch.js). */
function watchConfig(options: WatchOptions, feed: Feed): KubeConfig {
  const dispatcher = {
    dispatch: (request: Dispatcher.DispatchOptions, handler: Handler) =>
      options.dispatcher.dispatch(request, new Guard(handler, feed, options)),
  };
  const config = {
    getCurrentCluster: () => ({ name: 'current', server: options.server, skipTLSVerify: false }),
    applySecurityAuthentication: (context: {
      setHeaderParam(name: string, value: string): void;
      setDispatcher(dispatcher: unknown): void;
    }): Promise<void> => {
      for (const [name, value] of Object.entries(options.headers)) context.setHeaderParam(name, value);
      // Lines are counted on the wire, so they must not be compressed.
      context.setHeaderParam('accept-encoding', 'identity');
      context.setDispatcher(dispatcher);
      return Promise.resolve();
    },
  };
  return config as unknown as KubeConfig;
}

/** Ends the feed: by an error, or where the stream ended by itself, which is an error too if something is missing. */
function finish(err: unknown, feed: Feed, options: WatchOptions): void {
  if (feed.ended) return;
  const { attempt, silenceMs } = options;
  if (err instanceof Error && err.name === 'TimeoutError') {
    options.onSilence();
    feed.end(unavailable(attempt, `nothing was heard for ${silenceMs} ms`));
  } else if (err !== null && err !== undefined) feed.end(networkError(attempt, err));
  else if (feed.partial > 0) feed.end(unavailable(attempt, 'the stream ended in the middle of an event'));
  else if (feed.delivered < feed.lines) feed.end(unavailable(attempt, 'the server sent no JSON'));
  else feed.end();
}

function start(options: WatchOptions, feed: Feed): void {
  const watch = new Watch(watchConfig(options, feed));
  // Private in the types, the watchdog in fact: time without bytes, the wait for the first ones included.
  Object.assign(watch, { requestTimeoutMs: options.silenceMs });
  watch
    .watch(
      options.path,
      {},
      (type: string, object: unknown) => feed.push({ type: type as WatchEvent['type'], object }),
      (err: unknown) => finish(err, feed, options),
    )
    .catch((err: unknown) => {
      feed.end(unavailable(options.attempt, `the watch could not be started: ${errorText(err)}`));
    });
}

/** The events of one watch until the server ends it or `signal` aborts (returns), or it fails (throws). */
export async function* watchEvents(options: WatchOptions): AsyncGenerator<WatchEvent, void, undefined> {
  if (options.signal.aborted) return;
  const feed = new Feed();
  const stop = (): void => feed.end();
  options.signal.addEventListener('abort', stop, { once: true });
  start(options, feed);
  try {
    for (;;) {
      const changed = feed.change();
      for (let event = feed.events.shift(); event !== undefined; event = feed.events.shift()) yield event;
      if (feed.ended && feed.events.length === 0) break;
      await changed;
    }
  } finally {
    options.signal.removeEventListener('abort', stop);
    feed.end();
  }
  if (feed.failure !== undefined && !options.signal.aborted) throw feed.failure;
}
