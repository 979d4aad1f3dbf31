// The file by which a readiness probe sees that the syncer has begun: OpenShift's cert-syncer makes it when its caches are
// filled (library-go, pkg/operator/staticpod/certsyncpod, --caches-synced-file).
import { writeFile } from 'node:fs/promises';
import { errorText } from '../errors.ts';
import type { Log } from '../log.ts';
import type { SyncStatus } from './object-sync.ts';

export interface CachesSyncedOptions {
  readonly cachesSyncedFile?: string | undefined;
  readonly dryRun: boolean;
  readonly log: Log;
}

export class CachesSynced {
  readonly #options: CachesSyncedOptions;
  #isDone: boolean;
  /** Until the file is there, if one is wanted. Never rejects. */
  told: Promise<void> = Promise.resolve();

  constructor(options: CachesSyncedOptions) {
    this.#options = options;
    this.#isDone = options.dryRun || options.cachesSyncedFile === undefined;
  }

  /** To be called after each look: how the objects stand. */
  count({ objects }: { readonly objects: readonly Pick<SyncStatus, 'state'>[] }): void {
    const { cachesSyncedFile: path = '', log } = this.#options;
    if (this.#isDone || objects.some(({ state }) => state === 'pending')) return;
    this.#isDone = true;
    this.told = writeFile(path, '', { mode: 0o644 }).catch((err: unknown) => {
      log.warn('sync.failed', { path, err: errorText(err) });
    });
  }
}
