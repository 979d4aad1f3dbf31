// A kubelet that has asked for a certificate with our bootstrap kubeconfig knows its API server by our bundle, and its
// process asks for the recovery name until it ends (cmd/kubelet/app/server.go, buildKubeletClientConfig). Both must be
// over before our files and that name go away.
import type { Clock } from '../clock.ts';
import { replaceFile } from '../disk/files.ts';
import { readersOnHost, restartProcess } from '../restart/processes.ts';
import { editYaml } from '../yaml.ts';
import { readIfPresent } from './files.ts';

export interface KubeletAuthority {
  /** kubelet.conf. */
  readonly kubeconfig: string;
  /** kubeadm's CA, which takes the place of our bundle. */
  readonly authority: string;
  /** Of our files. */
  readonly directory: string;
  /** Whether the process may still ask for the recovery name, although its kubeconfig is right. */
  readonly isBegun: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

interface Clusters {
  readonly clusters?: readonly { readonly cluster?: { readonly 'certificate-authority'?: string } }[];
}

/** Whether anything had to be done. Throws ReadFailed, WriteFailed, MaterialInvalid. */
export async function giveBackKubelet(options: KubeletAuthority): Promise<boolean> {
  const { kubeconfig, authority, directory, isBegun, clock, signal } = options;
  const bytes = await readIfPresent(kubeconfig, 'kubeconfig');
  const edit = editYaml(bytes?.toString('utf8') ?? '');
  const ours = ((edit.value as Clusters | null)?.clusters ?? []).flatMap(({ cluster }, at) =>
    cluster?.['certificate-authority']?.startsWith(`${directory}/`) === true ? [at] : [],
  );
  if (ours.length === 0 && !isBegun) return false;
  for (const at of ours) edit.set(['clusters', at, 'cluster', 'certificate-authority'], authority);
  if (ours.length > 0) await replaceFile({ path: kubeconfig, content: edit.text(), mode: 0o600, what: 'kubeconfig' });
  const kubelet = { name: 'kubelet', kubeconfig } as const;
  for (const reader of readersOnHost(kubelet)) {
    await restartProcess(kubelet, reader, { clock, signal });
  }
  return true;
}
