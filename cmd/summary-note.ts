// When a single run has last told how everything stands. A timer makes one each minute; the note keeps that line to one
// a day and boot (/run). Nothing depends on it: one that cannot be read or written only tells more often.
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../lib/disk/files.ts';

const noteIn = (lockDir: string): string => join(lockDir, 'summary');

export function readSummaryNote(lockDir: string): Promise<Date | undefined> {
  return stat(noteIn(lockDir)).then(
    ({ mtime }) => mtime,
    () => undefined,
  );
}

export async function noteSummary(lockDir: string, at: Date): Promise<void> {
  const content = `${at.toISOString()}\n`;
  await replaceFile({ path: noteIn(lockDir), content, mode: 0o600, what: 'note' }).catch(() => undefined);
}
