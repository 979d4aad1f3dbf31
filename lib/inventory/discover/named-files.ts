// Files of this machine that the flags of its static pods name, for entries that lie where others have placed them (`files`
// of an inventory). Pure.
import { posix } from 'node:path';
import type { Inventory } from '../model.ts';
import { flagValuesOf, mountsOf } from './documents.ts';

/** Manifests of static pods by component. */
type Manifests = Readonly<Record<string, string | undefined>>;

/** Absolute paths on this machine, by the name that the inventory gives them. Without those that nothing names. */
export function namedFiles(declared: Inventory['files'] = {}, manifests: Manifests = {}): Record<string, string> {
  const files = Object.entries(declared);
  const named = files.flatMap(([name, { namedBy }]) => {
    const path = namedBy && hostPathOf(manifests[namedBy.component] ?? '', namedBy.component, namedBy.flag);
    return path === undefined ? [] : [[name, path] as const];
  });
  const paths = new Map(named);
  const keys = files.flatMap(([name, { keyOf }]) => {
    const path = paths.get(keyOf ?? '');
    return path === undefined ? [] : [[name, keyBeside(path)] as const];
  });
  return Object.fromEntries([...named, ...keys]);
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
