// Where the files of an artefact lie on this host, for those who look at them: the syncer's layout below its destination
// directory for objects of the API, the paths themselves for artefacts whose location is on disk.
import { join } from 'node:path';
import type { Location, ResolvedArtefact } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../store/store.ts';

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

/** The directory of a published object; undefined where the location is on disk. */
export function publishedDirectory(location: Location, destinationDir: string): string | undefined {
  if (location.kind === 'secret') return join(destinationDir, 'secrets', location.name);
  return location.kind === 'configMap' ? join(destinationDir, 'configmaps', location.name) : undefined;
}

/** Undefined where there are none: an object that is not published, or one whose content is not understood here. */
export function filesOfReaders({ artefact, artefacts, destinationDir }: FilesOf): ArtefactFiles | undefined {
  const { location } = artefact;
  if (location.kind === 'pemPair') return { kind: 'pair', certFile: location.certFile, keyFile: location.keyFile };
  if (location.kind === 'pemFile') return { kind: 'single', files: [location.file] };
  const directory = publishedDirectory(location, destinationDir);
  if (directory === undefined || artefact.published === undefined) return undefined;
  const at = (key: string): string => join(directory, key);
  const original = originalOf(artefacts, artefact);
  switch (original?.kind) {
    case 'signer':
    case 'target':
      return { kind: 'pair', certFile: at(certificateKey), keyFile: at(privateKeyKey) };
    case 'caBundle':
    case 'composedBundle':
      return { kind: 'single', files: [at(caBundleKey)] };
    case 'keyPair':
      return { kind: 'single', files: [at(original.privateKey), at(original.publicKey)] };
    case 'kubeconfigs':
      return { kind: 'single', files: original.servers.map(({ key }) => at(key)) };
    case 'external':
      return original.location.kind === 'secret'
        ? { kind: 'pair', certFile: at(certificateKey), keyFile: at(privateKeyKey) }
        : { kind: 'single', files: [at(caBundleKey)] };
    case 'copy':
    case 'opaque':
    case undefined:
      break;
  }
  return undefined;
}

export const pathsOf = (files: ArtefactFiles): readonly string[] =>
  files.kind === 'pair' ? [files.certFile, files.keyFile] : files.files;
