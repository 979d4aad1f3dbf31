// Files of this machine that the flags of its static pods name (`files` of an inventory). Pure.
import { posix } from 'node:path';
import type { Inventory } from '../model.ts';
import { flagValuesOf, mountsOf } from './documents.ts';

/** Manifests of static pods by component. */
type Manifests = Readonly<Record<string, string | undefined>>;

/** Absolute paths on this machine, by the name that the inventory gives them; null: its component runs without that file. */
export type NamedFiles = Readonly<Record<string, string | null>>;

/**
 * Files without an entry keep the inventory's default: their component has no manifest that names any. `moved` returns the
 * place on this machine of a path that a flag names.
 */
export function namedFiles(
  declared: Inventory['files'] = {},
  manifests: Manifests = {},
  moved: (path: string) => string = (path) => path,
): NamedFiles {
  const files = Object.entries(declared);
  const flagsOf = Map.groupBy(
    files.flatMap(([, { namedBy }]) => namedBy ?? []),
    ({ component }) => component,
  );
  const commands = new Map(
    [...flagsOf].map(([component, known]) => [component, commandOf(manifests[component] ?? '', component, known)]),
  );
  const named = files.flatMap(([name, { namedBy, default: usual }]): Named[] => {
    const command = namedBy && commands.get(namedBy.component);
    if (namedBy === undefined || command === undefined) return [];
    const path = hostPathOf(command, namedBy.flag);
    if (path !== undefined) return [[name, moved(path)]];
    return usual !== undefined && command.isWhole ? [[name, null]] : [];
  });
  const paths = new Map(named);
  const keys = files.flatMap(([name, { keyOf }]): Named[] => {
    const path = paths.get(keyOf ?? '');
    return path === undefined ? [] : [[name, path === null ? null : keyBeside(path)]];
  });
  return Object.fromEntries([...named, ...keys]);
}

type Named = readonly [name: string, path: string | null];

interface Command {
  readonly flags: ReturnType<typeof flagValuesOf>;
  readonly mounts: ReturnType<typeof mountsOf>;
  /** It reads no other files than those that its flags name. One that names none, and does not listen without TLS, is a fragment. */
  readonly isWhole: boolean;
}

function commandOf(manifest: string, component: string, known: readonly { readonly flag: string }[]): Command {
  const flags = flagValuesOf(manifest, component);
  const isPlain = (flags.get('listen-client-urls') ?? []).some((urls) => urls.startsWith('http://'));
  const isWhole = isPlain || known.some(({ flag }) => flags.has(flag));
  return { flags, mounts: mountsOf(manifest, component), isWhole };
}

/**
 * The place of a path on a machine whose directories are not the default ones: a path below a default directory lies below
 * the one in its place. `usual` and `here`: absolute paths by the name of the directory.
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
 * The first value of a flag that is given several times: `init adopt` appends flags that name its own files, which are none
 * of this machine's administrator.
 */
function hostPathOf({ flags, mounts }: Command, flag: string): string | undefined {
  const path = flags.get(flag)?.[0];
  if (path === undefined || !posix.isAbsolute(path)) return undefined;
  const inside = posix.normalize(path);
  const above = mounts.filter(({ at }) => inside === at || inside.startsWith(`${at}/`));
  const [nearest] = above.toSorted((one, other) => other.at.length - one.at.length);
  return nearest === undefined ? inside : posix.join(nearest.hostPath, inside.slice(nearest.at.length));
}

/** kubeadm, etcdadm: ca.crt, ca.key. cfssl, kubespray: ca.pem, ca-key.pem. */
const keyBeside = (certFile: string): string =>
  certFile.endsWith('.pem') ? `${certFile.slice(0, -4)}-key.pem` : `${certFile.replace(/\.[^./]+$/, '')}.key`;
