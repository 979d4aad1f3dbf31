// A Debian with these packages and what they depend on, as a tar archive: made by debootstrap and apt-get once, and kept in
// the cache.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { withBuildLock } from '../cluster/build-lock.ts';
import { cacheRoot } from '../cluster/go-build.ts';
import type { Progress } from '../cluster/progress.ts';
import { asRoot } from './as-root.ts';

const run = promisify(execFile);
const suite = 'bookworm';

export interface DebianRoot {
  readonly what: string;
  /** Of debootstrap, which knows no package that another one provides. */
  readonly packages: readonly string[];
  /** Of apt-get, in that system. */
  readonly more?: readonly string[];
}

export const rootIdentity = ({ packages, more = [] }: DebianRoot): string =>
  createHash('sha256')
    .update(JSON.stringify([suite, packages, process.arch, ...more]))
    .digest('hex')
    .slice(0, 12);

/** The path of the archive. */
export async function debianRoot(wanted: DebianRoot, progress: Progress): Promise<string> {
  const cache = join(cacheRoot(), 'node');
  const archive = join(cache, `root-${rootIdentity(wanted)}.tar`);
  if (existsSync(archive)) return archive;
  await mkdir(cache, { recursive: true });
  await withBuildLock(join(cache, 'lock'), progress, async () => {
    if (existsSync(archive)) return;
    await progress.during(`making ${wanted.what} with debootstrap (a minute or two, once)`, () =>
      make(wanted, archive),
    );
  });
  return archive;
}

async function make({ what, packages, more = [] }: DebianRoot, archive: string): Promise<void> {
  const scratch = await mkdtemp(join(cacheRoot(), 'node', '.partial-'));
  const root = join(scratch, 'root');
  // What only root uses is not on everybody's PATH.
  const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin:/sbin` };
  const options = { maxBuffer: 2 ** 26, timeout: 900_000, env };
  try {
    const include = packages.length > 0 ? [`--include=${packages.join(',')}`] : [];
    const args = ['--variant=minbase', ...include, suite, root];
    await run(...asRoot('debootstrap', args), options).catch((err: { stdout?: string; message: string }) => {
      const said = err.stdout?.trimEnd().split('\n').slice(-5).join('\n');
      throw new Error(
        `Cannot make ${what} with debootstrap: ${said || err.message}\nIt needs root, a Debian mirror, ` +
          'and on Debian and Ubuntu: apt-get install debootstrap',
        { cause: err },
      );
    });
    if (more.length > 0) {
      await run(...asRoot('cp', ['-L', '/etc/resolv.conf', join(root, 'etc/resolv.conf')]));
      const install = 'apt-get install -qq --no-install-recommends "$@" && rm -f /etc/resolv.conf';
      await inRoot(root, ['sh', '-ec', `apt-get update -qq; DEBIAN_FRONTEND=noninteractive ${install}`, 'sh', ...more]);
    }
    await run(...asRoot('rm', ['-rf', join(root, 'var/cache/apt'), join(root, 'var/lib/apt/lists')]));
    await run(...asRoot('tar', ['-C', root, '-cf', join(scratch, 'root.tar'), '.']), options);
    // Atomic: an archive in the cache is a whole one.
    await rename(join(scratch, 'root.tar'), archive);
  } finally {
    await run(...asRoot('rm', ['-rf', '--one-file-system', scratch]));
  }
}

/** Runs a command in that system, whose mounts end with it. The answer is what it said. */
export async function inRoot(
  root: string,
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const given = Object.entries({ PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', ...env });
  const mounts = 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; exec env -i "$@"';
  const apart = ['--mount', 'sh', '-ec', mounts, root, ...given.map(([name, value]) => `${name}=${value}`)];
  const options = { maxBuffer: 2 ** 26 };
  const { stdout, stderr } = await run(...asRoot('unshare', [...apart, 'chroot', root, ...command]), options);
  return stdout + stderr;
}
