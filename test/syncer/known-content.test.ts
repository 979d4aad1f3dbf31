import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { realDisk } from '../../lib/disk/disk.ts';
import { scan } from '../../lib/publish/scan.ts';
import { publish } from '../../lib/publish/writer.ts';
import { type ObjectContent, recall, remember } from '../../lib/syncer/known-content.ts';

let directory: string;
beforeEach(() => {
  directory = join(mkdtempSync(join(tmpdir(), 'known-')), 'secrets', 'x');
});
afterEach(() => rmSync(join(directory, '../..'), { recursive: true }));

const contentOf = (bytes: number): ObjectContent => {
  const entries = { a: Buffer.alloc(bytes, 'a'), b: Buffer.from('b') };
  return { version: '7', entries, keys: Object.keys(entries) };
};
const recalled = async (content: ObjectContent) => recall(remember(content), await scan(realDisk, directory));

it('what is small is known whatever lies on disk', async () => {
  expect(await recalled(contentOf(1000))).toEqual(contentOf(1000));
});

it('what is large is known as long as the files have it, and its bytes are not kept', async () => {
  const content = contentOf(1_000_000);
  expect(remember(content).content).toBeUndefined();
  expect(await recalled(content)).toBeUndefined();
  await publish({ directory, what: 'Secret "n/x"', entries: content.entries, mode: 0o600 });
  expect(await recalled(content)).toEqual(content);
  writeFileSync(join(directory, '..data', 'b'), 'c');
  expect(await recalled(content)).toBeUndefined();
});

it('what could not be read wholly is read again', async () => {
  const content = { ...contentOf(1_000_000), problem: 'its entry "c" is a number, wanted text' };
  await publish({ directory, what: 'Secret "n/x"', entries: content.entries, mode: 0o600 });
  expect(await recalled(content)).toBeUndefined();
});
