// Cluster API's own CRDs, out of its Go module, which test/cluster-api pins by version and sum. They are copied into the cache
// once, so that later runs need neither Go nor the module proxy.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { withBuildLock } from './build-lock.ts';
import { cacheRoot, findGo } from './go-build.ts';
import { createProgress } from './progress.ts';

const run = promisify(execFile);
const moduleDirectory = fileURLToPath(new URL('../../cluster-api', import.meta.url));

/** Below the root of the module. */
const files = {
  Machine: 'config/crd/bases/cluster.x-k8s.io_machines.yaml',
  KubeadmControlPlane: 'controlplane/kubeadm/config/crd/bases/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml',
} as const;

/** The CRD as Cluster API ships it, YAML. */
export async function clusterApiCrd(kind: keyof typeof files, env: NodeJS.ProcessEnv = process.env): Promise<string> {
  const hash = createHash('sha256');
  for (const name of ['go.mod', 'go.sum']) hash.update(await readFile(join(moduleDirectory, name)));
  const cache = join(cacheRoot(env), 'cluster-api', hash.digest('hex').slice(0, 16));
  const file = join(cache, `${kind}.yaml`);
  const isThere = (): Promise<boolean> =>
    access(file).then(
      () => true,
      () => false,
    );
  if (await isThere()) return readFile(file, 'utf8');
  await mkdir(cache, { recursive: true });
  const progress = createProgress();
  await withBuildLock(join(cache, 'lock'), progress, async () => {
    if (await isThere()) return;
    const content = await readFile(join(await download(env, progress), files[kind]));
    await writeFile(`${file}.partial`, content);
    await rename(`${file}.partial`, file);
  });
  return readFile(file, 'utf8');
}

/** Where the module lies. Go compares it with go.sum. */
async function download(env: NodeJS.ProcessEnv, progress: ReturnType<typeof createProgress>): Promise<string> {
  const go = await findGo(env);
  if (go === undefined) throw new Error('Cannot fetch the CRDs of Cluster API: install Go 1.25 or newer');
  const options = { cwd: moduleDirectory, env: { ...env, GOWORK: 'off' } };
  return progress.during('fetching the CRDs of Cluster API (a few seconds, once)', async () => {
    const { stdout } = await run(go, ['mod', 'download', '-json', 'sigs.k8s.io/cluster-api'], options);
    return (JSON.parse(stdout) as { readonly Dir: string }).Dir;
  });
}
