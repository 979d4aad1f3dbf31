// Which objects the syncer writes, and where: the published artefacts of an inventory whose location is in the API. Pure.
import { join } from 'node:path';
import { RecoveryError } from '../errors.ts';
import { isFile, isOnlyRead } from '../inventory/places.ts';
import type { ApiLocation, Kubeconfigs, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import type { FileMode } from '../publish/writer.ts';
import { nameProblem } from '../publish/file-names.ts';
import { caBundleKey, certificateKey, locationText, privateKeyKey } from '../store/store.ts';

/** What the content must be, as far as it is understood. */
export type Expectation =
  /** A certificate and its key. */
  | { readonly kind: 'pair' }
  | { readonly kind: 'bundle' }
  /** A key pair without certificate; `keys` are the private and the public one. */
  | { readonly kind: 'keyPair'; readonly privateKey: string; readonly publicKey: string }
  /** Kubeconfigs, each an entry; all must be whole. */
  | { readonly kind: 'kubeconfigs'; readonly of: Kubeconfigs }
  /** Not known, and for its readers to judge: written as it is, unless it holds a pair whose halves contradict each other. */
  | { readonly kind: 'opaque' };

export interface SyncedObject {
  /** The artefact's name in the inventory. */
  readonly name: string;
  readonly location: ApiLocation;
  readonly published: 'required' | 'optional';
  readonly expects: Expectation;
  /** Absolute: `<destination>/secrets/<name>`, `<destination>/configmaps/<name>`. */
  readonly directory: string;
  readonly mode: FileMode;
  /** `Secret "namespace/name"`, for messages. */
  readonly what: string;
  /** Mode regen makes it where it is absent. */
  readonly isMade?: boolean;
}

/** Entries that must be there. */
export function expectedKeys(expects: Expectation): readonly string[] {
  if (expects.kind === 'pair') return [certificateKey, privateKeyKey];
  if (expects.kind === 'bundle') return [caBundleKey];
  if (expects.kind === 'kubeconfigs') return expects.of.servers.map(({ key }) => key);
  return expects.kind === 'keyPair' ? [expects.privateKey, expects.publicKey] : [];
}

/** The directory below a destination that holds objects of a kind. */
export const kindDirectory = { secret: 'secrets', configMap: 'configmaps' } as const;
const fileMode = { secret: 0o600, configMap: 0o644 } as const;

/** Throws InventoryInvalid when two objects would share a directory, or a name cannot be one. */
export function syncedObjects(resolved: Resolved, destinationDir: string): SyncedObject[] {
  const objects = resolved.artefacts.flatMap((artefact): SyncedObject[] => {
    const { location, published } = artefact;
    if (published === undefined || isFile(location)) return [];
    const directory = join(destinationDir, kindDirectory[location.kind], location.name);
    const expects = expectationOf(artefact, resolved);
    const what = locationText(location);
    const isMade = !isOnlyRead(artefact);
    const mode = fileMode[location.kind];
    return [{ name: artefact.name, location, published, expects, directory, mode, what, isMade }];
  });
  checkDirectories(objects);
  return objects;
}

/** A copy, also of another copy, must be what its original is. */
function expectationOf(artefact: ResolvedArtefact, { artefacts }: Resolved): Expectation {
  const original = originalOf(artefacts, artefact);
  if (original?.kind === 'signer' || original?.kind === 'target') return { kind: 'pair' };
  if (original?.kind === 'caBundle' || original?.kind === 'composedBundle') return { kind: 'bundle' };
  if (original?.kind === 'external') return { kind: original.location.kind === 'secret' ? 'pair' : 'bundle' };
  if (original?.kind === 'kubeconfigs') return { kind: 'kubeconfigs', of: original };
  if (original?.kind !== 'keyPair') return { kind: 'opaque' };
  return { kind: 'keyPair', privateKey: original.privateKey, publicKey: original.publicKey };
}

function checkDirectories(objects: readonly SyncedObject[]): void {
  const seen = new Map<string, SyncedObject>();
  for (const object of objects) {
    const problem = nameProblem(object.location.name);
    if (problem !== undefined) {
      throw new RecoveryError(
        'InventoryInvalid',
        `Cannot publish ${object.what}: its name ${problem}; a bare name is wanted`,
      );
    }
    const other = seen.get(object.directory);
    if (other !== undefined) {
      const message = `Cannot publish ${object.what}: ${other.what} has the same directory "${object.directory}"; publish one of them`;
      throw new RecoveryError('InventoryInvalid', message);
    }
    seen.set(object.directory, object);
  }
}
