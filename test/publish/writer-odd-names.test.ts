// What may lie in a directory, or be the name of a key, against all expectation.
import { execFileSync } from 'node:child_process';
import * as promises from 'node:fs/promises';
import { mkdirSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { realDisk } from '../../lib/disk/disk.ts';
import { readPublished } from '../../lib/publish/scan.ts';
import { publish } from '../../lib/publish/writer.ts';
import { entriesOf, layoutProblems, newObjectPath, pairGeneration, what } from './object-directory.ts';

const base = { what, mode: 0o600 as const };

test('publish() replaces a FIFO, and does not wait for its content', async () => {
  const directory = newObjectPath();
  mkdirSync(directory, { recursive: true });
  execFileSync('mkfifo', [join(directory, 'tls.key'), join(directory, 'other')]);
  expect(await readPublished({ directory, what })).toBeUndefined();
  expect(await publish({ ...base, directory, entries: entriesOf(1) })).toBe('written');
  expect(layoutProblems(directory, ['tls.crt', 'tls.key'])).toEqual([]);
}, 10_000);

test.each(['constructor', '__proto__'])('publish() writes and removes the key "%s"', async (key) => {
  const directory = newObjectPath();
  await publish({ ...base, directory, entries: entriesOf(1, ['a', key]) });
  expect(layoutProblems(directory, ['a', key])).toEqual([]);
  expect(Object.keys((await readPublished({ directory, what })) ?? {}).toSorted()).toEqual(['a', key].toSorted());
  await publish({ ...base, directory, entries: entriesOf(2, ['a']) });
  expect(layoutProblems(directory, ['a'])).toEqual([]);
});

test('publish() keeps a leftover that another process has put in use meanwhile', async () => {
  const directory = newObjectPath();
  await publish({ ...base, directory, entries: entriesOf(1) });
  const first = readlinkSync(join(directory, '..data'));
  let flips = 0;
  const rename: typeof promises.rename = async (from, to) => {
    await promises.rename(from, to);
    if (!String(to).endsWith('..data') || (flips += 1) > 1) return;
    await promises.symlink(first, join(directory, '..back'));
    await promises.rename(join(directory, '..back'), to);
  };
  await publish({ ...base, directory, entries: entriesOf(2), disk: { ...realDisk, rename } });
  expect(readdirSync(directory)).toContain(first);
  expect(pairGeneration(directory)).toBe('1');
});
