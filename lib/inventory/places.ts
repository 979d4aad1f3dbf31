// Where artefacts lie, whose they are by kind and place, and which parameters and directories a declaration names. Pure.
import { publishedKinds } from './content.ts';
import type { Artefact, DiskLocation, Location, Signer } from './model.ts';

/** Whether an artefact is a file of this host: then it can be healed with no API server, and has one owner only. */
export function isFile(location: Location): location is DiskLocation {
  return location.kind !== 'secret' && location.kind !== 'configMap';
}

type OfKind = Pick<Artefact, 'kind'>;

/** Nobody makes it here, not even when a cluster is installed. */
export const isOfOthers = ({ kind }: OfKind): boolean => kind === 'external' || kind === 'opaque';

/** Recovery looks at it and never writes it: a key pair is made once, and a new one would make every token worthless. */
export const isOnlyRead = (artefact: OfKind): boolean => artefact.kind === 'keyPair' || isOfOthers(artefact);

/** A new one is made here when it is lost: in the API unless the inventory says otherwise, on disk where it says so. */
export const isMadeHere = ({ owned, location }: Signer): boolean =>
  owned === undefined ? !isFile(location) : owned !== false;

interface PlacedFile {
  /** Where the inventory says it, below `location`. */
  readonly path: readonly string[];
  readonly file: string;
}

/** By kind of location on disk: its fields that hold a path, of which the first names it. */
const fileFields: Readonly<Record<DiskLocation['kind'], readonly string[]>> = {
  pemPair: ['certFile', 'keyFile'],
  pemFile: ['file'],
  combinedPem: ['file'],
  kubeconfig: ['file', 'credentials'],
};

/** Every file that a location takes for itself. */
export function filesOf(place: DiskLocation): readonly PlacedFile[] {
  const { [place.kind]: fields } = fileFields;
  const values: Readonly<Partial<Record<string, string>>> = { ...place };
  return fields.flatMap((field) => {
    const file = values[field];
    return file === undefined ? [] : [{ path: fields.length === 1 ? [place.kind] : [place.kind, field], file }];
  });
}

/** The directory parameter that a path begins with. */
export function directoryOf(file: string): string | undefined {
  return /^\{([^}]*)\}/.exec(file)?.[1];
}

/** The same place with every path changed. */
export function withFiles(place: Location, change: (file: string) => string): Location {
  if (!isFile(place)) return place;
  const files = filesOf(place).map(({ path, file }) => [path[1] ?? 'file', change(file)]);
  return { ...place, ...Object.fromEntries(files) };
}

const placeholder = /\{([^{}]*)\}/g;

/** The parameters that a common name holds. */
export function parametersIn(commonName: string): readonly string[] {
  return [...commonName.matchAll(placeholder)].map(([, name]) => name ?? '');
}

/** The common name with each parameter's value in its place. */
export function withParameters(commonName: string, valueOf: (parameter: string) => string): string {
  return commonName.replaceAll(placeholder, (_, name: string) => valueOf(name));
}

/** All parameters that an artefact names. */
export function parametersOf(artefact: Artefact): string[] {
  if (artefact.kind === 'signer') return typeof artefact.owned === 'object' ? [artefact.owned.unlessSet] : [];
  if (artefact.kind !== 'target') return [];
  const { hostnames, commonName = '' } = artefact;
  const sources = hostnames.flatMap((source) => (typeof source === 'string' ? [] : [source.parameter]));
  return [...sources, ...parametersIn(commonName)];
}

interface Place {
  readonly path: readonly string[];
  readonly id: string;
  readonly text: string;
}

/** Every place that an artefact takes for itself: its location, and its path below the syncer's directory. */
export function placesOf({ location, published }: Artefact): readonly Place[] {
  if (isFile(location)) {
    return filesOf(location).map(({ path, file }) => ({
      path: ['location', ...path],
      id: file,
      text: `file "${file}"`,
    }));
  }
  const { kind, namespace, name } = location;
  const word = kind === 'secret' ? 'Secret' : 'ConfigMap';
  const object = {
    path: ['location', kind],
    id: `${kind} ${namespace}/${name}`,
    text: `${word} "${namespace}/${name}"`,
  };
  const directory = `${publishedKinds[kind].directory}/${name}`;
  if (published === undefined) return [object];
  return [
    object,
    { path: ['published'], id: `published ${directory}`, text: `directory "${directory}" of the syncer` },
  ];
}
