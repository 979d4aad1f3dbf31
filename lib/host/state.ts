// Values that runs leave for later runs, which a timer starts each minute: one JSON file each, whole or absent, for root
// alone. A value of another boot counts as absent, as no process outlives a boot; so does a file that cannot be read,
// or that an earlier version has left. Reading removes nothing, because another run may have just replaced the file:
// the next value takes its place, and /run is empty after a boot.
import { join } from 'node:path';
import { type Clock, isRecent } from '../clock.ts';
import { attempt, realDisk } from '../disk/disk.ts';
import { ensurePrivateDirectory, readRegularFile, replaceFile } from '../disk/files.ts';
import { systemCode } from '../errors.ts';
import { bootId } from './proc.ts';

export interface Kept<T> {
  readonly value: T;
  /** Time that was given with the value. */
  readonly at?: Date;
}

interface DuePace {
  /** Interval while it succeeds: another client may undo it. */
  readonly againMs: number;
  readonly afterFailureMs: number;
  readonly clock: Clock;
}

/** Checks the type of a value that was read; undefined where it is another. */
type ReadValue<T> = (value: unknown) => T | undefined;

const asText: ReadValue<string> = (value) => (typeof value === 'string' ? value : undefined);

export class RunState {
  readonly #directory: string;
  readonly #boot: string | undefined;

  /** `scope`: values count in this boot only (default), or as long as they lie on the disk. */
  constructor(directory: string, scope: 'disk' | { readonly boot: string } = { boot: bootId() }) {
    this.#directory = directory;
    this.#boot = scope === 'disk' ? undefined : scope.boot;
  }

  /** Undefined where there is no value, or none that counts. Never rejects. */
  async get<T>(name: string, readValue: ReadValue<T>): Promise<Kept<T> | undefined> {
    const found = await this.look(name, readValue);
    return found === 'garbled' ? undefined : found;
  }

  /** Like get, for values whose loss matters: tells a file that is no value from an absent one. Never rejects. */
  async look<T>(name: string, readValue: ReadValue<T>): Promise<Kept<T> | 'garbled' | undefined> {
    try {
      const text = (await readRegularFile(realDisk, this.#path(name))).toString();
      const { boot, at, value } = (JSON.parse(text) ?? {}) as Partial<Record<string, unknown>>;
      if (value !== undefined && boot !== this.#boot) return undefined;
      const read = value === undefined ? undefined : readValue(value);
      const time = new Date(typeof at === 'string' ? at : Number.NaN);
      return read === undefined ? 'garbled' : { value: read, ...(!Number.isNaN(time.getTime()) && { at: time }) };
    } catch (err) {
      return ['ENOENT', 'ENOTDIR'].includes(systemCode(err) ?? '') ? undefined : 'garbled';
    }
  }

  getText(name: string): Promise<Kept<string> | undefined> {
    return this.get(name, asText);
  }

  /** Throws WriteFailed. */
  async set(name: string, value: unknown, at?: Date): Promise<void> {
    await ensurePrivateDirectory(this.#directory);
    const content = `${JSON.stringify({ boot: this.#boot, at, value })}\n`;
    const file = { path: this.#path(name), content, mode: 0o600, what: 'note', isShared: true } as const;
    await replaceFile(file).catch(async (err: unknown) => {
      if (systemCode((err as Error).cause) !== 'EISDIR') throw err;
      await this.remove(name); // a directory lies in its place
      await replaceFile(file);
    });
  }

  /** Removes whatever lies there. Throws WriteFailed. */
  async remove(name: string): Promise<void> {
    const removing = { code: 'WriteFailed', action: 'remove', what: `note "${this.#path(name)}"` } as const;
    await attempt({ ...removing, directory: this.#directory, remains: '' }, () =>
      realDisk.rm(this.#path(name), { force: true, recursive: true }),
    );
  }

  /** Like set. Never rejects: without the value, a later run repeats a request or a report. */
  async keep(name: string, value: unknown, at?: Date): Promise<void> {
    await this.set(name, value, at).catch(() => undefined);
  }

  /** Like remove. Never rejects. */
  async forget(name: string): Promise<void> {
    await this.remove(name).catch(() => undefined);
  }

  /** Whether this text was kept less than `forMs` ago. */
  async isFresh(name: string, text: string, forMs: number, now: Date): Promise<boolean> {
    const found = await this.getText(name);
    return found?.value === text && isRecent(found.at, forMs, now);
  }

  /**
   * Does work that each run of a timer could do, when it is due: immediately for another `text` than the last one, and
   * again after some time. `open` leaves it to the next run.
   */
  async whenDue(
    name: string,
    text: string,
    { againMs, afterFailureMs, clock }: DuePace,
    work: () => Promise<'done' | 'failed' | 'open'>,
  ): Promise<void> {
    const failed = `${text} failed`;
    if (await this.isFresh(name, text, againMs, clock.now())) return;
    if (await this.isFresh(name, failed, afterFailureMs, clock.now())) return;
    const outcome = await work();
    if (outcome !== 'open') await this.keep(name, outcome === 'done' ? text : failed, clock.now());
  }

  /** Whether `text` is to be reported now: the last report differs, or is an hour old. Then it is kept. */
  async isNews(name: string, text: string, now: Date): Promise<boolean> {
    if (await this.isFresh(name, text, reportedAgainMs, now)) return false;
    await this.keep(name, text, now);
    return true;
  }

  #path(name: string): string {
    return join(this.#directory, name);
  }
}

const reportedAgainMs = 3_600_000;
