// Accounts with a token: the modes, kubelets without a certificate of their own, and in static pods the syncer of each
// pod, because a container of kube-scheduler's pod needs none of the keys that kube-controller-manager signs with. And
// the container in each static pod. Pure.
import { bootstrapAccount, defaultBootstrapNamespace } from '../bootstrap-identity.ts';
import type { StaticPod } from '../components.ts';

/** Mode whose rights a process has; also the directory name of its credential. */
export type ModeIdentity = 'regen' | 'syncer' | 'approver';

interface PodContainer {
  /** Components whose files it writes. Administrators and the kubelet read files from kube-apiserver's pod. */
  readonly components: readonly string[];
  readonly modes: readonly ModeIdentity[];
  /** Whether the component reads a file renewed here only at its start: --root-ca-file. */
  readonly restarts: boolean;
  /** Port of its health probes on the loopback address of the machine; all three pods share that network. */
  readonly healthPort: number;
}

/** Our container in each static pod of an adopted machine. */
export const podContainers: Readonly<Record<StaticPod, PodContainer>> = {
  'kube-apiserver': {
    components: ['kube-apiserver', 'kubelet', 'admin'],
    modes: ['regen', 'syncer', 'approver'],
    restarts: false,
    healthPort: 11443,
  },
  'kube-controller-manager': {
    components: ['kube-controller-manager'],
    modes: ['syncer'],
    restarts: true,
    healthPort: 11444,
  },
  'kube-scheduler': { components: ['kube-scheduler'], modes: ['syncer'], restarts: false, healthPort: 11445 },
};

/** Name of a ServiceAccount. */
export type Account = ModeIdentity | `syncer-${StaticPod}` | 'node-bootstrapper' | 'worker' | 'node-ca';
/** Accounts of mode syncer: one where one process serves all components, else one for each static pod. */
export type SyncerAccount = Extract<Account, `syncer${string}`>;

export const defaultNamespace = defaultBootstrapNamespace;
export const accountName = (account: Account): string =>
  account === 'node-bootstrapper' ? bootstrapAccount : `kube-cert-recovery-${account}`;
export const tokenSecretName = (account: Account): string => `${accountName(account)}-token`;
/** Name of the ClusterRole by which a syncer proves that readers use its files. */
export const proofsName = (account: SyncerAccount): string => accountName(account).replace('-syncer', '-proofs');
