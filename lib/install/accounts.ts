// Who has a token: the modes, kubelets without a certificate of their own, and in static pods the syncer of each pod,
// because a container of kube-scheduler's pod needs nothing of what kube-controller-manager signs with. Names only. Pure.
import { bootstrapAccount, defaultBootstrapNamespace } from '../bootstrap-identity.ts';

export const staticPods = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
export type StaticPod = (typeof staticPods)[number];

/** Whose files the container in a pod writes. People and the kubelet read what lies beside the API server. */
export const componentsOfPod: Readonly<Record<StaticPod, readonly string[]>> = {
  'kube-apiserver': ['kube-apiserver', 'kubelet', 'admin'],
  'kube-controller-manager': ['kube-controller-manager'],
  'kube-scheduler': ['kube-scheduler'],
};

/** Whose component reads something at its start only that is renewed here: --root-ca-file. */
export const restartedPods: ReadonlySet<StaticPod> = new Set(['kube-controller-manager']);

/** What a process may do, and the name of the directory of its credential. */
export type ModeIdentity = 'regen' | 'syncer' | 'approver';
/** A ServiceAccount. */
export type Account = ModeIdentity | `syncer-${StaticPod}` | 'node-bootstrapper';
/** Accounts of mode syncer: one where one process serves all components, one for each static pod elsewhere. */
export type SyncerAccount = Extract<Account, `syncer${string}`>;

export const defaultNamespace = defaultBootstrapNamespace;
export const accountName = (account: Account): string =>
  account === 'node-bootstrapper' ? bootstrapAccount : `kube-cert-recovery-${account}`;
export const tokenSecretName = (account: Account): string => `${accountName(account)}-token`;
/** Of the cluster-wide role by which a syncer sees whether others use what it has written. */
export const proofsName = (account: SyncerAccount): string => accountName(account).replace('-syncer', '-proofs');
