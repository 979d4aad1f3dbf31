// The components of a control plane that this program knows by name, in one table. A new one that is to be restarted has a
// row here; as a static pod also one in lib/install/accounts.ts.

interface ControlPlaneComponent {
  /** What starts it again after it has ended: its unit, or the kubelet, for which it is a static pod. */
  readonly startedBy: 'systemd' | 'kubelet';
  /**
   * Its file below kubernetesDir, of kubeadm. A component with a kubeconfig reads it at its start only, so it is restarted;
   * the others reload their files.
   */
  readonly kubeconfig?: string;
}

export const staticPods = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
export type StaticPod = (typeof staticPods)[number];
export type ComponentName = 'kubelet' | StaticPod;

/** In the order of restarts: the kubelet starts the others again. */
export const controlPlane: Readonly<Record<ComponentName, ControlPlaneComponent>> = {
  kubelet: { startedBy: 'systemd', kubeconfig: 'kubelet.conf' },
  'kube-apiserver': { startedBy: 'kubelet' },
  'kube-controller-manager': { startedBy: 'kubelet', kubeconfig: 'controller-manager.conf' },
  'kube-scheduler': { startedBy: 'kubelet', kubeconfig: 'scheduler.conf' },
};

export const componentNames = Object.keys(controlPlane) as readonly ComponentName[];

export const isStaticPod = (name: string): name is StaticPod => (staticPods as readonly string[]).includes(name);
