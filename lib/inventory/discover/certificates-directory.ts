// The directory of a machine's certificates, where kubeadm was given a certificatesDir other than its own, like
// kubespray and minikube do. Pure.
import type { Inventory } from '../model.ts';
import type { NamedFiles } from './named-files.ts';

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
