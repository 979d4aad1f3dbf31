// The manifests of static pods, found the way of their kubelet: files of any name in its directory, YAML or JSON,
// except hidden ones (kubernetes/kubernetes: pkg/kubelet/config/file.go, extractFromDir). Impure: it reads files, and
// nothing else.
import { join } from 'node:path';
import { type ComponentName, componentNames, controlPlane } from '../../components.ts';
import { componentMapping, isMapping } from '../../yaml.ts';
import type { UnreadSettings } from '../flag-entries.ts';
import { commandLineOf, runsComponent } from './documents.ts';
import type { MachineFiles } from './machine-files.ts';
import { fileFlags } from '../file-flags.ts';
import { argumentsOf } from './component-arguments.ts';
import { valuesIn } from './component-settings.ts';

export interface ManifestPlace {
  readonly directory: string;
  /** The only file in it that the kubelet reads. */
  readonly only?: string;
}

export interface StaticPods {
  /** Texts by component. */
  readonly manifests: Readonly<Record<string, string | undefined>>;
  /** Paths of these, by component. */
  readonly files: Readonly<Record<string, string | undefined>>;
  /** Manifests that start no pod, and manifests with a second one for the same pod that names other files. */
  readonly unread: readonly UnreadSettings[];
  readonly notes: readonly string[];
}

/**
 * Reads the manifests. A component's manifest is the file that has its name and `.yaml`, like kubeadm's; else the
 * first, by name, with a container that runs it. Never fails because of a file.
 */
export async function readStaticPods(
  { directory, only }: ManifestPlace,
  files: Pick<MachineFiles, 'text' | 'names'>,
): Promise<StaticPods> {
  const texts = new Map<string, string>();
  for (const name of only === undefined ? await files.names(directory) : [only]) {
    // A file that cannot be read exists all the same.
    if (!name.startsWith('.')) texts.set(name, (await files.text(join(directory, name))) ?? '');
  }
  const nameOf = (component: string): string | undefined => {
    const usual = `${component}.yaml`;
    if (texts.has(usual)) return usual;
    return [...texts].find(([, text]) => text.includes(component) && runsComponent(text, component))?.[0];
  };
  const brokenOf = (component: ComponentName): string | undefined => {
    if (controlPlane[component].startedBy !== 'kubelet') return undefined;
    const name = nameOf(component);
    if (name !== undefined) return runsComponent(texts.get(name) ?? '', component) ? undefined : name;
    const others = [...texts].filter(([file]) => !componentNames.some((one) => file === `${one}.yaml`));
    return others.find(([, text]) => componentMapping(text) === undefined && namesPod(text, component))?.[0];
  };
  const names = componentNames.map((component) => [component, nameOf(component)] as const);
  const paths = new Map([...texts].map(([name, text]) => [join(directory, name), text]));
  return {
    manifests: Object.fromEntries(names.map(([component, name = '']) => [component, texts.get(name)])),
    files: Object.fromEntries(names.map(([component, name]) => [component, name && join(directory, name)])),
    unread: componentNames.flatMap((component) => {
      const broken = brokenOf(component);
      if (broken !== undefined) return [brokenManifest(component, join(directory, broken))];
      const own = join(directory, nameOf(component) ?? '');
      const [other] = differingManifests(component, own, paths);
      return other === undefined ? [] : [twoManifests(component, own, other)];
    }),
    notes: secondManifests(paths),
  };
}

const brokenManifest = (component: ComponentName, file: string): UnreadSettings => ({
  component,
  scope: 'manifest',
  file,
  message:
    `Cannot read the manifest "${file}": it is no pod that runs ${component}, so the kubelet starts none from it and ` +
    'the files of its flags are not known; restore it from a backup, or make it anew with "kubeadm init phase"',
});

const twoManifests = (component: ComponentName, file: string, other: string): UnreadSettings => ({
  component,
  scope: 'manifest',
  file,
  message:
    `Cannot know the files of ${component}: "${file}" and "${other}" are both its static pod and name other files, and ` +
    'which of them the kubelet runs is not defined; move one away',
});

/** Whether a text names the pod, even a torn one. */
const namesPod = (text: string, component: string): boolean =>
  new RegExp(`\\bname["']?:\\s*["']?${component}["']?\\s*(?:[,}]|$)`, 'm').test(text);

/**
 * Returns one sentence for each pod of which the kubelet finds two manifests: a copy kept next to the real one is one,
 * too, and its flags may be the ones that count. `texts`: all files that the kubelet reads, by path.
 */
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
