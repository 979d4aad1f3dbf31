// Static pods of which the kubelet finds two manifests: a copy that somebody has kept beside the real one is one, too
// (kubernetes/kubernetes: pkg/kubelet/config/file.go, extractFromDir), and its flags may be the ones that count. Pure.
import { componentMapping, isMapping } from '../../yaml.ts';

/** One sentence for each such pod. `texts`: all that the kubelet reads, by path. */
export function secondManifests(texts: ReadonlyMap<string, string>): readonly string[] {
  const filesOfPod = new Map<string, string[]>();
  for (const [file, text] of texts) {
    const pod = podIn(text);
    if (pod !== undefined) filesOfPod.set(pod, [...(filesOfPod.get(pod) ?? []), file]);
  }
  return [...filesOfPod].flatMap(([pod, files]) => (files.length > 1 ? [noteOf(pod, files)] : []));
}

/** `namespace/name`. A pod that names no namespace is in the default one. */
function podIn(manifest: string): string | undefined {
  const { kind, metadata } = componentMapping(manifest) ?? {};
  if (kind !== 'Pod' || !isMapping(metadata) || typeof metadata['name'] !== 'string') return undefined;
  const { namespace } = metadata;
  return `${typeof namespace === 'string' && namespace !== '' ? namespace : 'default'}/${metadata['name']}`;
}

function noteOf(pod: string, files: readonly string[]): string {
  const named = files.map((file) => `"${file}"`).join(' and ');
  const are = files.length === 2 ? 'are both' : 'are all';
  return (
    `${named} ${are} the static pod "${pod}": the kubelet reads every file there whose name does not begin with a dot, ` +
    'and which of them it runs is not defined; move one away'
  );
}
