// Static pods of adopted machines, as the API shows them: mirror pods have the annotations of the manifests that kubelets
// run, also those of machines that are off.
import { type Api, readIfThere } from './apply.ts';
import { digestAnnotation } from './static-pods.ts';

export interface AdoptedPod {
  readonly nodeName: string;
  readonly annotations: Readonly<Record<string, string>>;
}

interface PodList {
  readonly items?: readonly {
    readonly metadata?: { readonly name?: string; readonly annotations?: Readonly<Record<string, string>> };
    readonly spec?: { readonly nodeName?: string };
  }[];
}

/** Throws what the API refuses. */
export async function adoptedPods(api: Api): Promise<readonly AdoptedPod[]> {
  const pods = await readIfThere<PodList>(api, '/api/v1/namespaces/kube-system/pods');
  return (pods?.items ?? [])
    .filter(({ metadata }) => digestAnnotation in (metadata?.annotations ?? {}))
    .map(({ metadata, spec }) => ({
      nodeName: spec?.nodeName ?? metadata?.name ?? '',
      annotations: metadata?.annotations ?? {},
    }));
}

/** Each once, sorted. */
export function nodesOf(pods: readonly AdoptedPod[]): readonly string[] {
  return [...new Set(pods.map(({ nodeName }) => nodeName))].toSorted();
}
