// Maps the paths of an inventory to this host: below directories that are given or have a default, and to files that
// the flags of a component name. Pure.
import { withoutSlashesAtEnd } from '../address.ts';
import type { Inventory } from './model.ts';
import { directoryOf } from './places.ts';

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
