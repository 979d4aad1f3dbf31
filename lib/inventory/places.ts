// Places of artefacts and the files in which their readers find them: the syncer's layout below its destination
// directory for objects of the API, the paths themselves for locations on disk, below directories that are given or have
// a default, and at files that the flags of a component name. Also the ownership of artefacts by kind and place, and the
// parameters and directories of a declaration. Pure.
import { dirname, join } from 'node:path';
import { artefactContent, certificateKey, keysOf } from './content.ts';
import { fieldKinds, fileKinds, objectKinds } from './location-kinds.ts';
import type {
  ApiLocation,
  Artefact,
  DiskLocation,
  FieldLocation,
  Inventory,
  Location,
  ResolvedArtefact,
  Signer,
} from './model.ts';
import { withoutSlashesAtEnd } from '../address.ts';

/** Whether an artefact is a file of this host: repaired without an API server, and with one owner only. */
export function isFile(location: Location): location is DiskLocation {
  return location.kind in fileKinds;
}

/** Whether it is a Secret or a ConfigMap. */
export const isObject = (location: Location): location is ApiLocation => location.kind in objectKinds;

type OfKind = Pick<Artefact, 'kind'>;

/** Whether it is never made here, not even when a cluster is installed. */
export const isOfOthers = ({ kind }: OfKind): boolean => kind === 'external' || kind === 'opaque';

/** Whether recovery only reads it: a key pair is made once, and a new one would make every token worthless. */
export const isOnlyRead = (artefact: OfKind): boolean => artefact.kind === 'keyPair' || isOfOthers(artefact);

/** Whether a lost signer is remade here: in the API unless the inventory excludes it, on disk where it allows it. */
export const isMadeHere = ({ owned, location }: Signer): boolean =>
  owned === undefined ? !isFile(location) : owned !== false;

/** Whether its content is obtained from the API of its cluster, and made nowhere on this machine. */
export const isObtained = (one: Artefact | ResolvedArtefact): boolean =>
  (one.kind === 'external' && one.followedAs !== undefined) || (one.kind === 'target' && one.obtainedBy !== undefined);

/** Whether a kubelet runs on this host, which restarts static pods: components that need a restart get it. */
export const hasKubelet = (artefacts: readonly Pick<Artefact, 'readers'>[]): boolean =>
  artefacts.some(({ readers }) =>
    readers.some(({ component, needs }) => component === 'kubelet' && needs === 'restart'),
  );

interface PlacedFile {
  /** Path of the field in the inventory. */
  readonly path: readonly string[];
  readonly field: string;
  readonly file: string;
  /** The entry in this file; null where its readers take it as a whole. */
  readonly entry: string | null;
}

type Paths = string | readonly string[];

/** Every file that a location takes for itself; the first one names it. */
export function filesOf(place: DiskLocation): readonly PlacedFile[] {
  const fields = Object.entries<string | null>(fileKinds[place.kind].files);
  const values: Readonly<Partial<Record<string, Paths>>> = { ...place };
  return fields.flatMap(([field, entry]) => {
    const path = ['location', place.kind, ...(fields.length === 1 ? [] : [field])];
    return [values[field] ?? []].flat().map((file) => ({ path, field, file, entry }));
  });
}

/** Directories of this host that hold these files. */
export const fileDirectories = (places: readonly Location[]): readonly string[] => [
  ...new Set(places.filter(isFile).flatMap((place) => filesOf(place).map(({ file }) => dirname(file)))),
];

/** Whether this entry is a separate file there, which may exist or not without the rest. */
export const isFileOfItsOwn = (place: Location, entry: string): boolean =>
  isFile(place) && filesOf(place).some((file) => file.entry === entry);

/** The artefact in this kubeconfig. */
export const inKubeconfig = <T extends Pick<Artefact, 'location'>>(
  artefacts: readonly T[],
  file: string | undefined,
): T | undefined => artefacts.find(({ location: at }) => at.kind === 'kubeconfig' && at.file === file);

/** The path that identifies it. */
export const pathOf = (place: DiskLocation): string => filesOf(place)[0]?.file ?? '';

/** The directory parameter that a path begins with. */
export function directoryOf(file: string): string | undefined {
  return /^\{([^}]*)\}/.exec(file)?.[1];
}

/** Returns the same place with every path changed. */
export function withFiles(place: Location, change: (file: string) => string): Location {
  if (!isFile(place)) return place;
  const values: Readonly<Partial<Record<string, Paths>>> = { ...place };
  const files = Object.keys(fileKinds[place.kind].files).flatMap((field) => {
    const paths = values[field];
    if (paths === undefined) return [];
    return [[field, typeof paths === 'string' ? change(paths) : paths.map(change)]];
  });
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

/** Name of a field in a message: `field "controllerconfigs.machineconfiguration.openshift.io/NAME spec.x"`. */
export function fieldText({ apiVersion, resource, name, path }: FieldLocation): string {
  const group = apiVersion.includes('/') ? `.${apiVersion.replace(/\/.*/, '')}` : '';
  return `${fieldKinds.field.word} "${resource}${group}/${name} ${path}"`;
}

/** Every place that an artefact takes for itself: its location, and its path below the syncer's directory. */
export function placesOf({ location, published }: Artefact): readonly Place[] {
  if (isFile(location)) return filesOf(location).map(({ path, file }) => ({ path, id: file, text: `file "${file}"` }));
  if (!isObject(location)) {
    const text = fieldText(location);
    return [{ path: ['location', location.kind], id: text, text }];
  }
  const { kind, namespace, name, key } = location;
  const { word, directory } = objectKinds[kind];
  const entry = key === undefined ? '' : ` ${key}`;
  const object = {
    path: ['location', kind],
    id: `${kind} ${namespace}/${name}${entry}`,
    text: `${word} "${namespace}/${name}"${entry}`,
  };
  if (published === undefined) return [object];
  const below = `${directory}/${name}`;
  return [object, { path: ['published'], id: `published ${below}`, text: `directory "${below}" of the syncer` }];
}

type Placed = Pick<Artefact, 'location' | 'published'>;

interface PublishedPlace {
  readonly directory: string;
  /** Mode of its files. */
  readonly mode: 0o600 | 0o644;
}

/** Returns where the syncer writes an artefact; undefined for an artefact that it does not write. */
export function publishedPlace({ location, published }: Placed, destinationDir: string): PublishedPlace | undefined {
  if (published === undefined || !isObject(location)) return undefined;
  const { directory, mode } = objectKinds[location.kind];
  return { directory: join(destinationDir, directory, location.name), mode };
}

/** Returns the file that a component reads for one entry of an artefact; undefined when it is on no disk. */
export function fileOf(artefact: Placed, key: string, destinationDir = ''): string | undefined {
  const { location } = artefact;
  if (isFile(location)) return filesOf(location).find(({ entry }) => entry === key)?.file;
  const place = destinationDir === '' ? undefined : publishedPlace(artefact, destinationDir);
  return place && join(place.directory, key);
}

/** A certificate and the key that must belong to it, or independent files. Absolute paths. */
export type ArtefactFiles =
  | { readonly kind: 'pair'; readonly certFile: string; readonly keyFile: string }
  | { readonly kind: 'single'; readonly files: readonly string[] };

interface FilesOf {
  readonly artefact: ResolvedArtefact;
  /** All artefacts of the inventory: a copy has the entries of its original. */
  readonly artefacts: readonly ResolvedArtefact[];
  readonly destinationDir: string;
}

/** Returns the files; undefined where there are none: an object that is not published, or opaque content. */
export function filesOfReaders({ artefact, artefacts, destinationDir }: FilesOf): ArtefactFiles | undefined {
  const { location } = artefact;
  const keys = isFile(location)
    ? filesOf(location).flatMap(({ entry }) => entry ?? [])
    : keysOf(artefactContent(artefact, artefacts));
  const files = keys.flatMap((key) => fileOf(artefact, key, destinationDir) ?? []);
  const [certFile, keyFile] = files;
  if (certFile === undefined) return undefined;
  if (keys.includes(certificateKey) && keyFile !== undefined) return { kind: 'pair', certFile, keyFile };
  return { kind: 'single', files };
}

export const pathsOf = (files: ArtefactFiles): readonly string[] =>
  files.kind === 'pair' ? [files.certFile, files.keyFile] : files.files;

export interface PlacesHere {
  readonly directories: Readonly<Record<string, string>>;
  /** Files that flags name; null: no flag of its component names the file. */
  readonly files?: Readonly<Record<string, string | null>>;
}

/** Returns the path on this host; an unknown directory or file stays as a placeholder. */
export function pathHere(file: string, { directories, files = {} }: PlacesHere): string {
  const name = directoryOf(file);
  if (name === undefined) return file;
  const rest = file.slice(name.length + 2);
  const directory = directories[name];
  if (rest === '') return files[name] ?? directory ?? file;
  return directory === undefined ? file : `${withoutSlashesAtEnd(directory)}${rest}`;
}

/** Returns the given directories, else the defaults; a default may lie below another directory, and moves with it. */
export function allDirectories(
  { directories = {} }: Pick<Inventory, 'directories'>,
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  const known: Record<string, string> = { ...given };
  // Order of declaration: a default names only directories declared before it (load.ts).
  for (const [name, one] of Object.entries(directories)) {
    if (known[name] === undefined && one.default !== undefined) {
      known[name] = pathHere(one.default, { directories: known });
    }
  }
  return known;
}

/** Returns files that flags name, and defaults of files whose component has no readable manifest. */
export function allFiles(
  { files: declared = {} }: Pick<Inventory, 'files'>,
  { directories, files = {} }: PlacesHere,
): NonNullable<PlacesHere['files']> {
  const usual = Object.entries(declared).flatMap(([name, one]) =>
    one.default === undefined ? [] : [[name, pathHere(one.default, { directories })] as const],
  );
  return { ...Object.fromEntries(usual), ...files };
}

/** Returns NAME where the whole path is `{NAME}`, a file of the inventory. */
export const namedFileOf = (file: string): string | undefined => /^\{([^}]*)\}$/.exec(file)?.[1];
