import { mkdirSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { wayTo } from '../../lib/fileobserver/hints.ts';
import { TemporaryDirectory } from './observation.ts';

test('wayTo() names every link that the kernel passes, and its shape outlives flips and writes', async () => {
  await using root = new TemporaryDirectory();
  const top = realpathSync(root.path);
  const file = join(top, 'link', 'secrets', 'tls.crt');
  const shapes: string[] = [];
  const shape = async (): Promise<string> => {
    const way = await wayTo([file]);
    shapes.push(way.shape);
    return way.shape;
  };
  await shape();
  mkdirSync(join(top, 'real', 'secrets', '..g1'), { recursive: true });
  symlinkSync('real', join(top, 'link'));
  await shape();
  symlinkSync('..g1', join(top, 'real/secrets/..data'));
  symlinkSync('..data/tls.crt', join(top, 'real/secrets/tls.crt'));
  const last = await shape();
  expect(new Set(shapes).size, 'each is another').toBe(3);
  const { links } = await wayTo([file]);
  expect(links).toEqual([join(top, 'link'), join(top, 'real/secrets/tls.crt'), join(top, 'real/secrets/..data')]);

  writeFileSync(join(top, 'real/secrets/..g1/tls.crt'), 'x');
  mkdirSync(join(top, 'real/secrets/..g2'));
  symlinkSync('..g2', join(top, 'tmp'));
  renameSync(join(top, 'tmp'), join(top, 'real/secrets/..data'));
  expect(await shape()).toBe(last);
});

test('wayTo() has another shape when a directory is another one, and the same when only the file is', async () => {
  await using root = new TemporaryDirectory();
  const file = join(root.path, 'd', 'f');
  const way = async (): Promise<string> => (await wayTo([file])).shape;
  mkdirSync(join(root.path, 'd'));
  const before = await way();
  writeFileSync(file, 'x');
  expect(await way()).toBe(before);
  mkdirSync(join(root.path, 'other'));
  rmSync(join(root.path, 'd'), { recursive: true });
  const gone = await way();
  expect(gone).not.toBe(before);
  renameSync(join(root.path, 'other'), join(root.path, 'd'));
  expect(await way()).not.toBe(before);
  expect(await way()).not.toBe(gone);
});

test('wayTo() ends on links that lead in a circle', async () => {
  await using root = new TemporaryDirectory();
  symlinkSync('b', join(root.path, 'a'));
  symlinkSync('a', join(root.path, 'b'));
  expect((await wayTo([join(root.path, 'a', 'f')])).links.length).toBe(2);
});
