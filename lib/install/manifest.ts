// Kubernetes manifests as plain data, and where the API keeps each kind that `init` makes. Pure.

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: keyof typeof resources;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** Of a Role or a ClusterRole. */
export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

const rbac = '/apis/rbac.authorization.k8s.io/v1';

/** Path of the collection by kind; `{namespace}` where objects live in one. */
export const resources = {
  Namespace: '/api/v1/namespaces',
  ServiceAccount: '/api/v1/namespaces/{namespace}/serviceaccounts',
  Secret: '/api/v1/namespaces/{namespace}/secrets',
  ConfigMap: '/api/v1/namespaces/{namespace}/configmaps',
  Role: `${rbac}/namespaces/{namespace}/roles`,
  RoleBinding: `${rbac}/namespaces/{namespace}/rolebindings`,
  ClusterRole: `${rbac}/clusterroles`,
  ClusterRoleBinding: `${rbac}/clusterrolebindings`,
} as const;

/** On everything that `init` makes besides the certificates, so that `uninstall` finds it again. */
export const ownLabel = { 'app.kubernetes.io/managed-by': 'kube-cert-recovery' } as const;

export function pathInApi({ kind, metadata: { namespace = '', name } }: Manifest): string {
  return `${resources[kind].replace('{namespace}', encodeURIComponent(namespace))}/${encodeURIComponent(name)}`;
}

export function manifestText({ kind, metadata: { namespace, name } }: Manifest): string {
  return `${kind} "${namespace === undefined ? name : `${namespace}/${name}`}"`;
}
