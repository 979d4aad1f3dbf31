// Who has a token: the modes, kubelets without a certificate of their own, and in static pods the syncer of each pod,
// because a container of kube-scheduler's pod needs nothing of what kube-controller-manager signs with. And what each of those
// pods has. Pure.
import { bootstrapAccount, defaultBootstrapNamespace } from '../bootstrap-identity.ts';
import type { StaticPod } from '../components.ts';

/** What a process may do, and the name of the directory of its credential. */
export type ModeIdentity = 'regen' | 'syncer' | 'approver';

interface PodContainer {
  /** Whose files it writes. People and the kubelet read what lies beside the API server. */
  readonly components: readonly string[];
  readonly modes: readonly ModeIdentity[];
  /** Whether the component reads something at its start only that is renewed here: --root-ca-file. */
  readonly restarts: boolean;
  /** Where its health is asked, on the loopback address of the machine, whose network all three pods share. */
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

/** A ServiceAccount. */
export type Account = ModeIdentity | `syncer-${StaticPod}` | 'node-bootstrapper' | 'worker';
/** Accounts of mode syncer: one where one process serves all components, one for each static pod elsewhere. */
export type SyncerAccount = Extract<Account, `syncer${string}`>;

export const defaultNamespace = defaultBootstrapNamespace;
export const accountName = (account: Account): string =>
  account === 'node-bootstrapper' ? bootstrapAccount : `kube-cert-recovery-${account}`;
export const tokenSecretName = (account: Account): string => `${accountName(account)}-token`;
/** Of the cluster-wide role by which a syncer sees whether others use what it has written. */
export const proofsName = (account: SyncerAccount): string => accountName(account).replace('-syncer', '-proofs');
