// Finds the control-plane binaries, each in the first place that has it: KUBEBUILDER_ASSETS, the project's cache, Docker
// images, a build with Go. What the last two bring is kept in the cache, binary by binary, so that an interrupted run
// goes on where it stopped. Never answers "not here, skip the tests": a binary that nothing brings is an error that
// says what to install.
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withBuildLock } from './build-lock.ts';
import type { BinaryName } from './components.ts';
import { copyFromImage, reachableRegistry } from './images.ts';
import { buildWithGo, cacheRoot, findGo, goBuildFlags, goCommands } from './go-build.ts';
import { createProgress, type Progress } from './progress.ts';

export interface FindOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly progress?: Progress;
  /** Where to look for Go. */
  readonly go?: readonly string[];
}

const moduleDirectory = fileURLToPath(new URL('../../controlplane', import.meta.url));
const partial = '.partial-';

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** The directory for exactly these sources, built exactly this way, on this platform. */
async function cacheDirectory(env: NodeJS.ProcessEnv): Promise<string> {
  const hash = createHash('sha256');
  for (const file of ['go.mod', 'go.sum', 'tools.go']) hash.update(await readFile(join(moduleDirectory, file)));
  hash.update(JSON.stringify([goBuildFlags('v0.0.0'), process.platform, process.arch]));
  return join(cacheRoot(env), 'controlplane', hash.digest('hex').slice(0, 16));
}

/** Path of each binary. Reports on standard error what takes long. */
export async function findBinaries(
  names: readonly BinaryName[],
  { env = process.env, progress = createProgress(), go = goCommands }: FindOptions = {},
): Promise<ReadonlyMap<BinaryName, string>> {
  const found = new Map<BinaryName, string>();
  const assets = env['KUBEBUILDER_ASSETS'];
  const cache = await cacheDirectory(env);
  const missing: BinaryName[] = [];
  for (const name of new Set(names)) {
    const places = [...(assets ? [join(assets, name)] : []), join(cache, name)];
    const path = await firstExecutable(places);
    if (path === undefined) missing.push(name);
    else found.set(name, path);
  }
  if (missing.length === 0) return found;
  await mkdir(cache, { recursive: true });
  await withBuildLock(join(cache, 'lock'), progress, () => fillCache(cache, missing, { env, progress, go }));
  for (const name of missing) found.set(name, join(cache, name));
  return found;
}

async function firstExecutable(paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) if (await isExecutable(path)) return path;
  return undefined;
}

async function fillCache(cache: string, names: readonly BinaryName[], options: Required<FindOptions>): Promise<void> {
  const { env, progress } = options;
  // Their process was killed: we hold the lock.
  for (const entry of await readdir(cache)) {
    if (entry.startsWith(partial)) await rm(join(cache, entry), { recursive: true, force: true });
  }
  const scratch = await mkdtemp(join(cache, partial));
  try {
    const versions = await componentVersions();
    const registry = await reachableRegistry(versions.kubernetes, env);
    const go = await findGo(env, options.go);
    for (const name of names) {
      if (await isExecutable(join(cache, name))) continue; // another process brought it while we waited for the lock
      const file = join(scratch, name);
      const version = name === 'etcd' ? versions.etcd : versions.kubernetes;
      const brought =
        (registry && (await copyFromImage({ name, version, file, env, progress }))) ||
        (go !== undefined && (await buildWithGo({ go, name, version, moduleDirectory, file, env, progress })));
      if (!brought) throw new Error(nothingWorks(name, version, cache));
      // Atomic: a binary in the cache is a whole one, whatever ended this process.
      await rename(file, join(cache, name));
    }
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

export interface Versions {
  readonly kubernetes: string;
  readonly etcd: string;
}

/** As test/controlplane pins them. */
export async function componentVersions(): Promise<Versions> {
  const text = await readFile(join(moduleDirectory, 'go.mod'), 'utf8');
  const versionOf = (module: string): string => {
    const version = text.match(new RegExp(`^require ${module.replaceAll('.', '\\.')} (v\\S+)$`, 'm'))?.[1];
    if (version === undefined) throw new Error(`test/controlplane/go.mod has no line "require ${module} vX.Y.Z"`);
    return version;
  };
  return { kubernetes: versionOf('k8s.io/kubernetes'), etcd: versionOf('go.etcd.io/etcd/server/v3') };
}

function nothingWorks(name: BinaryName, version: string, cache: string): string {
  return [
    `Cannot find ${name} ${version}: it is not in KUBEBUILDER_ASSETS, not in the cache (${cache}),`,
    'Docker with a reachable registry did not bring it, and Go is not installed. Do one of these:',
    '  - install Go 1.25 or newer, and run the same command again: it builds what is missing, once;',
    '  - start a Docker daemon that can pull from registry.k8s.io (all but kubeadm, kubelet, sample-apiserver);',
    `  - set KUBEBUILDER_ASSETS to a directory that holds ${name}.`,
  ].join('\n');
}
