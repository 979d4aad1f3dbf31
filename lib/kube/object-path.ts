// Where the API has a Secret or a ConfigMap: for those who read, write, watch and delete one.

interface ObjectName {
  readonly kind: 'secret' | 'configMap';
  readonly namespace: string;
  readonly name: string;
}

const resources = { secret: 'secrets', configMap: 'configmaps' } as const;

/** Of all objects of this kind in the namespace. */
function collectionPath({ kind, namespace }: Omit<ObjectName, 'name'>): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/${resources[kind]}`;
}

export function objectPath(object: ObjectName): string {
  return `${collectionPath(object)}/${encodeURIComponent(object.name)}`;
}

/** A list of this object alone, which RBAC by resourceNames authorises; with `&watch=true` a watch of it. */
export function namedListPath(object: ObjectName): string {
  return `${collectionPath(object)}?fieldSelector=${encodeURIComponent(`metadata.name=${object.name}`)}`;
}
