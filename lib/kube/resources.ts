// Paths of objects in the API: the one table of kinds. Pure.

const rbac = '/apis/rbac.authorization.k8s.io/v1';
const registration = '/apis/admissionregistration.k8s.io/v1';

/** Path of the collection by kind; `{namespace}` where its objects are namespaced. */
export const collections = {
  Namespace: '/api/v1/namespaces',
  Node: '/api/v1/nodes',
  Service: '/api/v1/namespaces/{namespace}/services',
  ServiceCIDR: '/apis/networking.k8s.io/v1/servicecidrs',
  Secret: '/api/v1/namespaces/{namespace}/secrets',
  ConfigMap: '/api/v1/namespaces/{namespace}/configmaps',
  ServiceAccount: '/api/v1/namespaces/{namespace}/serviceaccounts',
  DaemonSet: '/apis/apps/v1/namespaces/{namespace}/daemonsets',
  Deployment: '/apis/apps/v1/namespaces/{namespace}/deployments',
  NetworkPolicy: '/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies',
  Lease: '/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases',
  Event: '/apis/events.k8s.io/v1/namespaces/{namespace}/events',
  Role: `${rbac}/namespaces/{namespace}/roles`,
  RoleBinding: `${rbac}/namespaces/{namespace}/rolebindings`,
  ClusterRole: `${rbac}/clusterroles`,
  ClusterRoleBinding: `${rbac}/clusterrolebindings`,
  CertificateSigningRequest: '/apis/certificates.k8s.io/v1/certificatesigningrequests',
  MutatingWebhookConfiguration: `${registration}/mutatingwebhookconfigurations`,
  ValidatingWebhookConfiguration: `${registration}/validatingwebhookconfigurations`,
  CustomResourceDefinition: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  APIService: '/apis/apiregistration.k8s.io/v1/apiservices',
  EndpointSlice: '/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices',
} as const;

export type Kind = keyof typeof collections;
/** Kinds whose objects lie in a namespace. */
export type NamespacedKind = {
  [K in Kind]: (typeof collections)[K] extends `${string}/{namespace}/${string}` ? K : never;
}[Kind];

/** Kinds by their names in inventories. */
export const apiKinds = { secret: 'Secret', configMap: 'ConfigMap' } as const;

/** Path of all objects of a kind; without a namespace, in all namespaces. */
export function collectionPath(kind: Kind, namespace?: string): string {
  return namespace === undefined
    ? collections[kind].replace('/namespaces/{namespace}', '')
    : collections[kind].replace('{namespace}', encodeURIComponent(namespace));
}

export function resourcePath(
  kind: Kind,
  { namespace, name }: { readonly namespace?: string; readonly name: string },
): string {
  return `${collectionPath(kind, namespace)}/${encodeURIComponent(name)}`;
}

/** A value escaped for a field selector (apimachinery, pkg/fields/selector.go, EscapeValue): `a\,b` of `a,b`. */
export const selectorValue = (value: string): string => value.replaceAll(/[\\,=]/g, String.raw`\$&`);

/** Adds parameters to the query of a path. */
export function withQuery(path: string, parameters: Record<string, string>): string {
  const query = new URLSearchParams(parameters).toString();
  return query === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${query}`;
}

/** `apiVersion` and `kind` of an object. */
export function typeMeta(kind: Kind): { readonly apiVersion: string; readonly kind: Kind } {
  const [, apiVersion = ''] = /^\/apis?\/(.*?v\d+)\//.exec(collections[kind]) ?? [];
  return { apiVersion, kind };
}
