// The proxy client of kube-apiserver's aggregator is in use when an aggregated API is available: the aggregator's own
// check calls its backend with that certificate. Whether a backend answers is not ours to decide, so this is reported
// and never holds up recovery.
import { errorText } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { ProofResult } from './result.ts';

export interface ApiService {
  readonly metadata?: { readonly name?: string };
  readonly spec?: { readonly service?: unknown };
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly reason?: string }[];
  };
}

/** Only those with a Service go through the aggregator's proxy; the others are kube-apiserver's own. */
export function judgeProxied(services: readonly ApiService[], now: Date): ProofResult {
  const remote = services.filter(({ spec }) => spec?.service !== undefined && spec.service !== null);
  if (remote.length === 0) return { state: 'notApplicable', message: 'No aggregated API is registered', at: now };
  const conditionOf = (service: ApiService) => service.status?.conditions?.find(({ type }) => type === 'Available');
  const available = remote.find((service) => conditionOf(service)?.status === 'True');
  if (available !== undefined) {
    const name = available.metadata?.name ?? '';
    return { state: 'proven', message: `APIService "${name}" is available through the aggregator`, at: now };
  }
  const states = remote.map(
    (service) => `"${service.metadata?.name ?? ''}" (${conditionOf(service)?.reason ?? 'not checked yet'})`,
  );
  return { state: 'unproven', message: `No aggregated API is available: APIService ${states.join(', ')}`, at: now };
}

export interface ProveProxied {
  readonly connection: KubeConnection;
  readonly now: () => Date;
  readonly signal: AbortSignal;
}

export async function proveProxied({ connection, now, signal }: ProveProxied): Promise<ProofResult> {
  const path = '/apis/apiregistration.k8s.io/v1/apiservices';
  try {
    const list = await connection.request<{ readonly items?: readonly ApiService[] }>({ method: 'GET', path, signal });
    return judgeProxied(list.items ?? [], now());
  } catch (err) {
    return { state: 'unproven', message: errorText(err), at: now() };
  }
}
