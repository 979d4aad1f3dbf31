// Target of a request, by its method and path, and whether a 2xx answer fits it. A load balancer's page, another
// program at the port or a confused cache also answer 200, and none of these may be taken for an object, or for its
// absence.
import { type Attempt, wrongAnswer } from './api-error.ts';
import type { KubeRequest } from './kube.ts';
import { collections } from './resources.ts';

/** Kinds by the last segment of their collection's path. */
const kinds: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(collections).map(([kind, path]) => [path.slice(path.lastIndexOf('/') + 1), kind]),
);

const verbs: Readonly<Record<string, string>> = { PUT: 'update', PATCH: 'apply', POST: 'create', DELETE: 'delete' };

function readVerb(query: URLSearchParams, named: boolean): string {
  if (['true', '1'].includes(query.get('watch') ?? '')) return 'watch';
  return named ? 'get' : 'list';
}

/** Resource that a path addresses; undefined where it addresses none, such as /readyz. */
function requestTarget(path: string) {
  const segments = new URL(path, 'https://api').pathname.split('/').filter((segment) => segment !== '');
  const root = segments.indexOf('api') === 0 ? 2 : segments.indexOf('apis') === 0 ? 3 : undefined;
  if (root === undefined) return undefined;
  const rest = segments.slice(root).map(decodeURIComponent);
  const namespaced = rest[0] === 'namespaces' && rest.length > 2;
  const [resource, name, subresource] = namespaced ? rest.slice(2) : rest;
  return { resource, namespace: namespaced ? rest[1] : undefined, name, subresource };
}

/** Returns the verb and the object of a request, from its method and path. */
export function describeRequest(method: string, path: string): Pick<Attempt, 'verb' | 'object'> {
  const url = new URL(path, 'https://api');
  const target = requestTarget(path);
  if (target === undefined) return { verb: verbs[method] ?? 'get', object: `"${url.pathname}"` };
  const { resource = '', namespace, name, subresource } = target;
  const selected = /(?:^|,)metadata\.name=([^,]+)/.exec(url.searchParams.get('fieldSelector') ?? '')?.[1];
  const named = [namespace, name ?? selected].filter((part) => part !== undefined).join('/');
  const kind = `${kinds[resource] ?? resource}${subresource === undefined ? '' : `/${subresource}`}`;
  return {
    verb: verbs[method] ?? readVerb(url.searchParams, name !== undefined),
    object: named === '' ? kind : `${kind} "${named}"`,
  };
}

interface Answered {
  readonly kind?: unknown;
  readonly metadata?: { readonly name?: unknown; readonly namespace?: unknown } | null;
}

/** Returns the body of a 2xx answer. Throws KubeWrongAnswer. */
export function parseAnswer(request: KubeRequest, attempt: Attempt, text: string): unknown {
  if (request.answer === 'text') return text;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw wrongAnswer(attempt, 'it is not JSON');
  }
  const problem = problemOf(request, value);
  if (problem !== undefined) throw wrongAnswer(attempt, problem);
  return value;
}

/** Kinds of an answer in another form. */
export const inPlace = { versions: 'Table', metadata: 'PartialObjectMetadataList' } as const;

function problemOf({ method, path, objects }: KubeRequest, value: unknown): string | undefined {
  const target = requestTarget(path);
  if (target?.resource === undefined) return undefined;
  const isObject = typeof value === 'object' && value !== null;
  const { kind, metadata }: Answered = isObject ? value : {};
  if (typeof kind !== 'string' || !/^[A-Za-z]{1,63}$/.test(kind)) return 'it is no object of Kubernetes';
  const wanted = wantedKind(method, target);
  if (method === 'DELETE' && kind === 'Status') return undefined;
  if (objects !== undefined && kind === inPlace[objects]) return undefined;
  if (wanted === undefined ? kind === 'Status' : kind !== wanted) return `it is of kind ${kind}`;
  const { name, namespace, subresource } = target;
  if (name === undefined || subresource !== undefined || method === 'DELETE') return undefined;
  const isIt = metadata?.name === name && (metadata.namespace ?? undefined) === namespace;
  return isIt ? undefined : `it is another ${kind}`;
}

/** Undefined: the kind is not known. */
function wantedKind(method: string, target: NonNullable<ReturnType<typeof requestTarget>>): string | undefined {
  const kind = kinds[target.resource ?? ''];
  if (kind === undefined || (target.subresource !== undefined && target.subresource !== 'approval')) return undefined;
  return method === 'GET' && target.name === undefined ? `${kind}List` : kind;
}
