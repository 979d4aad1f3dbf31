// The disk of a node: a small Debian with what a kubelet needs around it, made by debootstrap once, kept in the cache,
// and imported into Docker when that does not have it.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { getContainerRuntimeClient, ImageName } from 'testcontainers';
import { withBuildLock } from '../cluster/build-lock.ts';
import type { Progress } from '../cluster/progress.ts';
import { asRoot } from './as-root.ts';
import { cacheRoot } from '../cluster/go-build.ts';

const run = promisify(execFile);

const suite = 'bookworm';
const packages = [
  'containerd',
  'runc',
  'containernetworking-plugins',
  'iptables',
  'conntrack',
  'iproute2',
  'mount',
  'procps',
  // Second opinions and faults.
  'openssl',
  'strace',
  // A static program that waits and reaps: the pause container of pods, and the pod of the tests.
  'catatonit',
  // Node is linked with it.
  'libstdc++6',
  // One test boots it as PID 1.
  'systemd',
  'systemd-sysv',
  'dbus',
];

const identity = createHash('sha256')
  .update(JSON.stringify([suite, packages, process.arch]))
  .digest('hex')
  .slice(0, 12);

export const nodeImage = `kube-cert-recovery-node:${identity}`;

/** The tar archive of the disk; made when it is not in the cache. */
export async function nodeRoot(progress: Progress): Promise<string> {
  const cache = join(cacheRoot(), 'node');
  const archive = join(cache, `root-${identity}.tar`);
  if (existsSync(archive)) return archive;
  await mkdir(cache, { recursive: true });
  await withBuildLock(join(cache, 'lock'), progress, async () => {
    if (existsSync(archive)) return;
    await progress.during('making the disk of a node with debootstrap (about a minute, once)', () => make(archive));
  });
  return archive;
}

async function make(archive: string): Promise<void> {
  const scratch = await mkdtemp(join(cacheRoot(), 'node', '.partial-'));
  const root = join(scratch, 'root');
  // What only root uses is not on everybody's PATH.
  const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin:/sbin` };
  const options = { maxBuffer: 2 ** 26, timeout: 600_000, env };
  try {
    const args = ['--variant=minbase', `--include=${packages.join(',')}`, suite, root];
    await run(...asRoot('debootstrap', args), options).catch((err: { stdout?: string; message: string }) => {
      const said = err.stdout?.trimEnd().split('\n').slice(-5).join('\n');
      throw new Error(
        `Cannot make the disk of a node with debootstrap: ${said || err.message}\nIt needs root, a Debian mirror, ` +
          'and on Debian and Ubuntu: apt-get install debootstrap',
        { cause: err },
      );
    });
    await run(...asRoot('rm', ['-rf', join(root, 'var/cache/apt'), join(root, 'var/lib/apt/lists')]));
    await run(...asRoot('tar', ['-C', root, '-cf', join(scratch, 'root.tar'), '.']), options);
    // Atomic: an archive in the cache is a whole one.
    await rename(join(scratch, 'root.tar'), archive);
  } finally {
    await run(...asRoot('rm', ['-rf', '--one-file-system', scratch]));
  }
}

/** Brings the image into the Docker daemon. */
export async function ensureNodeImage(progress: Progress): Promise<void> {
  const client = await getContainerRuntimeClient();
  if (await client.image.exists(ImageName.fromString(nodeImage))) return;
  const archive = await nodeRoot(progress);
  await progress.during('importing the disk of a node into Docker', async () => {
    const [repo, tag] = nodeImage.split(':') as [string, string];
    const { dockerode } = client.container;
    const answer = await dockerode.importImage(createReadStream(archive), { repo, tag });
    await new Promise((resolve, reject) => {
      answer.on('end', resolve).on('error', reject).resume();
    });
  });
}
