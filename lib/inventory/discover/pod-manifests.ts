// The manifests of static pods as their kubelet finds them: files of any name in its directory, YAML or JSON, but hidden
// ones (kubernetes/kubernetes: pkg/kubelet/config/file.go, extractFromDir). Impure: it reads files, and nothing else.
import { join } from 'node:path';
import { componentNames } from '../../components.ts';
import { runsComponent } from './documents.ts';
import type { MachineFiles } from './machine-files.ts';
import { secondManifests } from './second-manifests.ts';

export interface StaticPods {
  /** Texts by component. */
  readonly manifests: Readonly<Record<string, string | undefined>>;
  /** Paths of these, by component. */
  readonly files: Readonly<Record<string, string | undefined>>;
  readonly notes: readonly string[];
}

/**
 * A component's manifest is the file that has its name and `.yaml`, as kubeadm writes it; else the first, by name, with a
 * container that runs it. Never fails because of a file.
 */
export async function readStaticPods(
  directory: string,
  files: Pick<MachineFiles, 'text' | 'names'>,
): Promise<StaticPods> {
  const texts = new Map<string, string>();
  for (const name of await files.names(directory)) {
    const text = name.startsWith('.') ? undefined : await files.text(join(directory, name));
    if (text !== undefined) texts.set(name, text);
  }
  const nameOf = (component: string): string | undefined => {
    const usual = `${component}.yaml`;
    if (texts.has(usual)) return usual;
    return [...texts].find(([, text]) => text.includes(component) && runsComponent(text, component))?.[0];
  };
  const names = componentNames.map((component) => [component, nameOf(component)] as const);
  const paths = new Map([...texts].map(([name, text]) => [join(directory, name), text]));
  return {
    manifests: Object.fromEntries(names.map(([component, name = '']) => [component, texts.get(name)])),
    files: Object.fromEntries(names.map(([component, name]) => [component, name && join(directory, name)])),
    notes: secondManifests(paths),
  };
}
