// Requirements of our container on this machine: its image, and an SELinux label where SELinux is on.
//
// Where crictl is installed, it checks the image. A pod of ours without its image takes kube-apiserver down until the
// former manifest is restored, so the image is checked before anything is written, and pulled as the kubelet would.
import { execFile } from 'node:child_process';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RecoveryError } from '../errors.ts';
import { problemsError } from '../problems.ts';

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

/** A name that no kubelet takes would be found on the node only, after its pods have ended. Throws ConfigInvalid. */
export function requireReference(image: string): void {
  // github.com/distribution/reference: an address, a path in lower case, a tag, a digest.
  if (
    /^(?!sha256:)(?:(?:[\w.-]+|\[[\da-fA-F:]+\])(?::\d+)?\/)?[a-z0-9][a-z0-9._/-]*(?::[\w.-]+)?(?:@[\w+.:-]+)?$/.test(
      image,
    )
  )
    return;
  const message = `must name an image, such as example.com/kube-cert-recovery:0.1.0, got "${image}"`;
  throw problemsError('ConfigInvalid', 'Cannot use the image', [{ path: '--image', kind: 'invalid', message }]);
}

/** Pulls an absent image; with `dryRun` only prints that. Throws ReadFailed when the image cannot be pulled, and
 * ConfigInvalid for a name of none. */
export async function requireImage({ image, dryRun, print, signal }: RequireImage): Promise<void> {
  requireReference(image);
  const found = await crictl(['inspecti', '--output=json', image], lookMs, signal);
  // cmd/crictl/image.go of kubernetes-sigs/cri-tools; any other error proves nothing about the image.
  if (found.ok || !found.output.includes('no such image')) return;
  if (dryRun)
    return print(`# The container runtime of this machine does not have image "${image}": it would be pulled first`);
  print(`The container runtime of this machine does not have image "${image}": pulling it`);
  const pulled = await crictl(['pull', image], pullMs, signal);
  if (pulled.ok) return;
  const problem = pulled.output.split('\n').at(-1) ?? 'no answer';
  const load = 'load it into the runtime (ctr --namespace=k8s.io images import FILE, or crictl pull --creds ...)';
  const message = `Cannot use image "${image}": it cannot be pulled: ${problem}; ${load}, or name another one with --image. Nothing was written`;
  throw new RecoveryError('ReadFailed', message);
}

// SELinux label of our containers. Where SELinux enforces, a container with the runtime's default label (container_t)
// may not write below /etc/kubernetes, and its files elsewhere get categories of their own, which keep the components
// next to it from reading them. spc_t is the type for containers that manage their host (container-selinux); kubeadm
// gives its own pods no label, because not every policy has that type (kubernetes/kubernetes#49328).

export interface SecurityLabel {
  readonly type: string;
  /** Default: categories that the container runtime chooses. */
  readonly level?: string;
}

const type = 'spc_t';
const level = 's0';

/** Undefined where SELinux is off, or its policy lacks the type. `selinuxfs`: where the kernel mounts it. */
export async function containerLabel(selinuxfs = '/sys/fs/selinux'): Promise<SecurityLabel | undefined> {
  try {
    const hasLevels = (await readFile(join(selinuxfs, 'mls'), 'utf8')).trim() === '1';
    // Same check as security_check_context(3): the kernel accepts a context of its policy, and refuses any other.
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
