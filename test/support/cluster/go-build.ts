// Builds control-plane binaries from the Go module test/controlplane, which pins them.
import { execFile } from 'node:child_process';
import { homedir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { BinaryName } from './components.ts';
import { guard } from './process.ts';
import type { Progress } from './progress.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../..', import.meta.url));

const packages: Readonly<Record<BinaryName, string>> = {
  etcd: 'go.etcd.io/etcd/server/v3',
  'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
  'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
  'kube-scheduler': 'k8s.io/kubernetes/cmd/kube-scheduler',
  kubeadm: 'k8s.io/kubernetes/cmd/kubeadm',
  kubectl: 'k8s.io/kubernetes/cmd/kubectl',
  kubelet: 'k8s.io/kubernetes/cmd/kubelet',
  'sample-apiserver': 'k8s.io/sample-apiserver',
};

/** On two cores, without Go's build cache. kube-apiserver pays for what all share. */
const duration: Readonly<Record<BinaryName, string>> = {
  etcd: 'half a minute',
  'kube-apiserver': '4 minutes',
  'kube-controller-manager': '1 minute',
  'kube-scheduler': '10 seconds',
  kubeadm: '20 seconds',
  kubectl: '20 seconds',
  kubelet: '30 seconds',
  'sample-apiserver': '10 seconds',
};

const setVersion = (name: string, value: string): string => `-X k8s.io/component-base/version.${name}=${value}`;

/** The components compare their own version, which only the linker can tell them: else they say v0.0.0-master. */
export function goBuildFlags(version: string): string[] {
  const [major = '', minor = ''] = version.slice(1).split('.');
  const names = [setVersion('gitVersion', version), setVersion('gitMajor', major), setVersion('gitMinor', minor)];
  return ['-trimpath', '-ldflags', ['-s', '-w', ...names].join(' ')];
}

/** Where everything lies that is made once. */
export function cacheRoot(env: NodeJS.ProcessEnv = process.env): string {
  return join(env['XDG_CACHE_HOME'] || join(env['HOME'] ?? homedir(), '.cache'), 'kube-cert-recovery');
}

/** On the PATH, where Go's own archive is unpacked, or where scripts/system-packages.sh has put it. */
export const goCommands: readonly string[] = ['go', '/usr/local/go/bin/go', `${cacheRoot()}/go/bin/go`];

/** From 1.21 on Go fetches the version that a module asks for. */
const isTooOld = (version: string): boolean => /\bgo1\.(?:\d|1\d|20)\b/.test(version);

/** The first of `commands` that answers and is new enough, or undefined. */
export async function findGo(env: NodeJS.ProcessEnv, commands = goCommands): Promise<string | undefined> {
  for (const go of commands) {
    const version = await run(go, ['version'], { env }).catch(() => undefined);
    if (version !== undefined && !isTooOld(version.stdout)) return go;
  }
  return undefined;
}

export interface GoBuild {
  readonly go: string;
  readonly name: BinaryName;
  readonly version: string;
  readonly moduleDirectory: string;
  readonly file: string;
  readonly env: NodeJS.ProcessEnv;
  readonly progress: Progress;
}

/** Writes `file`. Rejects with the compiler's words when it fails. */
export function buildWithGo({ name, version, ...rest }: GoBuild): Promise<true> {
  const what = `${name} ${version}`;
  return compile({
    ...rest,
    name,
    what,
    duration: duration[name],
    package: packages[name],
    flags: goBuildFlags(version),
  });
}

export interface Compilation extends Omit<GoBuild, 'name' | 'version'> {
  readonly name: string;
  /** Name and version. */
  readonly what: string;
  /** About how long it takes, in words. */
  readonly duration: string;
  /** Import path, or a directory of the module: `./readers`. */
  readonly package: string;
  readonly flags: readonly string[];
}

/** As buildWithGo, any package of the module. */
export async function compile({ go, moduleDirectory, file, env, progress, ...wanted }: Compilation): Promise<true> {
  const args = ['build', ...wanted.flags, '-o', file, wanted.package];
  const options = { cwd: moduleDirectory, env: { ...env, CGO_ENABLED: '0', GOWORK: 'off' }, maxBuffer: 2 ** 26 };
  await progress.during(`building ${wanted.what} with Go (about ${wanted.duration}, once)`, async () => {
    try {
      const build = run(go, args, options);
      const watchdog = guard(build.child);
      await build.finally(() => watchdog?.kill('SIGKILL'));
    } catch (err) {
      const { stderr = '', message } = err as { stderr?: string; message: string };
      const reason = stderr.trim() || message;
      throw new Error(`Cannot build ${wanted.name} with Go in ${relative(root, moduleDirectory)}: ${reason}`, {
        cause: err,
      });
    }
  });
  return true;
}
