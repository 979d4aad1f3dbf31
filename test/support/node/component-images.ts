// Images of the control plane's components, made of the binaries alone, in the format of `docker save`: kubeadm's
// static pods name them, and no registry is asked.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { constants, copyFile, link, mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { systemCode } from '../../../lib/errors.ts';
import { componentVersions, findBinaries } from '../cluster/binaries.ts';
import type { Progress } from '../cluster/progress.ts';
import { nodeRoot } from './image.ts';
import { removeUnused } from './program-image.ts';
import { cacheRoot } from '../cluster/go-build.ts';

const run = promisify(execFile);

/** As kubeadm 1.35 names the pause image in its preflight checks, and our containerd.toml. */
export const pauseImage = 'registry.k8s.io/pause:3.10.1';
const components = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;

interface Image {
  readonly reference: string;
  /** The program on this machine, and its path in the image. */
  readonly from: string;
  readonly to: string;
  readonly args?: readonly string[];
}

/** A directory with one archive for each image; made for exactly these binaries, once. */
export async function componentImages(progress: Progress): Promise<string> {
  const binaries = await findBinaries(components, { progress });
  const versions = await componentVersions();
  const facts = await Promise.all(
    [...binaries].map(async ([name, path]) => {
      const { size, mtimeMs } = await stat(path);
      return [name, path, size, mtimeMs];
    }),
  );
  const identity = createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 12);
  const directory = join(cacheRoot(), 'images', identity);
  if (existsSync(directory)) return directory;
  await mkdir(dirname(directory), { recursive: true });
  const scratch = await mkdtemp(join(dirname(directory), '.partial-'));
  try {
    await progress.during('making images of the control-plane binaries', async () => {
      for (const [name, from] of binaries) {
        const tag = name === 'etcd' ? `${versions.etcd.slice(1)}-0` : versions.kubernetes;
        const image = { reference: `registry.k8s.io/${name}:${tag}`, from, to: `usr/local/bin/${name}` };
        await writeImage(image, join(scratch, `${name}.tar`));
      }
      const root = await nodeRoot(progress);
      await run('tar', ['-C', scratch, '-xf', root, './usr/bin/catatonit']);
      const from = join(scratch, 'usr/bin/catatonit');
      await writeImage({ reference: pauseImage, from, to: 'pause', args: ['-P'] }, join(scratch, 'pause.tar'));
      await rm(join(scratch, 'usr'), { recursive: true });
    });
    await rename(scratch, directory).catch((err: unknown) => {
      if (!existsSync(directory)) throw err; // else another process was faster
    });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  return directory;
}

/** A directory with the archives of all images that nodes import at their first boot: those of components, and others. */
export async function imageDirectory(progress: Progress, others: readonly string[]): Promise<string> {
  const made = await componentImages(progress);
  const archives = (await readdir(made)).map((name) => join(made, name));
  const all = [...archives, ...others];
  const cache = join(cacheRoot(), 'node-images');
  const directory = join(cache, createHash('sha256').update(JSON.stringify(all)).digest('hex').slice(0, 12));
  await mkdir(directory, { recursive: true });
  for (const archive of all) {
    await link(archive, join(directory, basename(archive))).catch((err: unknown) => {
      if (systemCode(err) !== 'EEXIST') throw err;
    });
  }
  await removeUnused(cache, directory);
  return directory;
}

async function writeImage({ reference, from, to, args = [] }: Image, archive: string): Promise<void> {
  const work = `${archive}.work`;
  const file = join(work, 'layer', to);
  await mkdir(dirname(file), { recursive: true });
  await copyFile(from, file, constants.COPYFILE_FICLONE); // a link would change what another run's tar is reading
  await run('tar', ['-C', join(work, 'layer'), '--owner=0', '--group=0', '-cf', join(work, 'layer.tar'), '.']);
  const layer = createHash('sha256');
  await pipeline(createReadStream(join(work, 'layer.tar')), layer);
  const config = JSON.stringify({
    architecture: process.arch === 'x64' ? 'amd64' : process.arch,
    os: 'linux',
    config: { Entrypoint: [`/${to}`, ...args], Env: ['PATH=/usr/local/bin:/usr/bin:/bin'] },
    rootfs: { type: 'layers', diff_ids: [`sha256:${layer.digest('hex')}`] },
    history: [{ created_by: 'test' }],
  });
  const name = `${createHash('sha256').update(config).digest('hex')}.json`;
  await writeFile(join(work, name), config);
  const manifest = [{ Config: name, RepoTags: [reference], Layers: ['layer.tar'] }];
  await writeFile(join(work, 'manifest.json'), JSON.stringify(manifest));
  await run('tar', ['-C', work, '-cf', archive, 'manifest.json', name, 'layer.tar']);
  await rm(work, { recursive: true });
}
