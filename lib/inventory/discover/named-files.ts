// Files of this machine that the flags of its static pods name (`files` of an inventory). Pure.
import { posix } from 'node:path';
import type { Inventory } from '../model.ts';
import { flagValuesOf, mountsOf } from './documents.ts';

/** Manifests of static pods by component. */
type Manifests = Readonly<Record<string, string | undefined>>;

/** Absolute paths on this machine, by the name that the inventory gives them; null: its component runs without that file. */
export type NamedFiles = Readonly<Record<string, string | null>>;

/**
 * Files without an entry keep the inventory's default: their component has no manifest that can be read. `moved` returns the
 * place on this machine of a path that a flag names.
 */
export function namedFiles(
  declared: Inventory['files'] = {},
  manifests: Manifests = {},
  moved: (path: string) => string = (path) => path,
): NamedFiles {
  const files = Object.entries(declared);
  const named = files.flatMap(([name, { namedBy, default: usual }]): (readonly [string, string | null])[] => {
    if (namedBy === undefined) return [];
    const manifest = manifests[namedBy.component] ?? '';
    const path = hostPathOf(manifest, namedBy.component, namedBy.flag);
    if (path !== undefined) return [[name, moved(path)]];
    return usual !== undefined && saysAll(manifest, namedBy.component, files) ? [[name, null]] : [];
  });
  const paths = new Map(named);
  const keys = files.flatMap(([name, { keyOf }]): (readonly [string, string | null])[] => {
    const path = paths.get(keyOf ?? '');
    return path === undefined ? [] : [[name, path === null ? null : keyBeside(path)]];
  });
  return Object.fromEntries([...named, ...keys]);
}

type DeclaredFiles = readonly (readonly [string, NonNullable<Inventory['files']>[string]])[];

/**
 * Whether a manifest says of every file whether its component reads it: it names one at least, or listens without TLS. One
 * that names none is a fragment, and the defaults count.
 */
function saysAll(manifest: string, component: string, files: DeclaredFiles): boolean {
  const flags = flagValuesOf(manifest, component);
  const isPlain = (flags.get('listen-client-urls') ?? []).some((urls) => urls.startsWith('http://'));
  return isPlain || files.some(([, { namedBy }]) => namedBy?.component === component && flags.has(namedBy.flag));
}

/**
 * Where the directories of an inventory are elsewhere than by default, paths below the defaults lie there, too. `usual` and
 * `here`: absolute paths by the name of the directory.
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
    return move === undefined ? path : `${move.to.replace(/\/+$/, '')}${path.slice(move.from.length)}`;
  };
}

/**
 * Of a flag that is given several times the first: `init adopt` appends flags that name its own files, which are none of
 * this machine's administrator.
 */
function hostPathOf(manifest: string, component: string, flag: string): string | undefined {
  const path = flagValuesOf(manifest, component).get(flag)?.[0];
  if (path === undefined || !posix.isAbsolute(path)) return undefined;
  const inside = posix.normalize(path);
  const mounts = mountsOf(manifest, component).filter(({ at }) => inside === at || inside.startsWith(`${at}/`));
  const [nearest] = mounts.toSorted((one, other) => other.at.length - one.at.length);
  return nearest === undefined ? inside : posix.join(nearest.hostPath, inside.slice(nearest.at.length));
}

/** kubeadm, etcdadm: ca.crt, ca.key. cfssl, kubespray: ca.pem, ca-key.pem. */
const keyBeside = (certFile: string): string =>
  certFile.endsWith('.pem') ? `${certFile.slice(0, -4)}-key.pem` : `${certFile.replace(/\.[^./]+$/, '')}.key`;
