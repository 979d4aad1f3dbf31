// The tool's own kubeconfig, token and CA: when one of them changes, the connection is told to read them again. A reload
// that fails (a half-written kubeconfig, say) is tried again until it succeeds or the files change once more; the
// connection keeps what it had. A failure is told when it is news.
import type { Clock } from '../clock.ts';
import { errorText } from '../errors.ts';
import type { Log } from '../log.ts';
import { observeFiles, reportChanges } from './observe.ts';

export interface OwnFilesOptions {
  /** Absolute paths of the kubeconfig and of every file that it names. */
  readonly files: () => readonly string[];
  /** KubeConnection.reload: reads everything again and says whether it differs. */
  readonly reload: () => Promise<'unchanged' | 'changed'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly rescanMs?: number;
  /** Milliseconds after a failed reload; doubled after each, up to ten times as much. Default 500. */
  readonly retryMs?: number;
}

/** Runs until the signal aborts. The first look reloads too: the files may have changed since the connection was made. */
export async function observeOwnFiles(options: OwnFilesOptions): Promise<void> {
  while (!options.signal.aborted) await observeUntilOthers(options);
}

/** Until the files are others: a kubeconfig was replaced by one that names another token. */
async function observeUntilOthers(options: OwnFilesOptions): Promise<void> {
  const { reload, log, clock, retryMs = 500 } = options;
  const others = new AbortController();
  const signal = AbortSignal.any([options.signal, others.signal]);
  const files = options.files();
  let failed: AbortController | undefined;
  let retry: Promise<void> = Promise.resolve();
  let told: string | undefined;

  const attempt = async (): Promise<boolean> => {
    try {
      await reload(); // says by itself what has changed
      told = undefined;
      if (!sameList(files, options.files())) others.abort();
      return true;
    } catch (err) {
      const text = errorText(err);
      if (text !== told) log.warn('reaction.failed', { reason: 'ReloadFailed', err: text });
      told = text;
      return false;
    }
  };
  const again = async (stop: AbortSignal): Promise<void> => {
    for (let delay = retryMs; ; delay = Math.min(delay * 2, retryMs * 10)) {
      await clock.sleep(delay, stop);
      if (stop.aborted || (await attempt())) return;
    }
  };

  for await (const changes of observeFiles({ ...options, files, signal })) {
    reportChanges(log, changes);
    failed?.abort();
    await retry;
    if (await attempt()) continue;
    failed = new AbortController();
    retry = again(AbortSignal.any([signal, failed.signal]));
  }
  await retry;
}

function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, at) => one === b[at]);
}
