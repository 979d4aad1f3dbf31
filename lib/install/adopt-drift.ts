// Whether a manifest still has what `init adopt` added to it. Pure. What is asked for is ours alone: whatever a person
// has changed beside it is no drift, and kubeadm given our patches writes what has none.
import { flagArguments } from './component-flags.ts';
import { containerName, digestAnnotation, digestOf, type PodAddition, type PodManifest } from './static-pods.ts';

/** What is missing, as the end of a sentence that begins with the manifest; undefined: nothing. */
export function driftOf({ metadata, spec }: PodManifest, addition: PodAddition): string | undefined {
  const { pod, layout } = addition;
  const digest = metadata.annotations?.[digestAnnotation];
  const hasOwn = spec.containers.some(({ name }) => name === containerName);
  if (digest === undefined && !hasOwn) return 'has nothing of this program: it has been written anew';
  if (digest !== digestOf(addition)) return 'has not what the last adoption added';
  if (!hasOwn) return `lacks the container "${containerName}"`;
  const component = spec.containers.find(({ name }) => name === pod);
  const words = [...(component?.command ?? []), ...(component?.args ?? [])];
  const flag = flagArguments(addition.flags).find((one) => !words.includes(one));
  if (flag !== undefined) return `lacks the flag ${flag.replace(/=.*/s, '')} that names a file of this program`;
  const paths = (component?.volumeMounts ?? []).map(({ mountPath }) => mountPath);
  const path = [layout.certs, layout.kubeconfigs].find((one) => !paths.includes(one));
  return path === undefined ? undefined : `does not mount "${path}" into ${pod}`;
}
