// Static pods of adopted machines, as the API shows them: mirror pods have the annotations of the manifests that kubelets
// run, also those of machines that are off.
import { type Api, readIfThere } from './apply.ts';
import { digestAnnotation } from './static-pods.ts';

interface PodList {
  readonly items?: readonly {
    readonly metadata?: { readonly name?: string; readonly annotations?: Readonly<Record<string, string>> };
    readonly spec?: { readonly nodeName?: string };
  }[];
}

/** The names of these machines, sorted. Throws what the API refuses. */
export async function adoptedNodes(api: Api): Promise<readonly string[]> {
  const pods = await readIfThere<PodList>(api, '/api/v1/namespaces/kube-system/pods');
  const adopted = (pods?.items ?? []).filter(({ metadata }) => digestAnnotation in (metadata?.annotations ?? {}));
  return [...new Set(adopted.map(({ metadata, spec }) => spec?.nodeName ?? metadata?.name ?? ''))].toSorted();
}
