// What `init` leaves on this host, and where. Pure. Everything lies below one directory; only files whose location is on
// disk (etcd's) lie at the paths that the inventory names.
import { join } from 'node:path';
import type { ResolvedArtefact } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../store/store.ts';

/** Of all that `init` writes on a machine. */
export const defaultDirectory = '/etc/kubernetes/kube-cert-recovery';

export interface HostLayout {
  readonly directory: string;
  /** The syncer's destination: `secrets/<name>/<key>` and `configmaps/<name>/<key>`. */
  readonly certs: string;
  readonly kubeconfigs: string;
  /** Every object of the first generation, signers' keys included, until `init` has uploaded them. Mode 0700. */
  readonly staging: string;
  /** Tokens of regen and of syncer, one directory each. Mode 0700. */
  readonly credentials: string;
  /** Written last by `init render`: the first generation is complete. Holds no secrets. */
  readonly generationFile: string;
  readonly configFile: string;
}

export function hostLayout(directory: string): HostLayout {
  return {
    directory,
    certs: join(directory, 'certs'),
    kubeconfigs: join(directory, 'kubeconfigs'),
    staging: join(directory, 'staging'),
    credentials: join(directory, 'credentials'),
    generationFile: join(directory, 'generation.json'),
    configFile: join(directory, 'config.yaml'),
  };
}

/** What `init adopt --repair` goes by; there where this machine is adopted. Beside the directories of the pods. */
export function adoptionFile(directory: string): string {
  return join(directory, 'adoption.json');
}

/** A static pod's manifest as it was before ours was added. */
export function formerManifest({ directory }: HostLayout): string {
  return join(directory, 'former-manifest.yaml');
}

interface PublishedPlace {
  readonly directory: string;
  /** Of its files. */
  readonly mode: 0o600 | 0o644;
}

/** Where the syncer writes a published object; undefined for what it does not write. */
export function publishedPlace(
  { location, published }: Pick<ResolvedArtefact, 'location' | 'published'>,
  { certs }: Pick<HostLayout, 'certs'>,
): PublishedPlace | undefined {
  if (published === undefined || isFile(location)) return undefined;
  return location.kind === 'secret'
    ? { directory: join(certs, 'secrets', location.name), mode: 0o600 }
    : { directory: join(certs, 'configmaps', location.name), mode: 0o644 };
}

/** The file that a component reads for one entry of an artefact; undefined when it is on no disk. */
export function fileOf(artefact: ResolvedArtefact, key: string, layout: HostLayout): string | undefined {
  const { location } = artefact;
  if (location.kind === 'pemPair') {
    return { [certificateKey]: location.certFile, [privateKeyKey]: location.keyFile }[key];
  }
  if (location.kind === 'pemFile') return key === caBundleKey ? location.file : undefined;
  const place = publishedPlace(artefact, layout);
  return place && join(place.directory, key);
}

export function kubeconfigFile({ kubeconfigs }: HostLayout, component: string): string {
  return join(kubeconfigs, `${component}.kubeconfig`);
}
