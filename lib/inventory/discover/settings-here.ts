// The settings of all components of this machine, whichever way each is started, and its static pods. Impure: it reads
// files, and nothing else. Never fails because of a file.
import { basename, dirname, join } from 'node:path';
import { hostPathOf } from './component-settings.ts';
import { type ComponentSources, readComponents } from './components-here.ts';
import { type MachineFiles, readerBelow } from './machine-files.ts';
import type { SettingsHere } from './named-files.ts';
import { type ManifestPlace, readStaticPods, type StaticPods } from './pod-manifests.ts';

export interface SettingsPlace {
  readonly kubernetesDir: string;
  readonly kubeletDir: string;
  readonly root: string;
  /** Whether flags that `init adopt` has added count, too. */
  readonly added?: ComponentSources['added'];
}

interface SettingsFound {
  readonly pods: StaticPods;
  readonly settings: SettingsHere;
}

const usualDirectory = '/etc/kubernetes';

/** Whether processes and host name are this control plane's: files elsewhere belong to another machine. */
export const isOfThisSystem = (kubernetesDir: string): boolean => kubernetesDir === usualDirectory;

/** `files` reports what cannot be read. */
export async function settingsHere(place: SettingsPlace, files: MachineFiles): Promise<SettingsFound> {
  const { kubernetesDir, kubeletDir, root, added } = place;
  const sources = {
    kubeletConfiguration: join(kubeletDir, 'config.yaml'),
    units: readerBelow(root),
    processes: isOfThisSystem(kubernetesDir) ? readerBelow(root) : undefined,
    added,
  };
  const pods = await readStaticPods(await manifestPlace(kubernetesDir, sources, root), files);
  const { manifests, files: manifestFiles } = pods;
  return { pods, settings: await readComponents(files, { ...sources, manifests, manifestFiles }) };
}

/**
 * Returns the directory or the file of the kubelet's static pods, from its settings; kubeadm's, where nothing is at
 * that place. Files that cannot be read on the way are reported when they are read again.
 */
async function manifestPlace(
  kubernetesDir: string,
  sources: Omit<ComponentSources, 'manifests' | 'manifestFiles'>,
  root: string,
): Promise<ManifestPlace> {
  const usual = { directory: join(kubernetesDir, 'manifests') };
  const files = readerBelow(root);
  const { kubelet } = await readComponents(files, { ...sources, manifests: {}, manifestFiles: {} });
  const place = kubelet && hostPathOf(kubelet.values.get('pod-manifest-path')?.at(-1), kubelet);
  if (place === undefined || place === join(usualDirectory, 'manifests')) return usual;
  if ((await files.names(place)).length > 0) return { directory: place };
  return (await files.text(place)) === undefined ? usual : { directory: dirname(place), only: basename(place) };
}
