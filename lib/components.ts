// The components of a control plane that this program knows by name, in one table. A new component to be restarted has
// a row here; as a static pod also one in lib/install/accounts.ts.

/**
 * The flag that names the file by which processes of a component are distinguished from processes of other control
 * planes.
 */
export type ToldBy = 'kubeconfig' | 'trusted-ca-file' | 'etcd-cafile';

/** Manager that starts a component again after it has exited. */
interface Starter {
  /** Component that must run for that. */
  readonly needs?: ComponentName;
  /** Its components are root's, and live in the PID namespace of the host. */
  readonly isOfHost: boolean;
  /** Command by which an administrator restarts a process. */
  readonly command: (component: string, pid: number) => string;
}

/** Its unit, or the kubelet, for which it is a static pod. lib/restart/restart.ts has the means of a restart. */
export const starters = {
  systemd: { isOfHost: true, command: (component) => `systemctl restart ${component}` },
  kubelet: { needs: 'kubelet', isOfHost: false, command: (_, pid) => `kill ${pid}` },
} as const satisfies Readonly<Record<string, Starter>>;
type StarterName = keyof typeof starters;

export const starterOf = (name: ComponentName): Starter => starters[controlPlane[name].startedBy];

interface ControlPlaneComponent {
  readonly toldBy: ToldBy;
  readonly startedBy: StarterName;
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
