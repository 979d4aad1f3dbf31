// The directory below which all objects lie. One syncer at a time writes there: two syncers would each take the other's
// new generation for a leftover and remove it while it is in use. The lock lies in the directory itself, the one place
// that every syncer of it sees, also through different mounts and paths.
import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { attempt, realDisk, unlessAbsent } from '../disk/disk.ts';
import { directoryMode, ensureDirectory } from '../disk/files.ts';
import { errorText, isCode, RecoveryError, systemCode } from '../errors.ts';
import type { Running } from '../log.ts';
import { allow, isOwn, type ObjectDirectory } from '../publish/scan.ts';
import { pruneRemoved } from '../publish/unpublish.ts';
import { letsOthersReplace, writableByOthers } from '../host/closed-path.ts';
import { acquireLock, type Lock } from '../host/lock.ts';
import { objectKinds } from '../inventory/location-kinds.ts';

/** `path` is absolute, as the configuration checks. Throws ConfigInvalid where it is no directory. */
export async function checkDestination(path: string): Promise<void> {
  // A path that cannot be read now is reported by the objects, and may be repaired while this runs.
  const isInTheWay = await stat(path).then(
    (stats) => !stats.isDirectory(),
    (err: unknown) => systemCode(err) === 'ENOTDIR',
  );
  if (!isInTheWay) return;
  const problem = 'it is not a directory; the absolute path of a directory is wanted';
  throw new RecoveryError('ConfigInvalid', `Cannot use destination directory "${path}": ${problem}`);
}

/** Apart from the directories of objects, and closed to other users. */
const lockDirectory = '.lock';

export class Destination {
  readonly #path: string;
  readonly #options: Pick<Running, 'clock' | 'log'>;
  readonly #kinds: readonly string[];
  readonly #reported = new Set<string>();
  #holding: Promise<Lock> | undefined;

  constructor(path: string, options: Pick<Running, 'clock' | 'log'>) {
    this.#path = path;
    this.#options = options;
    this.#kinds = Object.values(objectKinds).map(({ directory }) => join(path, directory));
  }

  /** Called before the first object is written. Throws AlreadyRunning. */
  async begin(): Promise<void> {
    await this.repair(); // else the lock itself may be out of reach
    this.#reported.clear();
    try {
      await this.hold();
    } catch (err) {
      if (isCode(err, 'AlreadyRunning')) throw err;
      // The disk may be repaired while this runs: each write takes the lock first.
      this.#options.log.warn('sync.failed', { path: this.#path, err: errorText(err) });
      return;
    }
    // Residue of an interrupted removal. Not worth a stop: each object reports a disk that refuses.
    for (const directory of this.#kinds) {
      await pruneRemoved({ directory, what: `directory "${directory}"` }).catch((err: unknown) =>
        this.#options.log.warn('sync.failed', { path: directory, err: errorText(err) }),
      );
    }
  }

  /**
   * Resolves when this process holds the lock: it may have been removed with its directory. After a failure the next
   * call tries again. Throws AlreadyRunning, WriteFailed.
   */
  async hold(): Promise<void> {
    const holding = this.#holding;
    if (holding !== undefined) return this.#lock(async () => (await holding).confirm());
    const acquiring = this.#lock(() => this.#acquire());
    this.#holding = acquiring;
    try {
      await acquiring;
    } catch (err) {
      if (this.#holding === acquiring) this.#holding = undefined;
      throw err;
    }
  }

  async release(): Promise<void> {
    const lock = await this.#holding?.catch(() => undefined);
    await lock?.release();
  }

  async #acquire(): Promise<Lock> {
    const [destination, { clock }] = [this.#path, this.#options];
    const guards = `files below "${destination}"`;
    return acquireLock({ directory: join(destination, lockDirectory), clock, guards });
  }

  #lock<T>(call: () => Promise<T>): Promise<T> {
    const destination = this.#path;
    const what = `destination directory "${destination}"`;
    return attempt({ code: 'WriteFailed', action: 'lock', what, directory: destination }, async () => {
      await ensureDirectory(realDisk, destination); // the lock's own mode does not apply to its parents
      return call();
    });
  }

  /** Repairs modes of the directories above the objects. The same failure again is logged once. Never rejects. */
  async repair(): Promise<void> {
    for (const directory of [this.#path, ...this.#kinds]) {
      try {
        const mode = await repairParent({ directory, what: `directory "${directory}"` });
        if (mode === undefined) continue;
        const message = `its mode was 0${mode.toString(8)}: it shut this process out, or let others replace what is below`;
        this.#options.log.warn('sync.repaired', { path: directory, message });
      } catch (err) {
        if (this.#reported.has(errorText(err))) continue;
        this.#reported.add(errorText(err));
        this.#options.log.warn('sync.failed', { path: directory, err: errorText(err) });
      }
    }
    // Else the lock cannot be released; a lock taken later repairs its own directory.
    const path = join(this.#path, lockDirectory);
    const stats = await realDisk.stat(path).catch(() => undefined);
    if (stats?.isDirectory()) await allow(realDisk, path, { stats, bits: ownAccess }).catch(() => undefined);
  }
}

const ownAccess = 0o700;

/** The mode that a directory must get; undefined when its mode may stay. A narrower mode is its owner's choice. */
function repairedMode(status: Stats): number | undefined {
  const { mode } = status;
  if ((mode & 0o111) === 0) return directoryMode; // `chmod -R 600`: no user can enter
  const wide = letsOthersReplace(status);
  if (!wide && (mode & ownAccess) === ownAccess) return undefined;
  return ((wide ? mode & ~writableByOthers : mode) | ownAccess) & 0o7777;
}

/**
 * Repairs the mode of a directory above objects: a user who may write there can replace an object's directory under its
 * readers. Returns the former mode, when that was repaired; an absent or foreign directory stays unchanged. Throws
 * WriteFailed.
 */
export async function repairParent({ directory, what, disk = realDisk }: ObjectDirectory): Promise<number | undefined> {
  return attempt({ code: 'WriteFailed', action: 'repair', what, directory }, async () => {
    const stats = await unlessAbsent(() => disk.stat(directory));
    if (stats?.isDirectory() !== true || !isOwn(stats)) return undefined;
    const wanted = repairedMode(stats);
    if (wanted === undefined) return undefined;
    await disk.chmod(directory, wanted);
    return stats.mode & 0o7777;
  });
}
