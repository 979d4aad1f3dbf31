// An observer on real files, as a test pulls it: batch by batch, and until a file has a wanted content.
import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type Clock, systemClock } from '../../lib/clock.ts';
import type { FileChange } from '../../lib/fileobserver/inspect.ts';
import { type Batch, observeFiles, type ObserveOptions } from '../../lib/fileobserver/observe.ts';
import { createLog } from '../../lib/log.ts';

export const sha256 = (content: string): string => createHash('sha256').update(content).digest('hex');

/** expect.poll with patience for a busy machine; what is waited for takes milliseconds. */
export const soon = <T>(read: () => T) => expect.poll(read, { interval: 5, timeout: 4_500 });

export class TemporaryDirectory implements AsyncDisposable {
  readonly path = mkdtempSync(join(tmpdir(), 'fileobserver-'));

  [Symbol.asyncDispose](): Promise<void> {
    return rm(this.path, { recursive: true, force: true });
  }
}

/** Waits are short by it: what comes after ten seconds without a hint comes at once. */
export const hurried: Clock = {
  ...systemClock,
  sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 5), signal),
};

/** By the clock of the system a rescan comes later than any test waits: what is seen is seen by a hint. */

export class Observation implements AsyncDisposable {
  readonly lines: Record<string, unknown>[] = [];
  readonly #stop = new AbortController();
  readonly #batches: AsyncGenerator<Batch, void, void>;

  constructor(files: readonly string[], options: Partial<ObserveOptions> = {}) {
    this.#batches = observeFiles({
      artefacts: [{ kind: 'single', files }],
      clock: systemClock,
      log: createLog({ write: (line) => this.lines.push(JSON.parse(line) as Record<string, unknown>) }),
      signal: this.#stop.signal,
      ...options,
    });
  }

  async next(): Promise<readonly FileChange[]> {
    const { value, done } = await this.#batches.next();
    if (done === true) throw new Error('The observer has ended');
    return value.changes;
  }

  /** The changes up to and with the one that gives `path` this content (undefined: that removes it). */
  async until(path: string, content: string | undefined): Promise<FileChange[]> {
    const wanted = content === undefined ? undefined : sha256(content);
    const changes: FileChange[] = [];
    for (;;) {
      changes.push(...(await this.next()));
      const last = changes.findLast((change) => change.path === path);
      if (last === undefined) continue;
      if (last.change === 'removed' ? wanted === undefined : last.digest === wanted) return changes;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#batches.return();
  }
}
