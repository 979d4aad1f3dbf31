// What our container and the component beside it have mounted in a static pod. Pure.
import { timesyncdDirectory } from '../host/clock-synchronised.ts';
import type { Layout } from './layout.ts';

/** Of the names of what we add; what has it is ours. */
export const volumePrefix = 'kube-cert-recovery';

export interface Named {
  readonly name: string;
  readonly [field: string]: unknown;
}

export interface Mounted {
  readonly volume: Named;
  readonly mount: Named;
}

interface HostPath {
  readonly readOnly: boolean;
  /** Default: `Directory`. */
  readonly type?: 'Directory' | 'DirectoryOrCreate';
}

function hostPath(suffix: string, path: string, { readOnly, type = 'Directory' }: HostPath): Mounted {
  const name = suffix === '' ? volumePrefix : `${volumePrefix}-${suffix}`;
  return {
    volume: { name, hostPath: { path, type } },
    mount: { name, mountPath: path, ...(readOnly && { readOnly: true }) },
  };
}

interface MountingPod {
  readonly pod: string;
  readonly layout: Layout;
  readonly kubeletPki?: string;
}

/** The parent of what is flipped is mounted, never what is flipped: a mount keeps the directory that it has found. */
export function mountsOf({ pod, layout, kubeletPki }: MountingPod): {
  readonly own: readonly Mounted[];
  readonly component: readonly Mounted[];
} {
  // Configuration, kubeconfigs and tokens are read by root, too, so our container must not be able to write them.
  const files = [
    hostPath('', layout.directory, { readOnly: true }),
    hostPath('certs', layout.certs, { readOnly: false }),
  ];
  const kubelet = kubeletPki === undefined ? [] : [hostPath('kubelet', kubeletPki, { readOnly: true })];
  const read = [
    hostPath('certs', layout.certs, { readOnly: true }),
    hostPath('kubeconfigs', layout.kubeconfigs, { readOnly: true }),
  ];
  // By it a container that signs or approves can know that the clock is right. No pod waits for it: it is made where
  // something else than systemd-timesyncd keeps the time.
  const clock = hostPath('clock', timesyncdDirectory, { readOnly: true, type: 'DirectoryOrCreate' });
  return { own: [...files, ...kubelet, ...(pod === 'kube-apiserver' ? [clock] : [])], component: read };
}

/** Each once: what we write the component reads. */
export function volumesOf(mounted: readonly Mounted[]): readonly Named[] {
  return [...new Map(mounted.map(({ volume }) => [volume.name, volume])).values()];
}
