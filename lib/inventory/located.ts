// Where the paths of an inventory lead on this host: below directories that are given or have a default, and to files that
// the flags of a component name. Pure.
import type { Artefact, Inventory } from './model.ts';
import { directoryOf, filesOf, isFile, withFiles } from './places.ts';

export interface PlacesHere {
  readonly directories: Readonly<Record<string, string>>;
  /** Those that flags name; null: no flag of its component does. */
  readonly files?: Readonly<Record<string, string | null>>;
}

/** An unknown directory or file stays as it is written. */
export function pathHere(file: string, { directories, files = {} }: PlacesHere): string {
  const name = directoryOf(file);
  if (name === undefined) return file;
  const rest = file.slice(name.length + 2);
  const directory = directories[name];
  if (rest === '') return (name in files ? files[name] : undefined) ?? directory ?? file;
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

/** Files that flags name, and the defaults of those whose component has no manifest that can be read. */
export function allFiles(
  { files: declared = {} }: Pick<Inventory, 'files'>,
  { directories, files = {} }: PlacesHere,
): NonNullable<PlacesHere['files']> {
  const usual = Object.entries(declared).flatMap(([name, one]) =>
    one.default === undefined ? [] : [[name, pathHere(one.default, { directories })] as const],
  );
  return { ...Object.fromEntries(usual), ...files };
}

/** The file of the inventory that a path is, as a whole: `{NAME}`. */
export const namedFileOf = (file: string): string | undefined => /^\{([^}]*)\}$/.exec(file)?.[1];

const isNamed = ({ location }: Artefact): boolean =>
  isFile(location) && filesOf(location).some(({ file }) => namedFileOf(file) !== undefined);

/**
 * Entries that exist on this machine: without those whose file no flag names, and what they would sign. Where a flag names
 * the file of another entry, that one stands for it: a cluster may have one CA for all. `usual`: the files of
 * `allFiles()` with nothing found. A signer that no flag names stays there for what it has signed; a target that a flag names
 * elsewhere may be signed by anybody.
 */
export function namedHere(artefacts: readonly Artefact[], places: PlacesHere, usual: PlacesHere): readonly Artefact[] {
  const pathsOf = ({ location }: Artefact, at: PlacesHere): readonly string[] =>
    isFile(location)
      ? filesOf(withFiles(location, (file) => pathHere(file, at)) as typeof location).map(({ file }) => file)
      : [];
  const isOpen = (path: string): boolean => namedFileOf(path) !== undefined;
  const holders = new Map<string, Artefact>();
  /** By entry that is not there: the one that stands for it, if any. */
  const gone = new Map<string, string | undefined>();
  const isSignerOfSomething = ({ name }: Artefact): boolean =>
    artefacts.some(
      (one) =>
        one.kind === 'target' &&
        one.issuer === name &&
        isNamed(one) &&
        !pathsOf(one, places).some((path) => isOpen(path)),
    );
  const hasDefault = (artefact: Artefact): boolean => !pathsOf(artefact, usual).some((path) => isOpen(path));
  // Those with a place of their own first: what others have brought may be one of these.
  const inOrder = [...artefacts.filter((one) => hasDefault(one)), ...artefacts.filter((one) => !hasDefault(one))];
  const here = new Map<string, Artefact>();
  for (const artefact of inOrder) {
    const isLost = pathsOf(artefact, places).some((path) => isOpen(path));
    const atDefault = isLost && artefact.kind === 'signer' && hasDefault(artefact) && isSignerOfSomething(artefact);
    const place = atDefault ? usual : places;
    const paths = pathsOf(artefact, place);
    const holder = isNamed(artefact)
      ? paths.map((path) => holders.get(path)).find((one) => one !== undefined)
      : undefined;
    if (holder !== undefined) gone.set(artefact.name, holder.kind === artefact.kind ? holder.name : undefined);
    else if (paths.some((path) => isOpen(path))) gone.set(artefact.name, undefined);
    else {
      for (const path of paths) holders.set(path, artefact);
      here.set(artefact.name, placed(artefact, place, usual));
    }
  }
  return artefacts.flatMap(({ name }): Artefact[] => {
    const artefact = here.get(name);
    if (artefact === undefined) return [];
    const issuer = artefact.kind === 'target' || artefact.kind === 'signer' ? artefact.issuer : undefined;
    if (issuer === undefined || !gone.has(issuer)) return [artefact];
    const instead = gone.get(issuer);
    return instead === undefined ? [] : [{ ...artefact, issuer: instead } as Artefact];
  });
}

/** Which CA its readers want of a certificate that they are told of elsewhere only they know. */
function placed(artefact: Artefact, place: PlacesHere, usual: PlacesHere): Artefact {
  const location = withFiles(artefact.location, (file) => pathHere(file, place));
  const usually = withFiles(artefact.location, (file) => pathHere(file, usual));
  const isElsewhere = isFile(location) && JSON.stringify(location) !== JSON.stringify(usually);
  if (artefact.kind !== 'target' || !isElsewhere || !isNamed(artefact)) return { ...artefact, location };
  return { ...artefact, location, mayBeOfOthers: true };
}
