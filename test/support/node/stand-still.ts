// Our containers of a machine stand still while a test changes what they would act on: half of it looks broken.
import type { Node } from './node.ts';

/** `names`: of containers, as a regular expression of containerd's filters. The answer lets them go on. */
export async function standStill(node: Node, names: string): Promise<() => Promise<unknown>> {
  const select = `ctr -n k8s.io containers list 'labels."io.kubernetes.container.name"~="${names}"' --quiet`;
  const each = (verb: string): Promise<string> =>
    node.sh(`for id in $(${select}); do ctr -n k8s.io tasks ${verb} "$id" || true; done`);
  await each('pause');
  return () => each('resume');
}
