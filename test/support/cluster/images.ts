// Takes control-plane binaries out of the images that the Kubernetes project publishes. Only when a Docker daemon and
// the registry answer at once: a network that is not there is not waited for. A tag is trusted as it is pulled.
import { execFile } from 'node:child_process';
import { chmod } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { BinaryName } from './components.ts';
import type { Progress } from './progress.ts';

const run = promisify(execFile);

/** Repository and path of the binary in it. kubeadm and kubelet have no image, sample-apiserver not one for each version. */
const images: Readonly<Partial<Record<BinaryName, readonly [repository: string, path: string]>>> = {
  etcd: ['registry.k8s.io/etcd', '/usr/local/bin/etcd'],
  'kube-apiserver': ['registry.k8s.io/kube-apiserver', '/usr/local/bin/kube-apiserver'],
  'kube-controller-manager': ['registry.k8s.io/kube-controller-manager', '/usr/local/bin/kube-controller-manager'],
  'kube-scheduler': ['registry.k8s.io/kube-scheduler', '/usr/local/bin/kube-scheduler'],
  kubectl: ['registry.k8s.io/kubectl', '/bin/kubectl'],
};

/** etcd's images count their own revisions: v3.6.5 is 3.6.5-0. */
const tag = (name: BinaryName, version: string): string => (name === 'etcd' ? `${version.slice(1)}-0` : version);

async function succeeds(args: readonly string[], env: NodeJS.ProcessEnv, timeout: number): Promise<boolean> {
  return run('docker', args, { env, timeout, killSignal: 'SIGKILL' }).then(
    () => true,
    () => false,
  );
}

/** Whether images can be had: a daemon that answers within a second, a registry within three. */
export async function reachableRegistry(version: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  if (process.platform !== 'linux') return false; // the binaries in the images are Linux ones
  if (!(await succeeds(['version', '--format', '{{.Server.Version}}'], env, 1000))) return false;
  return succeeds(['manifest', 'inspect', `registry.k8s.io/kube-apiserver:${version}`], env, 3000);
}

export interface ImageCopy {
  readonly name: BinaryName;
  readonly version: string;
  readonly file: string;
  readonly env: NodeJS.ProcessEnv;
  readonly progress: Progress;
}

/** Writes `file`; false when this binary cannot be had from an image. */
export async function copyFromImage({ name, version, file, env, progress }: ImageCopy): Promise<boolean> {
  const image = images[name];
  if (image === undefined) return false;
  const [repository, path] = image;
  const reference = `${repository}:${tag(name, version)}`;
  try {
    return await progress.during(`pulling ${reference}`, async () => {
      await run('docker', ['pull', '--quiet', reference], { env, timeout: 300_000 });
      const { stdout } = await run('docker', ['create', reference, 'unused'], { env });
      const container = stdout.trim();
      try {
        await run('docker', ['cp', `${container}:${path}`, file], { env });
      } finally {
        await succeeds(['rm', '--force', container], env, 10_000);
      }
      await chmod(file, 0o755);
      return true;
    });
  } catch (err) {
    progress.note(`${reference} did not bring ${name}: ${(err as Error).message.split('\n', 1)[0]}`);
    return false;
  }
}
