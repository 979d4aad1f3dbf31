// The image of the program, built from the Containerfile as anybody builds it, where no registry can be reached: the base
// of the build is the disk of a node with the packages and the Node of this checkout. The build has no network.
import { execFile, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { getContainerRuntimeClient } from 'testcontainers';
import { withBuildLock } from '../cluster/build-lock.ts';
import type { Progress } from '../cluster/progress.ts';
import { ensureNodeImage, nodeImage } from './image.ts';
import { cacheRoot } from '../cluster/go-build.ts';
import { runLabels } from './test-run.ts';

const run = promisify(execFile);
const projectRoot = fileURLToPath(new URL('../../..', import.meta.url));
const keptForMs = 24 * 3_600_000;

/** No registry has this name: a container runtime without the image says so at once. */
export const programReference = 'localhost/kube-cert-recovery:test';

const unique = randomBytes(6).toString('hex');
const base = `kube-cert-recovery-build-base:${unique}`;
const stage = `kube-cert-recovery-build:${unique}`;

/** The archive of the image, in the format of `docker save`; built when these sources have not been built before. */
export async function programImage(progress: Progress): Promise<string> {
  const context = await buildContext();
  const identity = createHash('sha256').update(context).update(nodeImage).digest('hex').slice(0, 12);
  const cache = join(cacheRoot(), 'program');
  const archive = join(cache, `${identity}.tar`);
  await mkdir(cache, { recursive: true });
  await withBuildLock(join(cache, 'lock'), progress, async () => {
    if (existsSync(archive)) return;
    await ensureNodeImage(progress);
    await progress.during('building the image of the program', () => make(context, archive));
  });
  await removeUnused(cache, archive);
  return archive;
}

/** Brings the image into the Docker daemon. */
export async function loadProgramImage(archive: string): Promise<void> {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  await followed(await dockerode.loadImage(createReadStream(archive)));
}

/** Removes from a directory of the cache what no run has used for a day, but not `used`. */
export async function removeUnused(directory: string, used: string): Promise<void> {
  const now = new Date();
  await utimes(used, now, now);
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: now.getTime() })); // gone: another run was faster
    if (now.getTime() - mtimeMs > keptForMs) await rm(path, { recursive: true, force: true });
  }
}

/** As a tar archive that is the same for the same files. What a build is given .dockerignore lists. */
async function buildContext(): Promise<Buffer> {
  const ignore = await readFile(join(projectRoot, '.dockerignore'), 'utf8');
  const given = [...ignore.matchAll(/^!(.+)$/gm)].map(([, path = '']) => path);
  const always = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner'];
  const args = ['-C', projectRoot, ...always, '-cf', '-', 'Containerfile', '.dockerignore', ...given];
  return (await run('tar', args, { encoding: 'buffer', maxBuffer: 2 ** 28 })).stdout;
}

async function make(context: Buffer, archive: string): Promise<void> {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  const partial = `${archive}.partial`;
  try {
    await makeBase();
    const options = {
      dockerfile: 'Containerfile',
      networkmode: 'none',
      buildargs: { BUILD_IMAGE: base, NODE: '/src/node_modules/.bin/node' },
    };
    // The stage has a name of its own, so that it can be removed.
    await build(context, { ...options, target: 'build', t: stage });
    await build(context, { ...options, t: programReference });
    await pipeline(await dockerode.getImage(programReference).get(), createWriteStream(partial));
    await rename(partial, archive);
  } finally {
    await rm(partial, { force: true });
    for (const image of [stage, base]) {
      const removed = dockerode.getImage(image).remove();
      await removed.catch(() => undefined); // never made
    }
  }
}

type BuildOptions = Readonly<Record<string, string | object>> & { readonly t: string };

async function build(context: Buffer, options: BuildOptions): Promise<void> {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  await followed(await dockerode.buildImage(Readable.from([context]), { ...options, forcerm: true }));
}

/** The disk of a node, with what the build would otherwise download. */
async function makeBase(): Promise<void> {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  const scratch = await mkdtemp(join(cacheRoot(), 'program', '.partial-'));
  const container = await dockerode.createContainer({
    Image: nodeImage,
    Cmd: ['true'],
    Labels: runLabels(),
  });
  const put = async (directory: string, ...args: readonly string[]): Promise<void> => {
    const all = ['-C', directory, '--owner=0', '--group=0', '--transform=s,^,src/,S', '-cf', '-', ...args];
    const tar = spawn('tar', all, { stdio: ['ignore', 'pipe', 'inherit'] });
    await container.putArchive(tar.stdout, { path: '/' });
  };
  try {
    const node = await realpath(join(projectRoot, 'node_modules/.bin/node'));
    const path = relative(projectRoot, node);
    const others = ['include', 'share'].map((name) => join(path, '../..', name));
    // Many files take long, and what no bundler reads are most of them.
    const unread = [path, ...others, '*.d.ts', '*.map'].map((one) => `--exclude=${one}`);
    await put(projectRoot, ...unread, ...(await buildPackages()));
    await mkdir(join(scratch, dirname(path)), { recursive: true });
    // The disk has no strip.
    await run('strip', ['-o', join(scratch, path), node]).catch(() => copyFile(node, join(scratch, path)));
    await put(scratch, path);
    const [repo, tag] = base.split(':') as [string, string];
    await container.commit({ repo, tag });
  } finally {
    await container.remove({ force: true, v: true });
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Paths of the packages that are bundled, and of what bundles them: half of all. */
async function buildPackages(): Promise<string[]> {
  interface Lock {
    readonly packages: Readonly<Record<string, { readonly dev?: boolean }>>;
  }
  const { packages } = JSON.parse(await readFile(join(projectRoot, 'package-lock.json'), 'utf8')) as Lock;
  const wanted = Object.entries(packages).flatMap(([path, { dev = false }]) =>
    path !== '' && (!dev || /^node_modules\/@?esbuild\b/.test(path)) ? [path] : [],
  );
  const installed = wanted.filter((path) => existsSync(join(projectRoot, path)));
  // A package may hold others.
  const outer = installed.filter((path) => path.lastIndexOf('node_modules/') === 0);
  return ['node_modules/.bin', 'node_modules/.package-lock.json', ...outer];
}

interface Said {
  readonly stream?: string;
  readonly error?: string;
}

/** Resolves when the daemon has done it; what it said is in the error. */
async function followed(answer: NodeJS.ReadableStream): Promise<void> {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  const said = await new Promise<Said[]>((resolve, reject) => {
    dockerode.modem.followProgress(answer, (err: Error | null, output: Said[]) =>
      err === null ? resolve(output) : reject(err),
    );
  });
  if (!said.some(({ error }) => error !== undefined)) return;
  const text = said.map(({ stream, error }) => stream ?? error ?? '').join('');
  throw new Error(`Docker: ${text.trimEnd().split('\n').slice(-30).join('\n')}`);
}
