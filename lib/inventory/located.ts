// Where the paths of an inventory lead on this host: below directories that are given or have a default, and to files that
// the flags of a component name. Pure.
import type { Artefact, Inventory } from './model.ts';
import { directoryOf, filesOf, isFile, withFiles } from './places.ts';

export interface PlacesHere {
  readonly directories: Readonly<Record<string, string>>;
  /** Those that flags name. */
  readonly files?: Readonly<Record<string, string>>;
}

/** An unknown directory or file stays as it is written. */
export function pathHere(file: string, { directories, files = {} }: PlacesHere): string {
  const name = directoryOf(file);
  if (name === undefined) return file;
  const rest = file.slice(name.length + 2);
  const directory = directories[name];
  if (rest === '') return files[name] ?? directory ?? file;
  return directory === undefined ? file : `${directory.replace(/\/+$/, '')}${rest}`;
}

/** What is given, else the default; a default may lie below another directory, and moves with it. */
export function allDirectories(
  { directories = {} }: Pick<Inventory, 'directories'>,
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  const known: Record<string, string> = { ...given };
  // In the order of their declaration: a default names one that is declared before it (load.ts).
  for (const [name, one] of Object.entries(directories)) {
    if (known[name] === undefined && one.default !== undefined) {
      known[name] = pathHere(one.default, { directories: known });
    }
  }
  return known;
}

/** The file of the inventory that a path is, as a whole: `{NAME}`. */
export const namedFileOf = (file: string): string | undefined => /^\{([^}]*)\}$/.exec(file)?.[1];

const isNamed = ({ location }: Artefact): boolean =>
  isFile(location) && filesOf(location).some(({ file }) => namedFileOf(file) !== undefined);

/**
 * Without the entries whose file no flag names here, and what they would sign. Where a flag names the file of another
 * entry, that one stands for it: a cluster may have one CA for all.
 */
export function namedHere(artefacts: readonly Artefact[], places: PlacesHere): readonly Artefact[] {
  const pathsOf = ({ location }: Artefact): readonly string[] =>
    isFile(location)
      ? filesOf(withFiles(location, (file) => pathHere(file, places)) as typeof location).map(({ file }) => file)
      : [];
  const own = artefacts.filter((one) => !isNamed(one));
  const holders = new Map(own.flatMap((one) => pathsOf(one).map((path) => [path, one] as const)));
  /** By entry that is not there: the one that stands for it, if any. */
  const gone = new Map<string, string | undefined>();
  for (const artefact of artefacts) {
    if (!isNamed(artefact)) continue;
    const paths = pathsOf(artefact);
    const holder = paths.map((path) => holders.get(path)).find((one) => one !== undefined);
    if (holder !== undefined) gone.set(artefact.name, holder.kind === artefact.kind ? holder.name : undefined);
    else if (paths.some((path) => namedFileOf(path) !== undefined)) gone.set(artefact.name, undefined);
    else for (const path of paths) holders.set(path, artefact);
  }
  return artefacts.flatMap((artefact): Artefact[] => {
    if (gone.has(artefact.name)) return [];
    const issuer = artefact.kind === 'target' || artefact.kind === 'signer' ? artefact.issuer : undefined;
    if (issuer === undefined || !gone.has(issuer)) return [artefact];
    const instead = gone.get(issuer);
    return instead === undefined ? [] : [{ ...artefact, issuer: instead } as Artefact];
  });
}
