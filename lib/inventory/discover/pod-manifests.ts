// The manifests of static pods, found the way of their kubelet: files of any name in its directory, YAML or JSON,
// except hidden ones (kubernetes/kubernetes: pkg/kubelet/config/file.go, extractFromDir). Impure: it reads files, and
// nothing else.
import { join } from 'node:path';
import { type ComponentName, componentNames, controlPlane } from '../../components.ts';
import { componentMapping } from '../../yaml.ts';
import type { UnreadSettings } from '../unread-entries.ts';
import { runsComponent } from './documents.ts';
import type { MachineFiles } from './machine-files.ts';
import { differingManifests, secondManifests } from './second-manifests.ts';

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
