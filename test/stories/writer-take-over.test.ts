import { readdirSync, readFileSync, statSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { Worker } from 'node:worker_threads';
import { realDisk } from '../../lib/disk/disk.ts';
import { publish } from '../../lib/publish/writer.ts';
import { giveBack } from '../../lib/publish/unpublish.ts';
import {
  entriesOf,
  generationAt,
  layoutProblems,
  newObjectPath,
  pairGeneration,
  what,
  writePlain,
} from '../publish/object-directory.ts';

vi.setConfig({ testTimeout: 60_000 });

const base = { what, mode: 0o600 as const };

// Opens both paths over and over. A name that is absent, and a file that is empty or cut short, are failures. So is an
// open that fails twice: once it may, when `..data` was followed at the very instant before that generation went.
const readerSource = `
  const { lstatSync, readFileSync } = require('node:fs');
  const { parentPort, workerData } = require('node:worker_threads');
  const flag = new Int32Array(workerData.stop);
  let reads = 0, failure;
  const read = (path) => {
    try { return readFileSync(path, 'utf8'); } catch { return readFileSync(path, 'utf8'); }
  };
  parentPort.postMessage('reading');
  while (Atomics.load(flag, 0) === 0) {
    for (const key of ['tls.crt', 'tls.key']) {
      const path = workerData.directory + '/' + key;
      try {
        lstatSync(path);
        const text = read(path);
        if (!text.endsWith('x\\n') || text.length < 5000) failure ??= key + ': ' + text.length + ' bytes';
        reads += 1;
      } catch (err) { failure ??= key + ': ' + err.syscall + ' ' + err.code; }
    }
  }
  parentPort.postMessage({ reads, failure });
`;

interface ReaderResult {
  readonly reads: number;
  readonly failure?: string;
}

/** Runs `action` while another thread reads the pair in a loop. */
async function whileReading(directory: string, action: () => Promise<void>): Promise<ReaderResult> {
  const stop = new SharedArrayBuffer(4);
  const worker = new Worker(readerSource, { eval: true, workerData: { directory, stop } });
  const next = (): Promise<unknown> => new Promise((resolve) => worker.once('message', resolve));
  await next();
  await action();
  const result = next();
  Atomics.store(new Int32Array(stop), 0, 1);
  return (await result) as ReaderResult;
}

test('publish() takes over plain files: no path is ever absent, empty or cut short', async () => {
  const directory = newObjectPath();
  writePlain(directory, entriesOf(0));
  const result = await whileReading(directory, async () => {
    for (let round = 1; round <= 60; round += 1) {
      await publish({ ...base, directory, entries: entriesOf(round) });
      expect(pairGeneration(directory)).toBe(String(round));
      await giveBack({ ...base, directory });
      expect(pairGeneration(directory)).toBe(String(round));
    }
  });
  expect(result.failure).toBeUndefined();
  expect(result.reads).toBeGreaterThan(100);
});

test('publish() takes over plain files that are what the API has', async () => {
  const directory = newObjectPath();
  writePlain(directory, entriesOf(1), 0o644);
  expect(await publish({ ...base, directory, entries: entriesOf(1) })).toBe('repaired');
  expect(layoutProblems(directory, ['tls.crt', 'tls.key'])).toEqual([]);
});

test('publish() takes over links of an earlier tool and leaves what they lead to', async () => {
  const directory = newObjectPath();
  const elsewhere = mkdtempSync(join(tmpdir(), 'elsewhere-'));
  writePlain(elsewhere, entriesOf(1));
  writePlain(directory, {});
  for (const key of ['tls.crt', 'tls.key']) symlinkSync(join(elsewhere, key), join(directory, key));
  expect(await publish({ ...base, directory, entries: entriesOf(2) })).toBe('written');
  expect(layoutProblems(directory, ['tls.crt', 'tls.key'])).toEqual([]);
  expect(pairGeneration(elsewhere)).toBe('1');
});

test('publish() never shows a new certificate beside a plain old key', async () => {
  const directory = newObjectPath();
  await publish({ ...base, directory, entries: entriesOf(1) });
  const old = readFileSync(join(directory, 'tls.key'));
  unlinkSync(join(directory, 'tls.key'));
  writeFileSync(join(directory, 'tls.key'), old, { mode: 0o600 });
  const seen = new Set<string>();
  const rename: typeof realDisk.rename = async (from, to) => {
    await realDisk.rename(from, to);
    seen.add(`${generationAt(directory, 'tls.crt')}/${generationAt(directory, 'tls.key')}`);
  };
  await publish({ ...base, directory, entries: entriesOf(2), disk: { ...realDisk, rename } });
  expect([...seen]).toEqual(['1/1', '2/2']);
});

test('giveBack() leaves plain files of the same bytes and nothing hidden', async () => {
  const directory = newObjectPath();
  await publish({ ...base, directory, entries: entriesOf(1) });
  await giveBack({ ...base, directory });
  expect(readdirSync(directory)).toEqual(['tls.crt', 'tls.key']);
  expect(pairGeneration(directory)).toBe('1');
  expect(statSync(join(directory, 'tls.key')).mode & 0o7777).toBe(0o600);
  await giveBack({ ...base, directory });
  expect(pairGeneration(directory)).toBe('1');
});
