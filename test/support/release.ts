// The packages of this version, built once for all tests that install them, and kept in the cache for a day.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { stampOf } from '../../scripts/build-stamp.ts';
import { withBuildLock } from './cluster/build-lock.ts';
import { cacheRoot } from './cluster/go-build.ts';
import type { Progress } from './cluster/progress.ts';
import { removeUnused } from './node/program-image.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const sources = ['cmd', 'lib', 'scripts', 'LICENSE', 'package.json', 'package-lock.json'];

/** `npm run release` with these flags, from another directory than the project's. */
export async function buildRelease(...flags: readonly string[]): Promise<void> {
  await run(process.execPath, [join(root, 'scripts/release.ts'), ...flags], { cwd: tmpdir() });
}

/** Directory of the packages. Nothing may be written there. */
export async function releasedPackages(progress: Progress): Promise<string> {
  const same = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner'];
  const options = { encoding: 'buffer', maxBuffer: 2 ** 28 } as const;
  const { stdout } = await run('tar', ['-C', root, ...same, '-cf', '-', ...sources], options);
  const { commit } = stampOf(root, process.env, new Date());
  const identity = createHash('sha256').update(stdout).update(commit).digest('hex').slice(0, 12);
  const cache = join(cacheRoot(), 'release');
  const directory = join(cache, identity);
  await mkdir(cache, { recursive: true });
  await withBuildLock(join(cache, 'lock'), progress, async () => {
    if (existsSync(directory)) return;
    const partial = `${directory}.partial`;
    await rm(partial, { recursive: true, force: true });
    await progress.during('building the packages', () => buildRelease(`--out=${partial}`));
    await rename(partial, directory);
  });
  await removeUnused(cache, directory);
  return directory;
}
