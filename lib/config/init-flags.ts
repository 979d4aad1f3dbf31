// Flags of `init`, its subcommands and `uninstall`: a part of the table of flags (flags.ts). Pure.

export interface FlagColumns {
  /** Field of the configuration file. A field below the name of a mode is used by that mode only. */
  readonly field?: string;
  /**
   * How a value is parsed; by default as text, and a flag without value is true. `path`: relative to the working
   * directory. `list`: comma-separated. `level`: also klog's numbers. Plural forms may be given several times.
   */
  readonly as?: 'path' | 'list' | 'level' | 'lists' | 'listsByName' | 'pathsByName';
  /** Whether the units of `init host` keep the flag, or it is refused because they would not use it. */
  readonly units?: 'kept' | 'refused';
  /** Whether it describes the cluster: `init` writes it into the configuration file of the modes. */
  readonly isOfCluster?: boolean;
  /** Value of a flag that is given without one, as `--wait [duration]` may be. */
  readonly alone?: string;
  readonly help: string;
}

/** Time that kubeadm, too, gives a control plane to come up (`controlPlaneComponentHealthCheck`). */
export const usualWait = '4m';

const out = {
  '--out <directory>': {
    help: 'where certificates, kubeconfigs and credentials lie (default: /etc/kubernetes/kube-cert-recovery)',
  },
} as const;

const fromPod = {
  '--from-pod': {
    help: "in a pod with /opt, /run/systemd and /run/kube-cert-recovery of its node: run there, by the node's systemd",
  },
} as const;

export const initFlags = {
  init: {
    ...out,
    '--server <url>': {
      units: 'refused',
      help: 'address of the API server for kubeconfigs (default: of the kubeconfig in use; init render: https://localhost:6443)',
    },
    '-o, --output <format>': { help: 'text or json (default: text)' },
  },
  'init adopt': {
    '--image <reference>': { help: 'image of this program, as the container runtime of this machine knows it' },
    '--repair': {
      help: 'add our containers again to manifests that were rewritten without them, as after kubeadm upgrade',
    },
  },
  'init approver': {
    '--image <reference>': {
      help: 'image of this program, as the container runtime of this machine knows it (default: no static pod is written)',
    },
  },
  'init node-ca': {
    '--image <reference>': {
      help: 'image of this program, as every node can pull it (default: no pods, the units of init host follow)',
    },
    '--static-pod': {
      help: 'print a static pod that asks as its kubelet, in place of a DaemonSet; the rest of the output is comments',
    },
    '--render <directory>': {
      help: 'install nothing: write the files with which a new node begins, for images and cloud-init',
    },
  },
  'init openshift': {
    '--image <reference>': { help: 'image of this program, as every control-plane node can pull it' },
  },
  'init host': {
    '--executable <file>': { help: 'program that the units start where it lies (default: a copy of this one)' },
    ...fromPod,
    '--check': { help: 'change nothing; exit code 1 if anything would be changed' },
    '--wait [duration]': {
      alone: usualWait,
      help: `then wait until all is well and the node Ready, at most so long, such as 2m (without a value: ${usualWait})`,
    },
    '--worker-token-file <file>': { help: 'on a worker: the token that init workers has printed; /dev/stdin reads it' },
  },
  'uninstall host': {
    ...fromPod,
    '--check': { help: 'change nothing; exit code 1 if anything would be removed' },
    '-o, --output <format>': { help: 'text or json (default: text)' },
  },
  uninstall: {
    '--part <name,...>': {
      as: 'lists',
      units: 'refused',
      help: 'only modes (of init, init adopt), approver, workers, hosts or node-ca (default: all); repeatable',
    },
    '--purge': { units: 'refused', help: 'also delete every Secret and ConfigMap that init has created' },
    '--force': {
      units: 'refused',
      help: 'although machines still live on it, which are named otherwise, or objects may be of others',
    },
    '--give-back': {
      units: 'refused',
      help: 'also make plain files of what the syncer has published, at the same paths',
    },
    ...out,
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, FlagColumns>>>>;
