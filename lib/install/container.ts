// What our container needs of this machine: its image, and a label where SELinux is on.
//
// The image is asked of crictl where that is installed. A pod of ours
// without its image takes kube-apiserver away until the former manifest is back, so it is looked for before anything is
// written, and pulled as the kubelet would.
import { execFile } from 'node:child_process';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RecoveryError } from '../errors.ts';

const lookMs = 10_000;
const pullMs = 180_000;

interface Answer {
  readonly ok: boolean;
  readonly output: string;
}

function crictl(args: readonly string[], timeout: number, signal: AbortSignal): Promise<Answer> {
  return new Promise((resolve) => {
    execFile('crictl', args, { timeout, signal, maxBuffer: 16 * 1024 * 1024 }, (err, _out, output) =>
      resolve({ ok: err === null, output: output.trim() }),
    );
  });
}

interface RequireImage {
  readonly image: string;
  readonly dryRun: boolean;
  readonly print: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Pulls an image that is absent; with `dryRun` it only says so. Throws ReadFailed when it cannot be had. */
export async function requireImage({ image, dryRun, print, signal }: RequireImage): Promise<void> {
  const found = await crictl(['inspecti', '--output=json', image], lookMs, signal);
  // cmd/crictl/image.go of kubernetes-sigs/cri-tools; whatever else it says is no word about the image.
  if (found.ok || !found.output.includes('no such image')) return;
  if (dryRun)
    return print(`# The container runtime of this machine does not have image "${image}": it would be pulled first`);
  print(`The container runtime of this machine does not have image "${image}": pulling it`);
  const pulled = await crictl(['pull', image], pullMs, signal);
  if (pulled.ok) return;
  const problem = pulled.output.split('\n').at(-1) ?? 'no answer';
  const load = 'load it into the runtime (ctr --namespace=k8s.io images import FILE, or crictl pull --creds ...)';
  const message = `Cannot use image "${image}" cannot be pulled: ${problem}; ${load}, or name another one with --image. Nothing was written`;
  throw new RecoveryError('ReadFailed', message);
}

// The SELinux label of our containers. Where SELinux enforces, a container as container runtimes label it (container_t)
// may not write below /etc/kubernetes, and what it writes elsewhere gets categories of its own, which keep the components
// beside it from reading it. spc_t is the type for containers that look after their host (container-selinux); kubeadm
// gives its own pods no label, because not every policy has that type (kubernetes/kubernetes#49328).

export interface SecurityLabel {
  readonly type: string;
  /** Without one the container runtime would choose categories. */
  readonly level?: string;
}

const type = 'spc_t';
const level = 's0';

/** Undefined where SELinux is off, or its policy does not know the type. `selinuxfs`: where the kernel shows it. */
export async function containerLabel(selinuxfs = '/sys/fs/selinux'): Promise<SecurityLabel | undefined> {
  try {
    const hasLevels = (await readFile(join(selinuxfs, 'mls'), 'utf8')).trim() === '1';
    // As security_check_context(3): the kernel takes what is a context of its policy, and refuses anything else.
    const file = await open(join(selinuxfs, 'context'), 'r+');
    try {
      await file.write(`system_u:system_r:${type}${hasLevels ? `:${level}` : ''}\0`);
    } finally {
      await file.close();
    }
    return hasLevels ? { type, level } : { type };
  } catch {
    return undefined;
  }
}
