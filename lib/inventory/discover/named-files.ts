// Files and directories of this machine that the flags of its components name (`files`, `directories` of an inventory).
// Pure.
import { withoutSlashesAtEnd } from '../../address.ts';
import type { Inventory } from '../model.ts';
import { type ComponentSettings, hostPathOf } from './component-settings.ts';

/** Settings by component; without components that nothing here starts. */
export type SettingsHere = Readonly<Record<string, ComponentSettings | undefined>>;

/** Absolute paths on this machine, by their name in the inventory; null: its component runs without that file. */
export type NamedFiles = Readonly<Record<string, string | null>>;

/**
 * Returns the files that flags name. Files without an entry keep the inventory's default: nothing here shows which file
 * their component reads. `moved` returns the place on this machine of a path that a flag names.
 */
export function namedFiles(
  declared: Inventory['files'] = {},
  settings: SettingsHere = {},
  { moved = asItIs, without = [] }: Here = {},
): NamedFiles {
  const files = Object.entries(declared);
  const flagsOf = Map.groupBy(
    files.flatMap(([, { namedBy }]) => namedBy ?? []),
    ({ component }) => component,
  );
  const commands = new Map(
    [...flagsOf].flatMap(([component, known]) => {
      const here = settings[component];
      return here === undefined ? [] : [[component, { ...here, isWhole: isWhole(here, known) }] as const];
    }),
  );
  const named = files.flatMap(([name, { namedBy, default: usual, ownDefault, alone }]): Named[] => {
    if (namedBy === undefined) return [];
    if (without.includes(namedBy.component)) return [[name, null]];
    const command = commands.get(namedBy.component);
    if (command === undefined) return [];
    if (alone === true && (command.values.get(namedBy.flag) ?? []).length > 1) return [[name, null]];
    // The last value counts (pflag).
    const path = hostPathOf(command.values.get(namedBy.flag)?.at(-1), command);
    if (path !== undefined) return [[name, moved(path)]];
    return usual !== undefined && command.isWhole && ownDefault !== true ? [[name, null]] : [];
  });
  const paths = new Map(named);
  const keys = files.flatMap(([name, { keyOf }]): Named[] => {
    const path = paths.get(keyOf ?? '');
    return path === undefined ? [] : [[name, path === null ? null : keyBeside(path)]];
  });
  return Object.fromEntries([...named, ...keys]);
}

const asItIs = (path: string): string => path;

interface Here {
  /** The place on this machine of a path that a flag names. */
  readonly moved?: (path: string) => string;
  /** Components that do not run here. */
  readonly without?: readonly string[] | undefined;
}

/** Returns directories that the flags of components name. */
export function namedDirectories(
  declared: Inventory['directories'] = {},
  settings: SettingsHere,
  moved: (path: string) => string,
): Readonly<Record<string, string>> {
  const named = Object.entries(declared).flatMap(([name, { namedBy }]) => {
    const here = namedBy && settings[namedBy.component];
    const path = here && hostPathOf(here.values.get(namedBy.flag)?.at(-1), here);
    return path === undefined ? [] : [[name, moved(path)] as const];
  });
  return Object.fromEntries(named);
}

type Named = readonly [name: string, path: string | null];

/** Whether it reads only files that its flags name. Without any, and with TLS, a command line is a fragment. */
function isWhole({ values }: ComponentSettings, known: readonly { readonly flag: string }[]): boolean {
  const isPlain = (values.get('listen-client-urls') ?? []).some((urls) => urls.startsWith('http://'));
  return isPlain || known.some(({ flag }) => values.has(flag));
}

/**
 * Returns the place of a path on a machine whose directories are not the default ones: a path below a default directory
 * lies below its replacement. `usual` and `here`: absolute paths by the name of the directory.
 */
export function movedPaths(
  usual: Readonly<Record<string, string>>,
  here: Readonly<Record<string, string>>,
): (path: string) => string {
  const moves = Object.entries(usual)
    .map(([name, from]) => ({ from, to: here[name] ?? from }))
    .toSorted((one, other) => other.from.length - one.from.length);
  return (path) => {
    const move = moves.find(({ from }) => path === from || path.startsWith(`${from}/`));
    return move === undefined ? path : `${withoutSlashesAtEnd(move.to)}${path.slice(move.from.length)}`;
  };
}

/** kubeadm, etcdadm: ca.crt, ca.key. cfssl, kubespray: ca.pem, ca-key.pem. */
export const keyBeside = (certFile: string): string =>
  certFile.endsWith('.pem') ? `${certFile.slice(0, -4)}-key.pem` : `${certFile.replace(/\.[^./]+$/, '')}.key`;

/**
 * Returns the place of a directory of the inventory, from flags: several name a file there with its name below the
 * usual directory, a CA and a certificate among them. Of several directories the most named one. Undefined where there
 * is none: a single flag may name a file anywhere.
 */
export function shownDirectory(name: string, declared: Inventory['files'] = {}, named: NamedFiles): string | undefined {
  const authorities = new Set(Object.values(declared).flatMap(({ keyOf }) => keyOf ?? []));
  const seen = Object.entries(declared).flatMap(([file, { namedBy, default: usual = '' }]): Seen[] => {
    const [path, rest] = [named[file], usual.startsWith(`{${name}}/`) ? usual.slice(name.length + 2) : undefined];
    if (namedBy === undefined || rest === undefined || typeof path !== 'string' || !path.endsWith(rest)) return [];
    return [{ directory: path.slice(0, -rest.length), isAuthority: authorities.has(file) }];
  });
  const places = [...Map.groupBy(seen, ({ directory }) => directory)].filter(
    ([directory, files]) =>
      directory !== '' && files.some((one) => one.isAuthority) && files.some((one) => !one.isAuthority),
  );
  return places.toSorted(([, some], [, others]) => others.length - some.length)[0]?.[0];
}

interface Seen {
  readonly directory: string;
  readonly isAuthority: boolean;
}
