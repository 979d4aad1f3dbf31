import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { copyAttributes } from '../../lib/disk/attributes.ts';

const run = promisify(execFile);
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'attributes-'));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(directory, { recursive: true, force: true });
});

async function pairs(count: number): Promise<{ from: string; to: string }[]> {
  const all = Array.from({ length: count }, (_, at) => ({
    from: join(directory, `${at} old $HOME "it's" -x`),
    to: join(directory, `-${at}`),
  }));
  for (const [at, { from, to }] of all.entries()) {
    await writeFile(from, 'old');
    await run('setfattr', ['-n', 'user.note', '-v', String(at), from]);
    await chmod(from, 0o640);
    await writeFile(to, 'new', { mode: 0o600 });
  }
  return all;
}

const note = async (path: string): Promise<string> =>
  (await run('getfattr', ['--only-values', '--absolute-names', '-n', 'user.note', path])).stdout;

it('copies those of many files by few processes, whatever their names', async () => {
  const all = await pairs(12);
  const bin = join(directory, 'bin');
  await mkdir(bin);
  await symlink('/bin/cp', join(bin, 'cp'));
  vi.stubEnv('PATH', `${bin}${delimiter}${process.env['PATH']}`);
  await Promise.all(all.map(({ from, to }) => copyAttributes(from, to)));
  for (const [at, { to }] of all.entries()) {
    expect(await note(to)).toBe(String(at));
    expect((await stat(to)).mode & 0o777).toBe(0o640);
    expect((await stat(to)).size).toBe(3);
  }
});

it('says which of them failed and why, and does the others', async () => {
  const [first, second, third] = await pairs(3);
  if (first === undefined || second === undefined || third === undefined) throw new Error('three');
  await rm(second.from);
  const outcomes = await Promise.allSettled([first, second, third].map(({ from, to }) => copyAttributes(from, to)));
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(outcomes[1]).toMatchObject({
    reason: {
      code: 'WriteFailed',
      message: expect.stringMatching(
        /^Cannot keep access-control list.* of ".*": cp: cannot stat .*No such file/,
      ) as string,
    },
  });
  expect(await note(third.to)).toBe('2');
});

it('says so where there is no cp, or one that knows no attributes', async () => {
  const [{ from, to } = { from: '', to: '' }] = await pairs(1);
  vi.stubEnv('PATH', directory);
  await expect(copyAttributes(from, to)).rejects.toThrow(/cp: not found; owner and mode are kept$/);
  const refuse = 'echo "cp: unrecognized option: attributes-only" >&2; exit 1';
  await writeFile(join(directory, 'cp'), `#!/bin/sh\n${refuse}\n`, { mode: 0o755 });
  await expect(copyAttributes(from, to)).rejects.toThrow('cp: unrecognized option: attributes-only; owner and');
});
