// Which objects the syncer writes, and where: the published artefacts of an inventory whose location is in the API. Pure.
import { RecoveryError } from '../errors.ts';
import { type ArtefactContent, artefactContent } from '../inventory/content.ts';
import { isFile, isOnlyRead, publishedPlace } from '../inventory/places.ts';
import type { ApiLocation, Resolved } from '../inventory/model.ts';
import type { FileMode } from '../publish/writer.ts';
import { nameProblem } from '../publish/file-names.ts';
import { locationText } from '../store/store.ts';

export interface SyncedObject {
  /** The artefact's name in the inventory. */
  readonly name: string;
  readonly location: ApiLocation;
  readonly published: 'required' | 'optional';
  readonly expects: ArtefactContent;
  /** Absolute: `<destination>/secrets/<name>`, `<destination>/configmaps/<name>`. */
  readonly directory: string;
  readonly mode: FileMode;
  /** `Secret "namespace/name"`, for messages. */
  readonly what: string;
  /** Mode regen makes it where it is absent. */
  readonly isMade?: boolean;
}

/** Throws InventoryInvalid when two objects would share a directory, or a name cannot be one. */
export function syncedObjects(resolved: Resolved, destinationDir: string): SyncedObject[] {
  const objects = resolved.artefacts.flatMap((artefact): SyncedObject[] => {
    const { location, published } = artefact;
    const place = publishedPlace(artefact, destinationDir);
    if (published === undefined || isFile(location) || place === undefined) return [];
    const expects = artefactContent(artefact, resolved.artefacts);
    const what = locationText(location);
    const isMade = !isOnlyRead(artefact);
    return [{ name: artefact.name, location, published, expects, ...place, what, isMade }];
  });
  checkDirectories(objects);
  return objects;
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
