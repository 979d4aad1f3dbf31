// The rights of each account, one by one, from the manifests by which they are granted.
import type { Manifest, RbacRule } from '../../../lib/install/apply.ts';

export interface Grant {
  /** Name of the ServiceAccount. */
  readonly account: string;
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  /** Undefined: of all. */
  readonly name: string | undefined;
  /** Undefined: in all, or of what has none. */
  readonly namespace: string | undefined;
}

interface Binding {
  readonly roleRef: { readonly kind: string; readonly name: string };
  readonly subjects: readonly { readonly kind: string; readonly name: string }[];
}

/** Through roles that are among the manifests, not through those of others. */
export function grantsOf(manifests: readonly Manifest[]): Grant[] {
  return manifests.flatMap((manifest) => {
    if (!manifest.kind.endsWith('RoleBinding') && manifest.kind !== 'ClusterRoleBinding') return [];
    const { roleRef, subjects } = manifest as unknown as Binding;
    const { namespace } = manifest.metadata;
    const role = manifests.find(
      ({ kind, metadata }) =>
        kind === roleRef.kind && metadata.name === roleRef.name && metadata.namespace === namespace,
    );
    const rules = (role?.['rules'] ?? []) as readonly RbacRule[];
    return subjects.flatMap(({ name: account }) =>
      rules.flatMap((rule) => each(rule).map((one): Grant => ({ ...one, account, namespace }))),
    );
  });
}

function each({ apiGroups, resources, verbs, resourceNames }: RbacRule): Omit<Grant, 'account' | 'namespace'>[] {
  const names: readonly (string | undefined)[] = resourceNames ?? [undefined];
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) => names.flatMap((name) => verbs.map((verb) => ({ verb, group, resource, name })))),
  );
}

export function grantText({ account, verb, group, resource, name, namespace }: Grant): string {
  const what = `${resource}${group === '' ? '' : `.${group}`}${name === undefined ? '' : ` ${name}`}`;
  return `${account}: ${verb} ${what}${namespace === undefined ? '' : ` in ${namespace}`}`;
}
