// Where the paths of an inventory lead on this host: below directories that are given or have a default, and to files that
// the flags of a component name. Pure.
import type { Inventory } from './model.ts';
import { directoryOf } from './places.ts';

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
  if (rest === '') return files[name] ?? directory ?? file;
  return directory === undefined ? file : `${directory.replace(/(?<!\/)\/+$/, '')}${rest}`;
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
