// The manifests of static pods as their kubelet finds them: files of any name in its directory, YAML or JSON, but hidden
// ones (kubernetes/kubernetes: pkg/kubelet/config/file.go, extractFromDir). Impure: it reads files, and nothing else.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { componentNames } from '../../components.ts';
import { containersOf } from './documents.ts';

/** Texts of manifests by component. */
export type StaticPodManifests = Readonly<Record<string, string | undefined>>;

/**
 * A component's manifest is the file that has its name and `.yaml`, as kubeadm writes it; else the first, by name, that has a
 * container of that name. `read` returns undefined for a file that cannot be read. Never fails because of a file.
 */
export async function readStaticPods(
  directory: string,
  { root, read }: { readonly root: string; readonly read: (file: string) => Promise<string | undefined> },
): Promise<StaticPodManifests> {
  const texts = new Map<string, string>();
  for (const name of await namesIn(join(root, directory))) {
    const text = await read(join(directory, name));
    if (text !== undefined) texts.set(name, text);
  }
  const manifestOf = (component: string): string | undefined =>
    texts.get(`${component}.yaml`) ??
    [...texts.values()].find((text) => text.includes(component) && hasContainer(text, component));
  return Object.fromEntries(componentNames.map((component) => [component, manifestOf(component)]));
}

const hasContainer = (text: string, component: string): boolean =>
  containersOf(text).some(({ name }) => name === component);

async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries
      .filter((entry) => !entry.name.startsWith('.') && !entry.isDirectory())
      .map(({ name }) => name)
      .toSorted();
  } catch {
    return []; // absent, or not a directory: nothing runs from there
  }
}
