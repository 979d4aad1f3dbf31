// One syncer at a time writes below a destination: two would each take the other's new generation for a leftover and
// remove it while it is in use. The lock lies in the destination itself, the one place that every syncer of it sees,
// also through different mounts and paths.
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import { attempt, realDisk } from '../disk/disk.ts';
import { ensureDirectory } from '../disk/files.ts';
import { acquireLock, type Lock } from '../host/lock.ts';

/** Below the destination. Not one of the directories that hold objects, and closed to everybody else. */
export const lockDirectory = '.lock';

export class DestinationLock {
  readonly #destinationDir: string;
  readonly #clock: Clock;
  #holding: Promise<Lock> | undefined;

  constructor(destinationDir: string, clock: Clock) {
    this.#destinationDir = destinationDir;
    this.#clock = clock;
  }

  /** Resolves when this process holds the lock; after a failure the next call tries again. Throws AlreadyRunning, WriteFailed. */
  async hold(): Promise<void> {
    this.#holding ??= this.#acquire();
    const holding = this.#holding;
    try {
      await holding;
    } catch (err) {
      if (this.#holding === holding) this.#holding = undefined;
      throw err;
    }
  }

  async release(): Promise<void> {
    const lock = await this.#holding?.catch(() => undefined);
    await lock?.release();
  }

  #acquire(): Promise<Lock> {
    const destination = this.#destinationDir;
    const what = `destination directory "${destination}"`;
    return attempt({ code: 'WriteFailed', action: 'lock', what, directory: destination }, async () => {
      await ensureDirectory(realDisk, destination); // the lock's own mode is for nobody's parents
      const guards = `files below "${destination}"`;
      return acquireLock({ directory: join(destination, lockDirectory), clock: this.#clock, guards });
    });
  }
}
