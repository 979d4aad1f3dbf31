// What a run leaves for the next ones, which a timer starts each minute: a text, and when it was written. Nothing depends on
// a note: without one, or with one that cannot be read, something is asked or told once more.
import { stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { realDisk } from '../disk/disk.ts';
import { ensurePrivateDirectory, readRegularFile, replaceFile } from '../disk/files.ts';

export interface Note {
  readonly text: string;
  readonly at: Date;
}

/** In the directory of the lock (/run) unless it is to outlast a boot. */
export async function readNote(directory: string, name: string): Promise<Note | undefined> {
  const path = join(directory, name);
  try {
    return { text: (await readRegularFile(realDisk, path)).toString().trim(), at: (await stat(path)).mtime };
  } catch {
    return undefined;
  }
}

/** Its time counts also where the text is what it was. Never rejects. */
export async function writeNote(directory: string, name: string, text: string, now: Date): Promise<void> {
  const path = join(directory, name);
  try {
    await ensurePrivateDirectory(directory);
    await replaceFile({ path, content: `${text}\n`, mode: 0o600, what: 'note' });
    await utimes(path, now, now);
  } catch {
    // The next run does it again.
  }
}
