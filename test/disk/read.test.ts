import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { realDisk } from '../../lib/disk/disk.ts';
import { readRegularFile, replaceFile } from '../../lib/disk/files.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';

const root = mkdtempSync(join(tmpdir(), 'read-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

it('reads a file, also through a link', async () => {
  writeFileSync(join(root, 'file'), 'text');
  symlinkSync('file', join(root, 'link'));
  expect((await readRegularFile(realDisk, join(root, 'link'))).toString()).toBe('text');
});

it('does not wait for a FIFO', async () => {
  const path = join(root, 'fifo');
  execFileSync('mkfifo', [path]);
  await expect(readRegularFile(realDisk, path)).rejects.toMatchObject({ code: 'ENOTREG', path });
});

it('names the directory that lies where a file is wanted', async () => {
  await expect(readRegularFile(realDisk, root)).rejects.toMatchObject({ code: 'EISDIR', path: root });
});

it('does not wait for a FIFO that stands where a file is to be written', async () => {
  const path = join(root, 'fifo-to-replace');
  execFileSync('mkfifo', [path]);
  const replaced = replaceFile({ path, content: 'text', mode: 0o600, what: 'file' });
  await expect(replaced).rejects.toMatchObject({ code: 'WriteFailed', message: expect.stringContaining(path) });
});

it('does not take a device for a file', async () => {
  symlinkSync('/dev/null', join(root, 'null'));
  symlinkSync('/dev/zero', join(root, 'zero'));
  await expect(readRegularFile(realDisk, join(root, 'null'))).rejects.toMatchObject({ code: 'ENOTREG' });
  await expect(readRegularFile(realDisk, join(root, 'zero'))).rejects.toMatchObject({ code: 'ENOTREG' });
});

it('refuses what would fill the memory', async () => {
  const path = join(root, 'huge');
  writeFileSync(path, '');
  truncateSync(path, 4 * 1024 * 1024 + 1);
  await expect(readRegularFile(realDisk, path)).rejects.toMatchObject({ code: 'EFBIG' });
});

it('leaves a directory to the system', async () => {
  await expect(readRegularFile(realDisk, root)).rejects.toMatchObject({ code: 'EISDIR' });
});

it('takes a link to a device for something of others: nothing replaces it', async () => {
  symlinkSync('/dev/full', join(root, 'tls.key'));
  const location = { kind: 'pemPair', certFile: join(root, 'tls.crt'), keyFile: join(root, 'tls.key') } as const;
  expect(await createDiskStore().read(location, AbortSignal.timeout(5000))).toMatchObject({
    isOtherDocument: true,
    foreign: expect.stringContaining('is a device, a FIFO or a socket where a file is wanted') as string,
  });
});
