import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { asRoot } from './as-root.ts';
import { removeTree } from './remove-tree.ts';

describe('removeTree', () => {
  it('removes a directory with the mounts that a killed daemon has left in it', async () => {
    const root = await mkdtemp(join(tmpdir(), 'remove-tree-'));
    const home = join(root, 'a daemon');
    const outside = join(root, 'outside');
    for (const directory of [join(home, 'data'), outside]) await mkdir(directory, { recursive: true });
    await writeFile(join(outside, 'kept'), '');
    const mount = (from: string, to: string): void => {
      execFileSync(...asRoot('mount', ['--bind', from, to]));
    };
    mount(join(home, 'data'), join(home, 'data'));
    await mkdir(join(home, 'data', 'volume'));
    mount(outside, join(home, 'data', 'volume'));
    await removeTree(home);
    expect(existsSync(home)).toBe(false);
    expect(existsSync(join(outside, 'kept'))).toBe(true);
    await removeTree(root);
    expect(existsSync(root)).toBe(false);
  });
});
