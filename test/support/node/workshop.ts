// Everything that nodes are made of, prepared once for a test run or a benchmark: Docker, the disk, the component
// images, the binaries, the built program. Plain data, so that it can be handed to the processes that run tests.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { getContainerRuntimeClient } from 'testcontainers';
import { findBinaries } from '../cluster/binaries.ts';
import { componentNames, nodeBinaryNames } from '../cluster/components.ts';
import { createProgress, type Progress } from '../cluster/progress.ts';
import { asRoot } from './as-root.ts';
import { imageDirectory } from './component-images.ts';
import { findDocker } from './docker.ts';
import { ensureNodeImage } from './image.ts';
import { loadProgramImage, programImage } from './program-image.ts';
import { beginTestRun, isRunAlive, runLabel } from './test-run.ts';

export interface Workshop {
  readonly dockerHost: string;
  /** Directory of image archives; the program's own (programReference) is one of them. */
  readonly images: string;
  /** A copy of dist/, so that a build during the run changes nothing. */
  readonly program: string;
  /** Path of Node. */
  readonly node: string;
  readonly binaries: Readonly<Record<string, string>>;
  /** Directory of the files that nodes boot with. */
  readonly scripts: string;
}

export interface OpenWorkshop extends AsyncDisposable {
  readonly workshop: Workshop;
}

const projectRoot = fileURLToPath(new URL('../../..', import.meta.url));

const inotifyInstances = '/proc/sys/fs/inotify/max_user_instances';

/**
 * Raises how many inotify instances a user may have, where that is allowed: all nodes are one user's, each takes some twenty
 * of the usual 128, and containerd without one serves no kubelet.
 */
async function allowInstances(wanted: number): Promise<void> {
  if (Number(await readFile(inotifyInstances, 'utf8')) >= wanted) return;
  const raise = asRoot('sh', ['-c', `echo ${wanted} > ${inotifyInstances}`]);
  await promisify(execFile)(...raise).catch(() => undefined);
}

export async function openWorkshop(progress: Progress = createProgress()): Promise<OpenWorkshop> {
  const binaries = await findBinaries([...componentNames, ...nodeBinaryNames], { progress });
  await allowInstances(1024);
  const testRun = await beginTestRun();
  const docker = await findDocker(progress, testRun);
  const previousHost = process.env['DOCKER_HOST'];
  process.env['DOCKER_HOST'] = docker.host;
  process.env['TESTCONTAINERS_RYUK_DISABLED'] = 'true';
  const program = await mkdtemp(join(tmpdir(), 'program-'));
  const close = async (): Promise<void> => {
    try {
      await removeNodes((name) => name === testRun.name);
    } finally {
      await docker.stop();
      await testRun[Symbol.asyncDispose]();
      await rm(program, { recursive: true, force: true });
      if (previousHost === undefined) delete process.env['DOCKER_HOST'];
      else process.env['DOCKER_HOST'] = previousHost;
    }
  };
  try {
    await removeNodes(async (name) => !(await isRunAlive(name)));
    await ensureNodeImage(progress);
    const archive = await programImage(progress);
    await loadProgramImage(archive);
    const images = await imageDirectory(progress, [archive]);
    await cp(join(projectRoot, 'dist'), program, { recursive: true }).catch((err: unknown) => {
      throw new Error('Cannot put the program on nodes: it is not built. Run "npm run build".', { cause: err });
    });
    const workshop: Workshop = {
      dockerHost: docker.host,
      images,
      program,
      node: await realpath(join(projectRoot, 'node_modules/.bin/node')),
      // The extension server is no part of a node, but of what one of them runs.
      binaries: Object.fromEntries(
        [...nodeBinaryNames, 'sample-apiserver' as const].map((name) => [name, binaries.get(name) ?? '']),
      ),
      scripts: fileURLToPath(new URL('.', import.meta.url)),
    };
    return { workshop, [Symbol.asyncDispose]: close };
  } catch (err) {
    await close();
    throw err;
  }
}

/** Containers, their volumes and networks of runs that `which` names: of this one at its end, of killed ones before. */
async function removeNodes(which: (testRun: string) => boolean | Promise<boolean>): Promise<void> {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  const filters = { label: [runLabel] };
  const ours = ({ Labels }: { readonly Labels?: Readonly<Record<string, string>> | undefined }) =>
    which(Labels?.[runLabel] ?? '');
  for (const found of await dockerode.listContainers({ all: true, filters })) {
    if (await ours(found)) await dockerode.getContainer(found.Id).remove({ force: true, v: true });
  }
  for (const found of await dockerode.listNetworks({ filters })) {
    if (await ours(found)) await dockerode.getNetwork(found.Id).remove();
  }
}
