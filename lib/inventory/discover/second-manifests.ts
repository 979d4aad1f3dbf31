// Static pods of which the kubelet finds two manifests: a copy kept next to the real one is one, too
// (kubernetes/kubernetes: pkg/kubelet/config/file.go, extractFromDir), and its flags may be the ones that count. Pure.
import type { ComponentName } from '../../components.ts';
import { fileFlags } from '../file-flags.ts';
import { argumentsOf } from './component-arguments.ts';
import { valuesIn } from './component-settings.ts';
import { commandLineOf } from './documents.ts';
import { componentMapping, isMapping } from '../../yaml.ts';

/** Returns one sentence for each such pod. `texts`: all files that the kubelet reads, by path. */
export function secondManifests(texts: ReadonlyMap<string, string>): readonly string[] {
  const filesOfPod = new Map<string, string[]>();
  for (const [file, text] of texts) {
    const pod = podIn(text);
    if (pod !== undefined) filesOfPod.set(pod, [...(filesOfPod.get(pod) ?? []), file]);
  }
  return [...filesOfPod].flatMap(([pod, files]) => (files.length > 1 ? [noteOf(pod, files)] : []));
}

/** Returns manifests of a component's pod that name other files. `texts`: all files that the kubelet reads, by path. */
export function differingManifests(
  component: ComponentName,
  own: string,
  texts: ReadonlyMap<string, string>,
): readonly string[] {
  const pod = podIn(texts.get(own) ?? '');
  const named = filesNamed(component, texts.get(own) ?? '');
  return [...texts].flatMap(([file, text]) =>
    file !== own && pod !== undefined && podIn(text) === pod && filesNamed(component, text) !== named ? [file] : [],
  );
}

/** Returns a key of the files it names: two texts with the same key name the same files. */
function filesNamed(component: ComponentName, manifest: string): string {
  const { words = [], variables, mounts } = commandLineOf(manifest, { component, source: '' }) ?? {};
  const values = [...valuesIn(argumentsOf(component, words, variables) ?? words)];
  const known = values.filter(([flag]) => (fileFlags[component][flag]?.holds ?? 'nothing') !== 'nothing');
  return JSON.stringify([known.toSorted(([one], [other]) => (one < other ? -1 : 1)), mounts]);
}

/** Returns `namespace/name`. A pod that names no namespace is in the default one. */
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
