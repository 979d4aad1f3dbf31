// Notes of a run for later runs, which a timer starts each minute: a text, and when it was written. Without a readable
// note a request or a report is repeated.
import { rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { isRecent } from '../clock.ts';
import { realDisk } from '../disk/disk.ts';
import { ensurePrivateDirectory, readRegularFile, replaceFile } from '../disk/files.ts';

export interface Note {
  readonly text: string;
  readonly at: Date;
}

/** Reads a note. `directory`: the directory of the lock (/run), unless the note is to outlast a boot. */
export async function readNote(directory: string, name: string): Promise<Note | undefined> {
  const path = join(directory, name);
  try {
    return { text: (await readRegularFile(realDisk, path)).toString().trim(), at: (await stat(path)).mtime };
  } catch {
    return undefined;
  }
}

/** Writes a note; its time is updated also where the text is unchanged. Never rejects. */
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

/** Removes a note, so that its request or report is repeated. Never rejects. */
export async function forgetNote(directory: string, name: string): Promise<void> {
  await rm(join(directory, name), { force: true }).catch(() => undefined);
}

/** Whether `text` is to be reported now: the last report differs, or is an hour old. Then it is noted. */
export async function isNews(directory: string, name: string, text: string, now: Date): Promise<boolean> {
  const note = await readNote(directory, name);
  if (note?.text === text.trim() && isRecent(note.at, toldAgainMs, now)) return false;
  await writeNote(directory, name, text, now);
  return true;
}

const toldAgainMs = 3_600_000;
