// Real requests for every resource that an API server has, by every verb that it knows of it: which of them are refused is
// the answer to what a user may do.
import type { Agent } from 'node:https';
import { apiRequest, type ApiTarget } from '../support/cluster/api-client.ts';

export interface ApiResource {
  readonly group: string;
  /** `/api/v1`, `/apis/GROUP/VERSION`. */
  readonly root: string;
  /** With its subresource. */
  readonly resource: string;
  readonly isNamespaced: boolean;
  readonly verbs: readonly string[];
}

type Asks = (path: string) => Promise<unknown>;

/** From discovery, each resource once. */
export async function apiResources(ask: Asks): Promise<readonly ApiResource[]> {
  interface Groups {
    readonly groups: readonly {
      readonly name: string;
      readonly versions: readonly { readonly groupVersion: string }[];
    }[];
  }
  interface Resources {
    readonly resources: readonly { readonly name: string; readonly namespaced: boolean; readonly verbs: string[] }[];
  }
  const { groups } = (await ask('/apis')) as Groups;
  const roots = groups.flatMap(({ name, versions }) =>
    versions.map(({ groupVersion }) => [name, `/apis/${groupVersion}`] as const),
  );
  const found = new Map<string, ApiResource>();
  for (const [group, root] of [['', '/api/v1'] as const, ...roots]) {
    for (const { name: resource, namespaced: isNamespaced, verbs } of ((await ask(root)) as Resources).resources) {
      const key = `${resource}.${group}`;
      if (!found.has(key)) found.set(key, { group, root, resource, isNamespaced, verbs });
    }
  }
  return [...found.values()];
}

export interface Asked {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly name: string | undefined;
  readonly namespace: string | undefined;
}

const methods: Readonly<Record<string, string>> = {
  create: 'POST',
  update: 'PUT',
  patch: 'PATCH',
  delete: 'DELETE',
  deletecollection: 'DELETE',
};
const ofCollection = new Set(['list', 'watch', 'deletecollection']);

/** Every way to ask for this resource; with `name` for that one object, also by lists and watches narrowed to it. */
export function waysToAsk(
  { group, resource, verbs, isNamespaced }: ApiResource,
  namespaces: readonly string[],
  name?: string,
): readonly Asked[] {
  const places = isNamespaced ? namespaces : [undefined];
  return places.flatMap((namespace) =>
    verbs
      .filter((verb) => name === undefined || (verb !== 'create' && verb !== 'deletecollection'))
      .map((verb) => ({ verb, group, resource, name, namespace })),
  );
}

/** Whether it is refused for want of rights. A name is made up where none is given. */
export async function isRefused(target: ApiTarget, { root }: ApiResource, asked: Asked): Promise<boolean> {
  const { verb, resource, namespace, name } = asked;
  const [plural = '', subresource] = resource.split('/', 2);
  const collection = `${root}${namespace === undefined ? '' : `/namespaces/${namespace}`}/${plural}`;
  const narrowed = new URLSearchParams({
    ...(name !== undefined && { fieldSelector: `metadata.name=${name}` }),
    ...(verb === 'watch' && { watch: 'true', timeoutSeconds: '1' }),
  });
  const isOne = subresource !== undefined || !(ofCollection.has(verb) || verb === 'create');
  const query = ofCollection.has(verb) ? `?${narrowed.toString()}` : '';
  const path = isOne
    ? `${collection}/${encodeURIComponent(name ?? 'nobody')}${subresource === undefined ? '' : `/${subresource}`}`
    : `${collection}${query}`;
  const method = methods[verb] ?? 'GET';
  const hasBody = method !== 'GET' && method !== 'DELETE'; // node:http announces no body of a DELETE
  const { status } = await apiRequest(target, path, { method, ...(hasBody && { body: {} }) });
  if (status === 401 || status === 429) throw new Error(`${method} ${path}: ${status} says nothing of rights`);
  return status === 403;
}

/** Asks in some number at a time. */
export async function forEach<T>(all: readonly T[], agent: Agent, ask: (one: T) => Promise<void>): Promise<void> {
  const rest = all.values();
  const work = async (): Promise<void> => {
    for (const one of rest) await ask(one);
  };
  await Promise.all(Array.from({ length: agent.maxSockets }, work));
}
