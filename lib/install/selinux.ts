// The SELinux label of our containers. Where SELinux enforces, a container as container runtimes label it (container_t)
// may not write below /etc/kubernetes, and what it writes elsewhere gets categories of its own, which keep the components
// beside it from reading it. spc_t is the type for containers that look after their host (container-selinux); kubeadm
// gives its own pods no label, because not every policy has that type (kubernetes/kubernetes#49328).
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';

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
