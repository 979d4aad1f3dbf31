// The tool's own kubeconfig, token and CA: when one of them changes, the connection reads them again. A reload
// that fails (a half-written kubeconfig, say) is tried again until it succeeds or the files change once more; the
// connection keeps what it had. A failure is logged when it is news.
import { errorText } from '../errors.ts';
import { Repeats, type Running } from '../log.ts';
import { backoffMs, Wake } from '../retry.ts';
import { observeFiles, reportChanges } from './observe.ts';

interface OwnFilesOptions extends Running {
  /** Absolute paths of the kubeconfig and of every file that it names. */
  readonly files: () => readonly string[];
  /** KubeConnection.reload: reads everything again and says whether it differs. */
  readonly reload: () => Promise<'unchanged' | 'changed'>;
}

/** After failed reloads. */
const retries = { firstMs: 500, longestMs: 5000 };

/** Runs until the signal aborts. The first look reloads too: the files may have changed since the connection was made. */
export async function observeOwnFiles(options: OwnFilesOptions): Promise<void> {
  while (!options.signal.aborted) await observeUntilOthers(options);
}

/** Until the files are others: a kubeconfig was replaced by one that names another token. */
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
        await reload(); // says by itself what has changed
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
