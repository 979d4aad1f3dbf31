// RBAC rules for the modes' requests: every object of the inventory by name, and no verb that is not used. Pure.
//
// Creation can be limited by name only when it is done by a PATCH (server-side apply): the API server then checks both
// `patch` and `create` with the object's name; a POST carries no name and is refused. Not limited by name are Events
// (create only), and lists of CertificateSigningRequests and APIServices, which proofs read.
import { clientAuthoritiesName, firstApprovalsName, issuedCertificatesName } from '../bootstrap-identity.ts';
import { type AddressSettings, readsOfSource } from '../config/address-settings.ts';
import { openshiftObjects } from '../inventory/discover/openshift.ts';
import { proofKinds } from '../inventory/reader.ts';
import { clusterInfoName } from '../kube/cluster-info.ts';
import type { LeaseName } from '../kube/leases.ts';
import { isFile, isOnlyRead } from '../inventory/places.ts';
import { kubeadmConfig } from '../inventory/discover/certificate-validity.ts';
import type { Artefact, Inventory, Proof, ResolvedArtefact } from '../inventory/model.ts';
import { renewalLease, restartLease } from '../restart/machine-lease.ts';
import { type KubeletSigner, kubeletSigners } from '../well-known.ts';
import type { RbacRule } from './apply.ts';

export type Artefacts = readonly (Artefact | ResolvedArtefact)[];
/** Rules of Roles by namespace. */
export type RulesByNamespace = ReadonlyMap<string, readonly RbacRule[]>;

const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] } as const;
const createEvents: RbacRule = { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create'] };
const certificates = 'certificates.k8s.io';

/**
 * regen reads also objects that it never writes: key pairs are checked, and missing opaque objects are reported.
 * Without the right to read one, that artefact would count as out of reach, and regen would never be ready. It releases
 * leader Leases whose holder was switched off.
 */
export function regenRules(artefacts: Artefacts, waitsForNodes = false): RulesByNamespace {
  const made = artefacts.filter((artefact) => !isOnlyRead(artefact));
  const onlyRead = artefacts.filter(isOnlyRead);
  return byNamespace([
    ...objectRules(made, ['get', 'update', 'patch', 'create']),
    ...objectRules(onlyRead, ['get']),
    ...eventRules(artefacts),
    ...leaseRules(artefacts, ['get', 'update']),
    ...(waitsForNodes ? [['kube-node-lease', { ...leases, verbs: ['list'] }] as const] : []),
  ]);
}

/** Lists of Nodes, which say what CAs they hold, where a new CA waits for them (lib/plan/gather-nodes.ts). */
export const nodesRules: readonly RbacRule[] = [{ apiGroups: [''], resources: ['nodes'], verbs: ['list'] }];

/** `reacts`: restarts components that must read their files again, kube-apiserver on one machine at a time. */
export function syncerRules(artefacts: Artefacts, { reacts }: { readonly reacts: boolean }): RulesByNamespace {
  const published = artefacts.filter((artefact) => artefact.published !== undefined);
  return byNamespace([
    ...objectRules(published, ['get', 'list', 'watch']),
    ...eventRules(published),
    ...leaseRules(artefacts, ['get']),
    ...(reacts ? restartLeaseRules(artefacts) : []),
  ]);
}

/** Lists for proofs of use: APIServices for the proxy client, CertificateSigningRequests for the CSR signer. */
export function proofRules(artefacts: Artefacts): readonly RbacRule[] {
  const declared = new Set<string>(proofsOf(artefacts).map(({ kind }) => kind));
  return Object.entries(proofKinds).flatMap(([kind, { lists }]) => {
    if (lists === undefined || !declared.has(kind)) return [];
    return [{ apiGroups: [lists.apiGroup], resources: [lists.resource], verbs: ['list'] }];
  });
}

/** Objects of the whole cluster that contain host names (lib/inventory/discover/openshift.ts). */
export const namesRules: readonly RbacRule[] = [
  {
    apiGroups: [openshiftObjects.group],
    resources: openshiftObjects.resources,
    resourceNames: [openshiftObjects.name],
    verbs: ['get'],
  },
];

/** Kinds of requests that a process of mode approver approves, and sources of addresses for them. */
export interface ApproverGrant {
  readonly signers: readonly KubeletSigner[];
  readonly addresses: readonly AddressSettings[];
}

/** The least rights. */
const clientsOnly: ApproverGrant = { signers: ['kubelet-client'], addresses: [] };

/**
 * Requests for certificates are many and their names are not known beforehand; approval is limited by signer instead
 * (the verb `approve` on it: plugin/pkg/admission/certificates/approval). Nodes are only read, and listed only where
 * one must be compared with all others.
 */
export function approverClusterRules({ signers, addresses }: ApproverGrant = clientsOnly): readonly RbacRule[] {
  const resourceNames = signers.map((name) => kubeletSigners[name]);
  const reads = addresses.flatMap(readsOfSource);
  const ofNodes = reads.filter(({ resource }) => resource === 'nodes').flatMap(({ verbs }) => verbs);
  const others = new Map(
    reads
      .filter(({ resource }) => resource !== 'nodes')
      .map(({ apiGroup, resource, verbs }) => [
        `${apiGroup}/${resource}`,
        { apiGroups: [apiGroup], resources: [resource], verbs },
      ]),
  );
  return [
    { apiGroups: [certificates], resources: ['certificatesigningrequests'], verbs: ['list', 'watch'] },
    { apiGroups: [certificates], resources: ['certificatesigningrequests/approval'], verbs: ['update'] },
    { apiGroups: [certificates], resources: ['signers'], resourceNames, verbs: ['approve'] },
    { apiGroups: [''], resources: ['nodes'], verbs: [...new Set(['get', ...ofNodes])] },
    ...(signers.includes('kubelet-serving') ? clusterNameRules : []),
    ...others.values(),
  ];
}

/** Services, by name and by address: no node may get their names (lib/approver/cluster-facts.ts). */
const clusterNameRules: readonly RbacRule[] = [
  { apiGroups: [''], resources: ['services'], verbs: ['get'] },
  { apiGroups: ['networking.k8s.io'], resources: ['servicecidrs'], verbs: ['list'] },
];

/** ConfigMaps in which approvers keep lasting state. */
export const approverRecords: readonly string[] = [firstApprovalsName, issuedCertificatesName];

/**
 * Verb for the ConfigMap that machines follow as their kubelets. RBAC alone grants it: the Node authorizer lets a kubelet
 * read each ConfigMap that a Pod of its node names, no matter who created both (plugin/pkg/auth/authorizer/node).
 */
export const followVerb = 'follow';

/** The pod of each node reads one ConfigMap, and Events tell what is wrong with it. `more`: further verbs. */
export const nodeCaRules = (namespace: string, name: string, more: readonly string[] = []): RulesByNamespace => {
  const verbs = ['get', 'list', 'watch', ...more];
  const configMap = { apiGroups: [''], resources: ['configmaps'], resourceNames: [name], verbs };
  return byNamespace([
    [namespace, configMap],
    [namespace, createEvents],
  ]);
};

/** Verbs without `list` and `watch`: a worker knows only the name of its own request. */
export const workerRules: readonly RbacRule[] = [
  { apiGroups: [certificates], resources: ['certificatesigningrequests'], verbs: ['create', 'get'] },
];

/** Events about objects without a namespace are created in `default`. `namespace`: namespace of the account. */
export function approverRules(namespace: string, { signers }: ApproverGrant = clientsOnly): RulesByNamespace {
  const configMaps = { apiGroups: [''], resources: ['configmaps'] };
  const clients: readonly Placed[] = [
    ['kube-node-lease', { ...leases, verbs: ['get'] }],
    // CAs by which the API server verifies clients: upstream's rule (extension-apiserver-authentication-reader).
    ['kube-system', { ...configMaps, resourceNames: [clientAuthoritiesName], verbs: ['get'] }],
    [namespace, { ...configMaps, resourceNames: approverRecords, verbs: ['get', 'update'] }],
  ];
  return byNamespace([['default', createEvents], ...(signers.includes('kubelet-client') ? clients : [])]);
}

type Placed = readonly [namespace: string, rule: RbacRule];

function byNamespace(placed: readonly Placed[]): RulesByNamespace {
  const grouped = Map.groupBy(placed, ([namespace]) => namespace);
  return new Map([...grouped].map(([namespace, own]) => [namespace, own.map(([, rule]) => rule)]));
}

function objectRules(artefacts: Artefacts, verbs: readonly string[]): Placed[] {
  const resources = [['secret', 'secrets'] as const, ['configMap', 'configmaps'] as const];
  return resources.flatMap(([kind, resource]) => {
    const named = artefacts.flatMap(({ location }) => (location.kind === kind ? [location] : []));
    const rule = { apiGroups: [''], resources: [resource] };
    return namesByNamespace(named).map(([namespace, names]): Placed => [namespace, { ...rule, ...names, verbs }]);
  });
}

function eventRules(artefacts: Artefacts): Placed[] {
  const namespaces = artefacts.flatMap(({ location }) => ('namespace' in location ? [location.namespace] : []));
  return [...new Set(namespaces)].map((namespace) => [namespace, createEvents]);
}

/** Leader leases that prove use. */
function leaseRules(artefacts: Artefacts, verbs: readonly string[]): Placed[] {
  const named = artefacts
    .flatMap(({ readers }) => readers.map(({ proof }) => proof))
    .filter((proof) => proof.kind === 'lease');
  return namesByNamespace(named).map(([namespace, names]): Placed => [namespace, { ...leases, ...names, verbs }]);
}

/** Restart Lease, where kube-apiserver must be restarted for observed artefacts, one machine after the other. */
function restartLeaseRules(artefacts: Artefacts): Placed[] {
  const isNeeded = observed(artefacts).some(({ readers }) =>
    readers.some(({ component, needs }) => component === 'kube-apiserver' && needs === 'restart'),
  );
  return isNeeded ? [takes(restartLease)] : [];
}

/** Settings of a control-plane host that need rights. */
export interface HostGrant {
  readonly inventory: Pick<Inventory, 'artefacts' | 'discover'>;
  /** Whether --renew-before is set. */
  readonly renewsAhead: boolean;
}

/**
 * Rules for the control-plane hosts: they renew ahead of time one after the other, release leader Leases that they left
 * behind themselves, read in the Leases also the time of other machines, read kubeadm's certificate lifetimes, and
 * publish a CA that they have renewed where kubeadm does.
 */
export const hostRules = ({ inventory: { artefacts, discover }, renewsAhead }: HostGrant): RulesByNamespace => {
  const configMap = ({ namespace, name }: LeaseName, ...verbs: readonly string[]): Placed => [
    namespace,
    { apiGroups: [''], resources: ['configmaps'], resourceNames: [name], verbs },
  ];
  return byNamespace([
    ...(renewsAhead ? [takes(renewalLease)] : []),
    ...leaseRules(
      artefacts.filter(({ location }) => isFile(location)),
      ['get', 'update'],
    ),
    ...(discover === 'kubeadm' ? [configMap(kubeadmConfig, 'get'), configMap(clusterInfoName, 'get', 'update')] : []),
  ]);
};

const takes = ({ namespace, name }: LeaseName): Placed => [
  namespace,
  { ...leases, resourceNames: [name], verbs: ['get', 'create', 'patch', 'update'] },
];

/** Artefacts with files on disk: the syncer needs proofs only for these. */
function observed(artefacts: Artefacts): Artefacts {
  return artefacts.filter(({ published, location }) => published !== undefined || isFile(location));
}

function proofsOf(artefacts: Artefacts): readonly Proof[] {
  return observed(artefacts).flatMap(({ readers }) => readers.map(({ proof }) => proof));
}

function namesByNamespace(
  named: readonly { readonly namespace: string; readonly name: string }[],
): readonly (readonly [namespace: string, names: { readonly resourceNames: readonly string[] }])[] {
  return [...Map.groupBy(named, ({ namespace }) => namespace)].map(([namespace, own]) => {
    return [namespace, { resourceNames: [...new Set(own.map(({ name }) => name))].toSorted() }];
  });
}
