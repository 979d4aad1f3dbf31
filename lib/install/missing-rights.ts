// Rights granted by `init host` that a host lacks according to the API server: a SelfSubjectAccessReview for each,
// which every identity may create.
import type { KubeConnection } from '../kube/kube.ts';
import { hostRules, type HostGrant, type RulesByNamespace } from './rules.ts';

interface Right {
  readonly namespace: string;
  readonly group: string;
  readonly resource: string;
  /** Absent: of all objects there. */
  readonly name?: string;
  readonly verb: string;
}

/** One right for each verb on each object. Pure. */
export const hostRights = (grant: HostGrant): readonly Right[] => rightsIn(hostRules(grant));

export function rightsIn(byNamespace: RulesByNamespace): readonly Right[] {
  return [...byNamespace].flatMap(([namespace, rules]) =>
    rules.flatMap(({ apiGroups, resources, resourceNames, verbs }) => {
      const objects = resourceNames?.map((name) => ({ name })) ?? [{}];
      return apiGroups.flatMap((group) =>
        resources.flatMap((resource) =>
          objects.flatMap((object) => verbs.map((verb) => ({ namespace, group, resource, ...object, verb }))),
        ),
      );
    }),
  );
}

interface Review {
  readonly status?: { readonly allowed?: boolean };
}

const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';

interface Asking {
  /** Connection with the host's identity. */
  readonly connection: Pick<KubeConnection, 'request'>;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** Missing rights in words, one text for each object; empty where none is missing. Throws errors of the connection. */
export async function missingRights(grant: HostGrant, asking: Asking): Promise<readonly string[]> {
  const missing: Right[] = [];
  for (const right of hostRights(grant)) if (!(await mayDo(right, asking))) missing.push(right);
  return rightsText(missing);
}

/** Whether the API server grants the right to the identity of the connection. Throws errors of the connection. */
export async function mayDo(right: Right, { connection, ...asking }: Asking): Promise<boolean> {
  const body = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: right },
  };
  const { status } = await connection.request<Review>({ method: 'POST', path, body, ...asking });
  return status?.allowed === true;
}

/** `get, update leases "kube-system/kube-scheduler"`. Pure. */
export function rightsText(rights: readonly Right[]): readonly string[] {
  const objectOf = ({ namespace, resource, name }: Right): string =>
    name === undefined ? `${resource} in "${namespace}"` : `${resource} "${namespace}/${name}"`;
  return [...Map.groupBy(rights, objectOf)].map(
    ([object, own]) => `${own.map(({ verb }) => verb).join(', ')} ${object}`,
  );
}
