// All objects that `init` makes except certificates: namespaces, ServiceAccounts, their rights (rules.ts), and tokens.
// Pure. Each mode has its own account, because reading signers' keys is as powerful as cluster-admin, and only regen
// needs it; in static pods the syncer of each pod has its own, too.
import { bootstrapAccount } from '../bootstrap-identity.ts';
import { staticPods } from '../components.ts';
import { readBy } from '../inventory/component-view.ts';
import type { Resolved } from '../inventory/model.ts';
import type { RenewalPolicy } from '../plan/decision.ts';
import { typeMeta } from '../kube/resources.ts';
import { renewalLease } from '../restart/machine-lease.ts';
import { hostsGroup } from '../well-known.ts';
import {
  type Account,
  accountName,
  podContainers,
  proofsName,
  type SyncerAccount,
  tokenSecretName,
} from './accounts.ts';
import { type Manifest, ownLabel, type RbacRule } from './apply.ts';
import {
  type ApproverGrant,
  approverClusterRules,
  approverRecords,
  approverRules,
  type Artefacts,
  type HostGrant,
  hostRules,
  namesRules,
  nodesRules,
  proofRules,
  regenRules,
  type RulesByNamespace,
  syncerRules,
  workerRules,
} from './rules.ts';

/** One process of mode syncer. */
interface SyncerGrant {
  readonly account: SyncerAccount;
  /** Artefacts of this process: the published ones, with the readers that it restarts and checks. */
  readonly artefacts: Artefacts;
  /** Whether it restarts components that must read their files again. */
  readonly reacts: boolean;
}

/** Grant for the syncer of each pod. */
export function podSyncers(resolved: Resolved): readonly SyncerGrant[] {
  return staticPods.map((pod) => {
    const { artefacts } = readBy(resolved, podContainers[pod].components);
    return { account: `syncer-${pod}`, artefacts, reacts: podContainers[pod].restarts };
  });
}

/**
 * Grant for the one syncer that `init` sets up: artefacts that these components read, or all without `components`.
 * Components of one static pod share the account of that pod, so that several syncers do not take each other's rights.
 */
export function syncerOf(resolved: Resolved, components: readonly string[] | undefined): SyncerGrant {
  if (components === undefined) return { account: 'syncer', artefacts: resolved.artefacts, reacts: true };
  const pod = staticPods.find((each) => components.every((one) => podContainers[each].components.includes(one)));
  const { artefacts } = readBy(resolved, pod === undefined ? components : podContainers[pod].components);
  return { account: pod === undefined ? 'syncer' : `syncer-${pod}`, artefacts, reacts: true };
}

export interface RbacOptions extends Partial<Pick<Resolved, 'name' | 'asks'>> {
  readonly artefacts: Artefacts;
  /** Namespace of the ServiceAccounts. */
  readonly namespace: string;
  /** Default: one process for all components, with the account `syncer`. */
  readonly syncers?: readonly SyncerGrant[];
  /** Also the identities by which kubelets get certificates; true: client certificates, the least. Default: false. */
  readonly approver?: boolean | ApproverGrant;
  /** Policy of regen: it reads Nodes only where a new CA waits for them (`waitForNodes`). */
  readonly policy?: Pick<RenewalPolicy, 'waitForNodes'> | undefined;
}

const rbacGroup = 'rbac.authorization.k8s.io';
const kubeletClient = 'kube-apiserver-kubelet-client';
/** Not our own right: `kubectl logs` and `exec` need it as long as the API server has a client certificate of ours. */
export const kubeletClientBinding = 'kube-cert-recovery-kubelet-client';

/** Manifests in the order of creation. */
export function installManifests(options: RbacOptions): Manifest[] {
  const { artefacts, namespace, approver = false, asks, policy } = options;
  const waitsForNodes = policy?.waitForNodes !== undefined;
  const suffix = suffixOf(options);
  const { syncers = [{ account: 'syncer', artefacts, reacts: true }] } = options;
  const rules: readonly (readonly [Account, RulesByNamespace])[] = [
    ['regen', regenRules(artefacts, waitsForNodes)],
    ...syncers.map((one) => [one.account, syncerRules(one.artefacts, one)] as const),
  ];
  const accounts = rules.map(([account]) => account);
  const subjectOf = (account: Account) => ({ kind: 'ServiceAccount', namespace, name: accountName(account) }) as const;
  const proofs = syncers.flatMap((one) => {
    const listed = proofRules(one.artefacts);
    return listed.length === 0
      ? []
      : clusterRole(`${proofsName(one.account)}${suffix}`, listed, subjectOf(one.account));
  });
  return [
    ...namespacesOf(options, rules),
    ...accounts.map((account) => accountManifest(account, namespace)),
    ...rules.flatMap(([account, own]) => roles(`${accountName(account)}${suffix}`, own, subjectOf(account))),
    ...proofs,
    ...(asks === undefined
      ? []
      : clusterRole(`${accountName('regen')}-names${suffix}`, namesRules, subjectOf('regen'))),
    ...(waitsForNodes ? clusterRole(`${accountName('regen')}-nodes${suffix}`, nodesRules, subjectOf('regen')) : []),
    ...kubeletAccess(artefacts),
    ...accounts.map((account) => token(account, namespace)),
    ...(approver === false
      ? []
      : [
          ...approverManifests(namespace, grantOf(approver)),
          token('approver', namespace),
          ...(judgesClients(grantOf(approver)) ? bootstrapperManifests(namespace) : []),
        ]),
  ];
}

/** Namespaces that hold accounts, objects, or the restart Lease; the namespace of leader Leases exists already. */
function namespacesOf(
  { artefacts, namespace }: RbacOptions,
  rules: readonly (readonly [Account, RulesByNamespace])[],
): Manifest[] {
  const own = new Set([
    namespace,
    ...artefacts.flatMap(({ location }) => ('namespace' in location ? location.namespace : [])),
    ...rules.flatMap(([, byNamespace]) =>
      [...byNamespace].flatMap(([name, list]) => (list.some(({ verbs }) => verbs.includes('create')) ? [name] : [])),
    ),
  ]);
  return [...own].toSorted().map((name) => ({ ...typeMeta('Namespace'), metadata: { name } }));
}

export function accountManifest(account: Account, namespace: string): Manifest {
  return {
    ...typeMeta('ServiceAccount'),
    metadata: { namespace, name: accountName(account), labels: ownLabel },
    automountServiceAccountToken: false,
  };
}

/**
 * A token that never expires: it must still be valid after years off. It is not listed in the ServiceAccount's
 * `.secrets`, because kube-controller-manager removes listed tokens that were not used for a year
 * (legacy_serviceaccount_token_cleaner.go).
 */
function token(account: Account, namespace: string): Manifest {
  return {
    ...typeMeta('Secret'),
    metadata: {
      namespace,
      name: tokenSecretName(account),
      labels: ownLabel,
      annotations: { 'kubernetes.io/service-account.name': accountName(account) },
    },
    type: 'kubernetes.io/service-account-token',
  };
}

/**
 * Role suffix of an inventory with external artefacts, which another inventory in the same cluster may keep
 * (OpenShift's three). Their roles are in the same namespaces and must not replace each other: so they differ by the
 * inventory's name.
 */
function suffixOf({ artefacts, name }: RbacOptions): string {
  return name !== undefined && artefacts.some(({ kind }) => kind === 'external') ? `-${name}` : '';
}

type Subject =
  | { readonly kind: 'ServiceAccount'; readonly namespace: string; readonly name: string }
  | { readonly apiGroup: typeof rbacGroup; readonly kind: 'User' | 'Group'; readonly name: string };

export function roles(name: string, rules: RulesByNamespace, subject: Subject): Manifest[] {
  return [...rules]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([namespace, own]) => granted('Role', { namespace, name, labels: ownLabel }, own, subject));
}

const clusterRole = (name: string, rules: readonly RbacRule[], subject: Subject): Manifest[] =>
  granted('ClusterRole', { name, labels: ownLabel }, rules, subject);

type RoleKind = 'Role' | 'ClusterRole';

function granted(
  kind: RoleKind,
  metadata: Manifest['metadata'],
  rules: readonly RbacRule[],
  subject: Subject,
): Manifest[] {
  return [{ ...typeMeta(kind), metadata, rules }, binding(kind, metadata, subject)];
}

/** `role`: defaults to the role of the same name. */
function binding(kind: RoleKind, metadata: Manifest['metadata'], subject: Subject, role = metadata.name): Manifest {
  const roleRef = { apiGroup: rbacGroup, kind, name: role };
  return { ...typeMeta(`${kind}Binding`), metadata, roleRef, subjects: [subject] };
}

const grantOf = (approver: true | ApproverGrant): ApproverGrant | undefined =>
  approver === true ? undefined : approver;

const judgesClients = (grant: ApproverGrant | undefined): boolean => grant?.signers.includes('kubelet-client') ?? true;

interface ApproverInstall {
  /** Whether to make a non-expiring token for a process outside a Pod of that ServiceAccount. */
  readonly token: boolean;
  readonly grant: ApproverGrant;
}

/** Manifests of the standalone approver. */
export function approverInstallManifests(namespace: string, options: ApproverInstall): Manifest[] {
  return [
    { ...typeMeta('Namespace'), metadata: { name: namespace } },
    ...approverManifests(namespace, options.grant),
    ...(options.token ? [token('approver', namespace)] : []),
  ];
}

function approverManifests(namespace: string, grant?: ApproverGrant): Manifest[] {
  const name = accountName('approver');
  const subject = { kind: 'ServiceAccount', namespace, name } as const;
  return [
    accountManifest('approver', namespace),
    ...clusterRole(name, approverClusterRules(grant), subject),
    ...roles(name, approverRules(namespace, grant), subject),
    // Without data: entries that approvers have written stay when it is applied again.
    ...(judgesClients(grant) ? approverRecords : []).map((record) => ({
      ...typeMeta('ConfigMap'),
      metadata: { namespace, name: record, labels: ownLabel },
    })),
  ];
}

/** Manifests for kubelets without a certificate on adopted machines. */
function bootstrapperManifests(namespace: string): Manifest[] {
  const subject = { kind: 'ServiceAccount', namespace, name: bootstrapAccount } as const;
  const metadata = { name: bootstrapAccount, labels: ownLabel };
  return [
    accountManifest('node-bootstrapper', namespace),
    // Upstream's role for kubelets without a certificate, not the role by which kube-controller-manager approves by
    // itself.
    binding('ClusterRole', metadata, subject, 'system:node-bootstrapper'),
    token('node-bootstrapper', namespace),
  ];
}

/**
 * Identity shared by all workers for their requests. It gets neither `...:nodeclient` nor `...:selfnodeclient`, or
 * kube-controller-manager's own approver would give any holder of the token the name of any node (sarapprove.go).
 */
export function workerManifests(namespace: string): Manifest[] {
  const name = accountName('worker');
  return [
    { ...typeMeta('Namespace'), metadata: { name: namespace } },
    accountManifest('worker', namespace),
    ...clusterRole(name, workerRules, { kind: 'ServiceAccount', namespace, name }),
    token('worker', namespace),
  ];
}

/** Name of the role and of its bindings. */
export const hostsRole = 'kube-cert-recovery-hosts';

/** Rights of the control-plane hosts. Without an account, each signs a client certificate of this group for minutes. */
export function hostManifests(grant: HostGrant): Manifest[] {
  const rules = hostRules(grant);
  // The other namespaces are the control plane's.
  const namespaces = [...rules.keys()]
    .filter((name) => name === renewalLease.namespace)
    .map((name) => ({ ...typeMeta('Namespace'), metadata: { name } }));
  const subject = { apiGroup: rbacGroup, kind: 'Group', name: hostsGroup } as const;
  return [...namespaces, ...roles(hostsRole, rules, subject)];
}

/** The API server's certificate for kubelets names no group, so its user needs the role: logs, exec, port-forward. */
function kubeletAccess(artefacts: Artefacts): Manifest[] {
  if (!artefacts.some((artefact) => artefact.kind === 'target' && artefact.commonName === kubeletClient)) return [];
  const subject = { apiGroup: rbacGroup, kind: 'User', name: kubeletClient } as const;
  const metadata = { name: kubeletClientBinding, labels: ownLabel };
  return [binding('ClusterRole', metadata, subject, 'system:kubelet-api-admin')];
}
