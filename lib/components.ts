// The components of a control plane that this program knows by name, in one table. A new component to be restarted has
// a row here; as a static pod also one in lib/install/accounts.ts.

/**
 * The flag that names the file by which processes of a component are distinguished from processes of other control
 * planes.
 */
export type ToldBy = 'kubeconfig' | 'trusted-ca-file' | 'etcd-cafile';

interface ControlPlaneComponent {
  readonly toldBy: ToldBy;
  /** Manager that starts it again after it has exited: its unit, or the kubelet, for which it is a static pod. */
  readonly startedBy: 'systemd' | 'kubelet';
  /**
   * Name of its kubeconfig below kubernetesDir, with kubeadm. A component with a kubeconfig reads it at its start only,
   * so it is restarted; the other components reload their leaf certificates, and are restarted for the CA of etcd
   * alone, which they read at their start.
   */
  readonly kubeconfig?: string;
}

export const staticPods = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
export type StaticPod = (typeof staticPods)[number];
export type ComponentName = 'kubelet' | 'etcd' | StaticPod;

/**
 * The table in the order of restarts: the kubelet starts the other components again, and each of them needs the
 * previous one.
 */
export const controlPlane: Readonly<Record<ComponentName, ControlPlaneComponent>> = {
  kubelet: { startedBy: 'systemd', toldBy: 'kubeconfig', kubeconfig: 'kubelet.conf' },
  etcd: { startedBy: 'kubelet', toldBy: 'trusted-ca-file' },
  'kube-apiserver': { startedBy: 'kubelet', toldBy: 'etcd-cafile' },
  'kube-controller-manager': { startedBy: 'kubelet', toldBy: 'kubeconfig', kubeconfig: 'controller-manager.conf' },
  'kube-scheduler': { startedBy: 'kubelet', toldBy: 'kubeconfig', kubeconfig: 'scheduler.conf' },
};

export const componentNames = Object.keys(controlPlane) as readonly ComponentName[];

export const isStaticPod = (name: string): name is StaticPod => (staticPods as readonly string[]).includes(name);

export const isComponent = (name: string): name is ComponentName => Object.hasOwn(controlPlane, name);
