// The libraries that Node is linked with, for the image: packages of Debian 12, which libraries.json names with their SHA-256.
// apt fetches them once, for either architecture and with a state of its own; later releases need no network.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { cacheRoot } from '../../test/support/cluster/go-build.ts';
import type { Architecture } from './architectures.ts';

const run = promisify(execFile);

export type Locked = Readonly<Record<string, readonly [version: string, sum: string]>>;

/** Name of Debian's directories, and the loader where the kernel looks for it. */
const machines = {
  amd64: { triplet: 'x86_64-linux-gnu', loader: 'lib64/ld-linux-x86-64.so.2' },
  arm64: { triplet: 'aarch64-linux-gnu', loader: 'lib/ld-linux-aarch64.so.1' },
} as const;

/** Libraries of Node by `readelf --dynamic`; a test compares them. */
export const libraries = ['libc.so.6', 'libm.so.6', 'libdl.so.2', 'libpthread.so.0', 'libgcc_s.so.1', 'libstdc++.so.6'];

/** Writes the libraries of an architecture into a root directory, and their licences. */
export async function writeLibraries(architecture: Architecture, root: string): Promise<void> {
  const { triplet, loader } = machines[architecture];
  const scratch = await mkdtemp(join(dirname(root), '.libraries-'));
  try {
    for (const deb of await lockedDebs(architecture)) await run('dpkg-deb', ['-x', deb, scratch]);
    const directory = join(root, 'usr/lib', triplet);
    await mkdir(directory, { recursive: true });
    for (const name of libraries) {
      const [from = ''] = ['lib', 'usr/lib']
        .map((at) => join(scratch, at, triplet, name))
        .filter((at) => existsSync(at));
      await copyFile(from, join(directory, name));
    }
    await mkdir(dirname(join(root, loader)), { recursive: true });
    await copyFile(join(scratch, 'lib', triplet, basename(loader)), join(root, loader));
    await mkdir(join(root, 'licenses'), { recursive: true });
    for (const name of ['libc6', 'gcc-12-base'])
      await copyFile(join(scratch, 'usr/share/doc', name, 'copyright'), join(root, 'licenses', name));
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** The packages by architecture and name. */
export async function lockedLibraries(): Promise<Readonly<Record<Architecture, Locked>>> {
  const file = new URL('libraries.json', import.meta.url);
  return JSON.parse(await readFile(file, 'utf8')) as Readonly<Record<Architecture, Locked>>;
}

async function lockedDebs(architecture: Architecture): Promise<readonly string[]> {
  const locked = Object.entries((await lockedLibraries())[architecture]);
  const key = createHash('sha256').update(JSON.stringify(locked)).digest('hex').slice(0, 12);
  const kept = join(cacheRoot(), `libraries-${architecture}-${key}`);
  if (!existsSync(kept)) await fetchDebs(architecture, locked, kept);
  return (await readdir(kept)).map((name) => join(kept, name));
}

async function fetchDebs(
  architecture: Architecture,
  locked: readonly (readonly [string, readonly [string, string]])[],
  kept: string,
): Promise<void> {
  await mkdir(dirname(kept), { recursive: true });
  const scratch = await mkdtemp(`${kept}.partial-`);
  try {
    const [state, debs] = [join(scratch, 'state'), join(scratch, 'debs')];
    for (const directory of ['lists/partial', 'archives/partial'])
      await mkdir(join(state, directory), { recursive: true });
    await mkdir(debs);
    await writeFile(join(state, 'status'), '');
    const settings = [
      `Dir::State=${state}`,
      `Dir::State::status=${state}/status`,
      `Dir::Cache=${state}`,
      `APT::Architecture=${architecture}`,
      `APT::Architectures=${architecture}`,
      'Acquire::Languages=none',
      ...(process.getuid?.() === 0 ? ['APT::Sandbox::User=root'] : []),
    ].flatMap((setting) => ['-o', setting]);
    const names = locked.map(([name, [version]]) => `${name}=${version}`);
    await run('apt-get', [...settings, 'update', '-qq'], { cwd: debs });
    await run('apt-get', [...settings, 'download', '-qq', ...names], { cwd: debs }).catch((cause: unknown) => {
      const wanted =
        'it needs the package sources of Debian 12; a version that they no longer have is replaced in scripts/release/libraries.json';
      throw new Error(`Cannot make packages: apt-get has not fetched ${names.join(', ')}; ${wanted}`, { cause });
    });
    const sums = await Promise.all(
      (await readdir(debs)).map(async (name) =>
        createHash('sha256')
          .update(await readFile(join(debs, name)))
          .digest('hex'),
      ),
    );
    const wanted = locked.map(([, [, sum]]) => sum);
    if (sums.toSorted().join() !== wanted.toSorted().join())
      throw new Error(`Cannot make packages: ${names.join(', ')} of ${architecture} are not those of libraries.json`);
    await rename(debs, kept).catch((err: NodeJS.ErrnoException) => {
      if (err.code !== 'ENOTEMPTY') throw err; // another run has fetched the same meanwhile
    });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
