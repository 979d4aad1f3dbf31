// What our container needs of this machine: its image, and a label where SELinux is on.
//
// The image is asked of crictl where that is installed. A pod of ours
// without its image takes kube-apiserver away until the former manifest is back, so it is looked for before anything is
// written, and pulled as the kubelet would.
import { execFile } from 'node:child_process';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RecoveryError } from '../errors.ts';

export interface Images {
  /** `unknown`: no runtime here can be asked. */
  look(image: string): Promise<'present' | 'absent' | 'unknown'>;
  /** Why it cannot be had; undefined: it is there now. */
  pull(image: string): Promise<string | undefined>;
}

const lookMs = 10_000;
const pullMs = 180_000;

interface Answer {
  readonly ok: boolean;
  readonly output: string;
}

export function imagesOf(signal: AbortSignal, program = 'crictl'): Images {
  const run = (args: readonly string[], timeout: number): Promise<Answer> =>
    new Promise((resolve) => {
      execFile(program, args, { timeout, signal, maxBuffer: 16 * 1024 * 1024 }, (err, _out, output) =>
        resolve({ ok: err === null, output: output.trim() }),
      );
    });
  return {
    async look(image) {
      const { ok, output } = await run(['inspecti', '--output=json', image], lookMs);
      if (ok) return 'present';
      // cmd/crictl/image.go of kubernetes-sigs/cri-tools; whatever else it says is no word about the image.
      return output.includes('no such image') ? 'absent' : 'unknown';
    },
    async pull(image) {
      const { ok, output } = await run(['pull', image], pullMs);
      return ok ? undefined : (output.split('\n').at(-1) ?? 'no answer');
    },
  };
}

interface RequireImage {
  readonly image: string;
  readonly images?: Images | undefined;
  readonly dryRun: boolean;
  readonly print: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Pulls an image that is absent; with `dryRun` it only says so. Throws ReadFailed when it cannot be had. */
export async function requireImage({
  image,
  dryRun,
  print,
  signal,
  images = imagesOf(signal),
}: RequireImage): Promise<void> {
  if ((await images.look(image)) !== 'absent') return;
  if (dryRun)
    return print(`# The container runtime of this machine does not have image "${image}": it would be pulled first`);
  print(`The container runtime of this machine does not have image "${image}": pulling it`);
  const problem = await images.pull(image);
  if (problem === undefined) return;
  const load = 'load it into the runtime (ctr --namespace=k8s.io images import FILE, or crictl pull --creds ...)';
  const message = `Cannot adopt this machine: image "${image}" cannot be pulled: ${problem}; ${load}, or name another one with --image. Nothing was written`;
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
