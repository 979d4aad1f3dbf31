// Which objects the syncer writes, and where: the published artefacts of an inventory whose location is in the API. The
// inventory is checked at loading: each has a name usable for a directory, and a directory of its own. Pure.
import { type ArtefactContent, artefactContent } from '../inventory/content.ts';
import { isObject, isOnlyRead, publishedPlace } from '../inventory/places.ts';
import type { ApiLocation, Resolved } from '../inventory/model.ts';
import type { FileMode } from '../publish/writer.ts';
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
  /** Mode regen creates it where absent. */
  readonly isMade?: boolean;
}

export function syncedObjects(resolved: Resolved, destinationDir: string): SyncedObject[] {
  return resolved.artefacts.flatMap((artefact): SyncedObject[] => {
    const { location, published } = artefact;
    const place = publishedPlace(artefact, destinationDir);
    if (published === undefined || !isObject(location) || place === undefined) return [];
    const expects = artefactContent(artefact, resolved.artefacts);
    const what = locationText(location);
    const isMade = !isOnlyRead(artefact);
    return [{ name: artefact.name, location, published, expects, ...place, what, isMade }];
  });
}
