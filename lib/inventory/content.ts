// What is inside an artefact, under which keys, and in which files its readers find it: the syncer's layout below its
// destination directory for objects of the API, the paths themselves for locations on disk. Pure.
import { join } from 'node:path';
import type { Artefact, Kubeconfigs, Location, ResolvedArtefact } from './model.ts';
import { originalOf } from './order.ts';

/** Keys of the entries, as kubernetes.io/tls Secrets and CA bundle ConfigMaps name them. */
export const certificateKey = 'tls.crt';
export const privateKeyKey = 'tls.key';
export const caBundleKey = 'ca-bundle.crt';

/** What the content must be, as far as it is understood. */
export type ArtefactContent =
  /** A certificate and its key. */
  | { readonly kind: 'pair' }
  | { readonly kind: 'bundle' }
  /** A key pair without certificate. */
  | { readonly kind: 'keyPair'; readonly privateKey: string; readonly publicKey: string }
  /** Kubeconfigs, each an entry; all must be whole. */
  | { readonly kind: 'kubeconfigs'; readonly of: Kubeconfigs }
  /** Not known, and for its readers to judge: written as it is, unless it holds a pair whose halves contradict each other. */
  | { readonly kind: 'opaque' };

/** A copy, also of another copy, must be what its original is. */
export function artefactContent<T extends Artefact | ResolvedArtefact>(
  artefact: T,
  artefacts: readonly T[],
): ArtefactContent {
  const original: Artefact | ResolvedArtefact | undefined = originalOf(artefacts, artefact);
  switch (original?.kind) {
    case 'signer':
    case 'target':
      return { kind: 'pair' };
    case 'caBundle':
    case 'composedBundle':
      return { kind: 'bundle' };
    case 'external':
      return { kind: original.location.kind === 'secret' ? 'pair' : 'bundle' };
    case 'keyPair':
      return { kind: 'keyPair', privateKey: original.privateKey, publicKey: original.publicKey };
    case 'kubeconfigs':
      return { kind: 'kubeconfigs', of: original };
    case 'copy':
    case 'opaque':
    case undefined:
      return { kind: 'opaque' };
  }
}

/** Entries that must be there. */
export function keysOf(content: ArtefactContent): readonly string[] {
  switch (content.kind) {
    case 'pair':
      return [certificateKey, privateKeyKey];
    case 'bundle':
      return [caBundleKey];
    case 'keyPair':
      return [content.privateKey, content.publicKey];
    case 'kubeconfigs':
      return content.of.servers.map(({ key }) => key);
    case 'opaque':
      return [];
  }
}

/** By kind of object: the directory below the syncer's destination, and the mode of the files. */
export const publishedKinds = {
  secret: { directory: 'secrets', mode: 0o600 },
  configMap: { directory: 'configmaps', mode: 0o644 },
} as const;

interface PublishedPlace {
  readonly directory: string;
  /** Of its files. */
  readonly mode: 0o600 | 0o644;
}

/** Where the syncer writes an artefact; undefined for what it does not write. */
export function publishedPlace(
  { location, published }: Pick<Artefact, 'location' | 'published'>,
  destinationDir: string,
): PublishedPlace | undefined {
  if (published === undefined || (location.kind !== 'secret' && location.kind !== 'configMap')) return undefined;
  const { directory, mode } = publishedKinds[location.kind];
  return { directory: join(destinationDir, directory, location.name), mode };
}

type Placed = Pick<Artefact, 'location' | 'published'>;

/** The file that a component reads for one entry of an artefact; undefined when it is on no disk. */
export function fileOf(artefact: Placed, key: string, destinationDir = ''): string | undefined {
  const onDisk = filesByKey(artefact.location);
  if (onDisk !== undefined) return onDisk[key];
  const place = destinationDir === '' ? undefined : publishedPlace(artefact, destinationDir);
  return place && join(place.directory, key);
}

/** Of a file with several entries none: its readers take it as a whole. */
function filesByKey(location: Location): Readonly<Record<string, string>> | undefined {
  switch (location.kind) {
    case 'pemPair':
      return { [certificateKey]: location.certFile, [privateKeyKey]: location.keyFile };
    case 'pemFile':
      return { [caBundleKey]: location.file };
    case 'combinedPem':
    case 'kubeconfig':
      return {};
    case 'secret':
    case 'configMap':
      return undefined;
  }
}

/** A certificate and the key that must belong to it, or files that stand for themselves. Absolute paths. */
export type ArtefactFiles =
  | { readonly kind: 'pair'; readonly certFile: string; readonly keyFile: string }
  | { readonly kind: 'single'; readonly files: readonly string[] };

interface FilesOf {
  readonly artefact: ResolvedArtefact;
  /** All artefacts of the inventory: a copy has the entries of its original. */
  readonly artefacts: readonly ResolvedArtefact[];
  readonly destinationDir: string;
}

/** Undefined where there are none: an object that is not published, or one whose content is not understood here. */
export function filesOfReaders({ artefact, artefacts, destinationDir }: FilesOf): ArtefactFiles | undefined {
  const content = artefactContent(artefact, artefacts);
  const onDisk = filesByKey(artefact.location);
  const keys = onDisk === undefined ? keysOf(content) : Object.keys(onDisk);
  const files = keys.flatMap((key) => fileOf(artefact, key, destinationDir) ?? []);
  const [certFile, keyFile] = files;
  if (certFile === undefined) return undefined;
  if (keys.includes(certificateKey) && keyFile !== undefined) return { kind: 'pair', certFile, keyFile };
  return { kind: 'single', files };
}

export const pathsOf = (files: ArtefactFiles): readonly string[] =>
  files.kind === 'pair' ? [files.certFile, files.keyFile] : files.files;
