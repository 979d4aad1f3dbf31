// Whether an answer of 2xx is one to what was asked. A load balancer's page, another program at the port or a confused
// cache also answer 200, and nothing of that may be taken for an object, or for its absence.
import type { RecoveryError } from '../errors.ts';
import { kindOf, requestTarget, wrongAnswer } from './api-error.ts';
import type { Attempt } from './api-error.ts';
import type { KubeRequest } from './kube.ts';

interface Answered {
  readonly kind?: unknown;
  readonly metadata?: { readonly name?: unknown; readonly namespace?: unknown } | null;
}

/** The body of a 2xx answer. Throws KubeWrongAnswer. */
export function parseAnswer(request: KubeRequest, attempt: Attempt, text: string): unknown {
  if (request.answer === 'text') return text;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw wrongAnswer(attempt, 'it is not JSON');
  }
  const problem = problemOf(request, value);
  if (problem !== undefined) throw problem(attempt);
  return value;
}

function problemOf({ method, path }: KubeRequest, value: unknown): ((attempt: Attempt) => RecoveryError) | undefined {
  const target = requestTarget(path);
  if (target?.resource === undefined) return undefined;
  const isObject = typeof value === 'object' && value !== null;
  const { kind, metadata }: Answered = isObject ? value : {};
  if (typeof kind !== 'string' || !/^[A-Za-z]{1,63}$/.test(kind)) {
    return (attempt) => wrongAnswer(attempt, 'it is no object of Kubernetes');
  }
  const wanted = wantedKind(method, target);
  if (method === 'DELETE' && kind === 'Status') return undefined;
  if (wanted === undefined ? kind === 'Status' : kind !== wanted) {
    return (attempt) => wrongAnswer(attempt, `it is of kind ${kind}`);
  }
  const { name, namespace, subresource } = target;
  if (name === undefined || subresource !== undefined || method === 'DELETE') return undefined;
  const isIt = metadata?.name === name && (metadata.namespace ?? undefined) === namespace;
  return isIt ? undefined : (attempt) => wrongAnswer(attempt, `it is another ${kind}`);
}

/** Undefined: not known. */
function wantedKind(method: string, target: NonNullable<ReturnType<typeof requestTarget>>): string | undefined {
  const kind = kindOf(target.resource ?? '');
  if (kind === undefined || (target.subresource !== undefined && target.subresource !== 'approval')) return undefined;
  return method === 'GET' && target.name === undefined ? `${kind}List` : kind;
}
