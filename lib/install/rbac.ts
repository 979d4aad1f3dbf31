// What the modes may do, by name of every object of the inventory, and on request what the approver and the bootstrap
// identity of kubelets may. Pure. Each has a ServiceAccount of its own, because whoever reads signers' keys is as
// powerful as cluster-admin, and the others need not.
//
// Creation can be limited by name only when it is done by a PATCH (server-side apply): the API server then asks for
// both `patch` and `create` with the object's name; a POST carries no name and is refused.
// The exceptions to "by name" are Events (create only), and lists of CertificateSigningRequests and APIServices, which
// the syncer's proofs read.
import type { Artefact, ResolvedArtefact } from '../inventory/model.ts';
import { bootstrapAccount, defaultBootstrapNamespace, kubeletClientSigner } from '../bootstrap-identity.ts';
import { isFile } from '../inventory/places.ts';
import { restartTurn } from '../leases/turn.ts';
import { type Manifest, ownLabel, type Rule } from './manifest.ts';

export interface RbacOptions {
  readonly artefacts: readonly (Artefact | ResolvedArtefact)[];
  /** Where the ServiceAccounts live. */
  readonly namespace: string;
  /** Also the identities by which kubelets get a new client certificate. Default: false. */
  readonly approver?: boolean;
}

export type Identity = 'regen' | 'syncer' | 'approver';
/** Who has a token: the modes, and kubelets without a certificate of their own. */
export type Account = Identity | 'node-bootstrapper';

export const defaultNamespace = defaultBootstrapNamespace;
export const accountName = (identity: Account): string =>
  identity === 'node-bootstrapper' ? bootstrapAccount : `kube-cert-recovery-${identity}`;
export const tokenSecretName = (identity: Account): string => `${accountName(identity)}-token`;

const identities = ['regen', 'syncer'] as const;
const rbacVersion = 'rbac.authorization.k8s.io/v1';
const rbacGroup = 'rbac.authorization.k8s.io';
const kubeletClient = 'kube-apiserver-kubelet-client';

/** Everything that `init` makes besides the certificates' own objects, in the order in which it is made. */
export function installManifests({ artefacts, namespace, approver = false }: RbacOptions): Manifest[] {
  const rules = { regen: regenRules(artefacts), syncer: syncerRules(artefacts) };
  const namespaces = new Set([
    namespace,
    ...artefacts.flatMap(({ truth }) => ('namespace' in truth ? truth.namespace : [])),
    ...(rules.syncer.has(restartTurn.namespace) ? [restartTurn.namespace] : []),
  ]);
  return [
    ...[...namespaces]
      .toSorted()
      .map((name): Manifest => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })),
    ...identities.map((identity) => account(accountName(identity), namespace)),
    ...identities.flatMap((identity) =>
      [...rules[identity]]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .flatMap(([where, own]) => grant({ identity, account: namespace, where, rules: own })),
    ),
    ...proofs(namespace),
    ...kubeletAccess(artefacts),
    ...identities.map((identity) => token(accountName(identity), namespace)),
    ...(approver ? approverManifests(namespace) : []),
  ];
}

type RulesByNamespace = Map<string, Rule[]>;

/**
 * What regen never writes it still reads: key pairs are checked, and of opaque objects it says which are gone. Without
 * the right to read one, that row would count as out of reach, and regen would never be ready.
 */
function regenRules(artefacts: RbacOptions['artefacts']): RulesByNamespace {
  const made = artefacts.filter(({ kind }) => kind !== 'keyPair' && kind !== 'opaque');
  const onlyRead = artefacts.filter((artefact) => !made.includes(artefact));
  const rules = rulesByName([
    [made, ['get', 'update', 'patch', 'create']],
    [onlyRead, ['get']],
  ]);
  addLeases(rules, artefacts, ['get', 'update']);
  return rules;
}

function syncerRules(artefacts: RbacOptions['artefacts']): RulesByNamespace {
  const published = artefacts.filter((artefact) => artefact.published !== undefined);
  const rules = rulesByName([[published, ['get', 'list', 'watch']]]);
  addLeases(rules, artefacts, ['get']);
  addTurn(rules, artefacts);
  return rules;
}

/** Where kube-apiserver must be restarted for what the syncer observes, one machine after the other. */
function addTurn(rules: RulesByNamespace, artefacts: RbacOptions['artefacts']): void {
  const isNeeded = artefacts.some(
    ({ published, truth, readers }) =>
      (published !== undefined || isFile(truth)) &&
      readers.some(({ component, needs }) => component === 'kube-apiserver' && needs === 'restart'),
  );
  if (!isNeeded) return;
  const { namespace, name } = restartTurn;
  const resources = { apiGroups: ['coordination.k8s.io'], resources: ['leases'], resourceNames: [name] };
  const rule = { ...resources, verbs: ['get', 'create', 'patch', 'update'] };
  rules.set(namespace, [...(rules.get(namespace) ?? []), rule]);
}

function rulesByName(grants: readonly (readonly [RbacOptions['artefacts'], readonly string[]])[]): RulesByNamespace {
  const rules: RulesByNamespace = new Map();
  for (const [artefacts, verbs] of grants) {
    for (const [kind, resource] of [
      ['secret', 'secrets'],
      ['configMap', 'configmaps'],
    ] as const) {
      const names = new Map<string, string[]>();
      for (const { truth } of artefacts) {
        if (truth.kind === kind) names.set(truth.namespace, [...(names.get(truth.namespace) ?? []), truth.name]);
      }
      for (const [namespace, resourceNames] of names) {
        const rule = { apiGroups: [''], resources: [resource], resourceNames: resourceNames.toSorted(), verbs };
        rules.set(namespace, [...(rules.get(namespace) ?? []), rule]);
      }
    }
  }
  for (const own of rules.values()) {
    own.push({ apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create'] });
  }
  return rules;
}

/** Leader leases by which use is proven: regen releases those whose holder was switched off, the syncer reads them. */
function addLeases(rules: RulesByNamespace, artefacts: RbacOptions['artefacts'], verbs: readonly string[]): void {
  const names = new Map<string, Set<string>>();
  for (const { proof } of artefacts.flatMap(({ readers }) => readers)) {
    if (proof.kind !== 'lease') continue;
    names.set(proof.namespace, (names.get(proof.namespace) ?? new Set()).add(proof.name));
  }
  for (const [namespace, own] of names) {
    const rule = {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      resourceNames: [...own].toSorted(),
      verbs,
    };
    rules.set(namespace, [...(rules.get(namespace) ?? []), rule]);
  }
}

function account(name: string, namespace: string): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { namespace, name, labels: ownLabel },
    automountServiceAccountToken: false,
  };
}

/**
 * A token without an end: it must still be good after years off. It is not listed in the ServiceAccount's `.secrets`,
 * because kube-controller-manager removes listed ones that were not used for a year (legacy_serviceaccount_token_cleaner.go).
 */
function token(name: string, namespace: string): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      namespace,
      name: `${name}-token`,
      labels: ownLabel,
      annotations: { 'kubernetes.io/service-account.name': name },
    },
    type: 'kubernetes.io/service-account-token',
  };
}

interface Grant {
  readonly identity: Identity;
  /** Namespace of the ServiceAccount. */
  readonly account: string;
  /** Namespace of the Role. */
  readonly where: string;
  readonly rules: readonly Rule[];
}

function grant({ identity, account: from, where, rules }: Grant): Manifest[] {
  const metadata = { namespace: where, name: accountName(identity), labels: ownLabel };
  return [
    { apiVersion: rbacVersion, kind: 'Role', metadata, rules },
    {
      apiVersion: rbacVersion,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: rbacGroup, kind: 'Role', name: accountName(identity) },
      subjects: [{ kind: 'ServiceAccount', namespace: from, name: accountName(identity) }],
    },
  ];
}

/** APIServices show whether the proxy client is in use, CertificateSigningRequests whether the CSR signer is. */
function proofs(namespace: string): Manifest[] {
  const name = 'kube-cert-recovery-proofs';
  const rules = [
    { apiGroups: ['certificates.k8s.io'], resources: ['certificatesigningrequests'], verbs: ['list'] },
    { apiGroups: ['apiregistration.k8s.io'], resources: ['apiservices'], verbs: ['list'] },
  ];
  return grantEverywhere({ name, namespace, account: accountName('syncer'), rules });
}

/** A role of the whole cluster, for one ServiceAccount. */
function grantEverywhere(given: {
  readonly name: string;
  readonly namespace: string;
  readonly account: string;
  readonly rules: readonly Rule[];
}): Manifest[] {
  const { name, rules, ...bound } = given;
  const role: Manifest = { apiVersion: rbacVersion, kind: 'ClusterRole', metadata: { name, labels: ownLabel }, rules };
  return [role, bindEverywhere({ name, role: name, ...bound })];
}

function bindEverywhere(given: {
  readonly name: string;
  readonly role: string;
  readonly namespace: string;
  readonly account: string;
}): Manifest {
  const { name, role, namespace, account: to } = given;
  return {
    apiVersion: rbacVersion,
    kind: 'ClusterRoleBinding',
    metadata: { name, labels: ownLabel },
    roleRef: { apiGroup: rbacGroup, kind: 'ClusterRole', name: role },
    subjects: [{ kind: 'ServiceAccount', namespace, name: to }],
  };
}

/**
 * Requests for certificates are many and their names are not known beforehand; approval is limited by signer instead
 * (the verb `approve` on it: plugin/pkg/admission/certificates/approval). Nodes and their Leases are only read.
 */
function approverManifests(namespace: string): Manifest[] {
  const name = accountName('approver');
  const certificates = 'certificates.k8s.io';
  const rules = [
    { apiGroups: [certificates], resources: ['certificatesigningrequests'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: [certificates], resources: ['certificatesigningrequests/approval'], verbs: ['update'] },
    { apiGroups: [certificates], resources: ['signers'], resourceNames: [kubeletClientSigner], verbs: ['approve'] },
    { apiGroups: [''], resources: ['nodes'], verbs: ['get'] },
  ];
  const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get'] };
  // Events about what has no namespace live in this one.
  const events = { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create'] };
  return [
    account(name, namespace),
    account(bootstrapAccount, namespace),
    ...grantEverywhere({ name, namespace, account: name, rules }),
    ...grant({ identity: 'approver', account: namespace, where: 'kube-node-lease', rules: [leases] }),
    ...grant({ identity: 'approver', account: namespace, where: 'default', rules: [events] }),
    // Upstream's role for kubelets that have no certificate yet, without the one that has kcm approve by itself.
    bindEverywhere({
      name: bootstrapAccount,
      role: 'system:node-bootstrapper',
      namespace,
      account: bootstrapAccount,
    }),
    token(name, namespace),
    token(bootstrapAccount, namespace),
  ];
}

/** The API server's own name towards kubelets is in no group, so it needs the role by name: logs, exec, port-forward. */
function kubeletAccess(artefacts: RbacOptions['artefacts']): Manifest[] {
  if (!artefacts.some((artefact) => artefact.kind === 'target' && artefact.commonName === kubeletClient)) return [];
  return [
    {
      apiVersion: rbacVersion,
      kind: 'ClusterRoleBinding',
      metadata: { name: 'kube-cert-recovery-kubelet-client', labels: ownLabel },
      roleRef: { apiGroup: rbacGroup, kind: 'ClusterRole', name: 'system:kubelet-api-admin' },
      subjects: [{ apiGroup: rbacGroup, kind: 'User', name: kubeletClient }],
    },
  ];
}
