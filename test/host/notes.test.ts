import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readNote, writeNote } from '../../lib/host/notes.ts';

const now = new Date('2026-11-25T08:00:00Z');
describe('a note', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'notes-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('is read as it was written, with its time, by root alone', async () => {
    const place = join(directory, 'lock');
    await writeNote(place, 'asked', 'the text', now);
    expect(await readNote(place, 'asked')).toEqual({ text: 'the text', at: now });
    expect((await stat(join(place, 'asked'))).mode & 0o777).toBe(0o600);
    expect((await stat(place)).mode & 0o777).toBe(0o700);
  });

  it('has the time of its last writing, also with the same text', async () => {
    const later = new Date(now.getTime() + 60_000);
    for (const at of [now, later]) await writeNote(directory, 'asked', 'same', at);
    expect((await readNote(directory, 'asked'))?.at).toEqual(later);
  });

  it('that is a FIFO is none, and nobody waits for it', async () => {
    execFileSync('mkfifo', [join(directory, 'asked')]);
    expect(await readNote(directory, 'asked')).toBeUndefined();
  });

  it('that is absent or a directory is none, and stands in the way of nothing', async () => {
    await mkdir(join(directory, 'asked'));
    expect(await readNote(directory, 'asked')).toBeUndefined();
    await writeNote(directory, 'asked', 'text', now);
    await writeFile(join(directory, 'file'), '');
    await writeNote(join(directory, 'file'), 'asked', 'text', now);
    expect(await readNote(join(directory, 'file'), 'asked')).toBeUndefined();
    expect(await readFile(join(directory, 'file'), 'utf8')).toBe('');
  });
});
