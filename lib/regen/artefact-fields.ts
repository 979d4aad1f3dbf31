// The place of an artefact, as fields of log lines and as labels of metrics. Pure.
import type { Location, ResolvedArtefact } from '../inventory/model.ts';
import { isFile, isObject, pathOf } from '../inventory/places.ts';
import type { LogFields } from '../log.ts';
import { locationText } from '../store/store.ts';

/** Labels as x509-certificate-exporter has them. */
export function placeLabels(location: Location): Readonly<Record<string, string>> {
  if (isFile(location)) return { filepath: pathOf(location) };
  if (!isObject(location)) return { filepath: locationText(location) };
  const kind = location.kind.toLowerCase();
  return { [`${kind}_namespace`]: location.namespace, [`${kind}_name`]: location.name };
}

export function fieldsOf({ name, location }: ResolvedArtefact): LogFields {
  if (isFile(location)) return { artefact: name, path: pathOf(location) };
  if (!isObject(location)) return { artefact: name, path: locationText(location) };
  return { artefact: name, namespace: location.namespace, [location.kind]: location.name };
}
