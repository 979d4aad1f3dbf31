// The tool's own kubeconfig, token and CA: when any of them changes, the connection reads them again. A reload that
// fails (a half-written kubeconfig, for example) is retried until it succeeds or the files change once more; the
// connection keeps its former state. A failure is logged when it is new.
import { errorText } from '../errors.ts';
import { Repeats, type Running } from '../log.ts';
import { backoffMs, Wake } from '../retry.ts';
import { observeFiles, reportChanges } from './observe.ts';

interface OwnFilesOptions extends Running {
  /** Absolute paths of the kubeconfig and of every file that it names. */
  readonly files: () => readonly string[];
  /** KubeConnection.reload: reads everything again and returns whether it differs. */
  readonly reload: () => Promise<'unchanged' | 'changed'>;
}

/** Delays after failed reloads. */
const retries = { firstMs: 500, longestMs: 5000 };

/**
 * Runs until the signal aborts. The first read reloads too: the files may have changed since the connection was made.
 */
export async function observeOwnFiles(options: OwnFilesOptions): Promise<void> {
  while (!options.signal.aborted) await observeUntilOthers(options);
}

/** Observes until the set of files changes: the new kubeconfig names another token, for example. */
async function observeUntilOthers(options: OwnFilesOptions): Promise<void> {
  const { reload, log, clock } = options;
  const others = new AbortController();
  const signal = AbortSignal.any([options.signal, others.signal]);
  const files = options.files();
  const wake = new Wake();
  const observe = async (): Promise<void> => {
    for await (const { changes } of observeFiles({ ...options, artefacts: [{ kind: 'single', files }], signal })) {
      reportChanges(log, changes);
      wake.call();
    }
  };
  const react = async (): Promise<void> => {
    const told = new Repeats(clock);
    for (let failures = 0; ;) {
      const isChange = await wake.wait({ clock, signal }, failures === 0 ? undefined : backoffMs(failures, retries));
      if (signal.aborted) return;
      if (!isChange && failures === 0) continue;
      try {
        await reload(); // logs its changes itself
        failures = 0;
        told.ended('reload');
        if (files.join('\0') !== options.files().join('\0')) others.abort();
      } catch (err) {
        failures = isChange ? 1 : failures + 1;
        const text = errorText(err);
        if (told.met('reload', text) !== undefined) log.warn('reaction.failed', { reason: 'ReloadFailed', err: text });
      }
    }
  };
  await Promise.all([observe().finally(() => others.abort()), react()]);
}
