// A connection whose kubeconfig could not be used at the start: half-written, or its CA file not there yet, because the
// syncer of this very process publishes it. That is like an API server that is away: each request and each watch tries
// the files again, fails as KubeUnavailable until they can be used, and from then on goes to the connection made of
// them. What is wrong is logged, at most every ten seconds.
import type { Clock } from '../clock.ts';
import { errorText, isCode, RecoveryError } from '../errors.ts';
import { type Log, Repeats } from '../log.ts';
import { describeRequest, unavailable } from './api-error.ts';
import { attemptMs } from './gate.ts';
import type { KubeConnection, KubeRequest, WatchEvent } from './kube.ts';

interface LateConnectionOptions {
  readonly kubeconfigFile: string;
  /** Throws ConfigInvalid while the kubeconfig cannot be used. */
  readonly open: () => Promise<KubeConnection>;
  readonly clock: Clock;
  readonly log: Log;
}

const sayAgainMs = 10_000;
/** Many watches ask at once: the files are read once for all of them. */
const readAgainMs = 50;

class LateConnection implements KubeConnection {
  readonly #options: LateConnectionOptions;
  #opened: KubeConnection | undefined;
  #opening: Promise<KubeConnection> | undefined;
  #failure: { readonly err: Error; readonly at: number };
  readonly #waiting: Repeats;
  #attempts = 1;
  #closed = false;

  constructor(options: LateConnectionOptions, failure: RecoveryError) {
    this.#options = options;
    this.#waiting = new Repeats(options.clock, sayAgainMs);
    this.#failure = this.#failed(failure);
  }

  /** Before it is known, the file that does not say it. */
  get server(): string {
    return this.#opened?.server ?? `unknown, by kubeconfig "${this.#options.kubeconfigFile}"`;
  }

  get serverName(): string | undefined {
    return this.#opened?.serverName;
  }

  get files(): readonly string[] {
    return this.#opened?.files ?? [this.#options.kubeconfigFile];
  }

  async request<T>(request: KubeRequest): Promise<T> {
    const connection = await this.#open(describeRequest(request.method, request.path));
    return connection.request<T>(request);
  }

  async *watch(
    path: string,
    options: { silenceMs: number; signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void, undefined> {
    const connection = await this.#open({ ...describeRequest('GET', path), verb: 'watch' });
    yield* connection.watch(path, options);
  }

  async turn(signal: AbortSignal): Promise<() => void> {
    if (this.#opened !== undefined) return this.#opened.turn(signal);
    await this.#options.clock.sleep(attemptMs, signal); // nothing is sent yet
    return () => undefined;
  }

  async reload(): Promise<'unchanged' | 'changed'> {
    if (this.#opened !== undefined) return this.#opened.reload();
    await this.#tryToOpen();
    return 'changed';
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#opened?.close();
  }

  async #open(asked: { readonly verb: string; readonly object: string }): Promise<KubeConnection> {
    if (this.#opened !== undefined) return this.#opened;
    const attempt = { ...asked, server: this.server };
    if (this.#closed) throw unavailable(attempt, 'the connection is closed');
    try {
      return await this.#tryToOpen();
    } catch (err) {
      throw unavailable(attempt, oneLine(err), err);
    }
  }

  #tryToOpen(): Promise<KubeConnection> {
    const { clock } = this.#options;
    const { err, at } = this.#failure;
    const since = clock.now().getTime() - at;
    if (this.#opening === undefined && since >= 0 && since < readAgainMs) return Promise.reject(err);
    this.#opening ??= this.#read().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  async #read(): Promise<KubeConnection> {
    const { open, log, kubeconfigFile } = this.#options;
    this.#attempts += 1;
    try {
      const connection = await open();
      if (this.#closed) {
        await connection.close();
        throw new RecoveryError('KubeUnavailable', 'the connection is closed');
      }
      this.#opened = connection;
      log.info('connection.changed', { path: kubeconfigFile, server: connection.server, attempt: this.#attempts });
      return connection;
    } catch (err) {
      this.#failure = this.#failed(err);
      throw err;
    }
  }

  #failed(err: unknown): { readonly err: Error; readonly at: number } {
    const { log, clock, kubeconfigFile } = this.#options;
    const at = clock.now().getTime();
    const failure = { err: err instanceof Error ? err : new Error(String(err)), at };
    if (this.#waiting.met('kubeconfig') === undefined) return failure;
    const code = err instanceof RecoveryError ? err.code : undefined;
    log.warn('api.waiting', { path: kubeconfigFile, err: oneLine(err), attempt: this.#attempts, code });
    return failure;
  }
}

/** Problems of a kubeconfig come as a list. */
const oneLine = (err: unknown): string => errorText(err).replaceAll(/\n\s*/g, '; ');

/** The connection of a usable kubeconfig, or one that becomes usable with it. Never throws ConfigInvalid. */
export async function openWhenUsable(options: LateConnectionOptions): Promise<KubeConnection> {
  try {
    return await options.open();
  } catch (err) {
    if (!isCode(err, 'ConfigInvalid')) throw err;
    return new LateConnection(options, err);
  }
}
