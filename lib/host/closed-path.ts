// Whether any user but root may change a file that root executes or relies on: the file, or a component of its path.
// Every directory that holds a component of the path or a symbolic link in it must belong to root and be writable by
// root alone, as sshd requires for keys (openssh misc.c, safe_path): nor by its group, whichever that is, because the
// bits of the group are the mask of an access-control list where there is one (acl(5)), which Node cannot read. In a
// sticky directory of root's, such as /tmp, other users cannot rename or remove files of root (inode(7)), so the next
// component of the path decides. Where a process does not run as root, its user counts as root does.
import type { Stats } from 'node:fs';
import { accessSync, constants, lstatSync, readlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type ErrorCode, RecoveryError, systemCode } from '../errors.ts';
import { procText } from './proc.ts';

const stickyBit = 0o1000;
const writableByAll = 0o002;
export const writableByOthers = 0o022;
/** The kernel follows as many (ELOOP). */
const mostLinks = 40;

/** The names by which a path is found, itself and all links included, up to where it ends. */
function placesOf(path: string): readonly string[] {
  const places = ['/'];
  let names = path.split('/');
  let at = '/';
  for (let links = 0; names.length > 0 && links <= mostLinks;) {
    const [name = '', ...rest] = names;
    names = rest;
    const next = name === '..' ? dirname(at) : join(at, name);
    const target = linkAt(next);
    places.push(next);
    if (target === undefined) {
      at = next;
    } else {
      links += 1;
      names = [...target.split('/'), ...names];
      if (target.startsWith('/')) at = '/';
    }
  }
  return places;
}

function linkAt(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined; // no link, or absent
  }
}

/** The places of absolute paths that others may change, each with why. */
export function openPlaces(...paths: readonly string[]): readonly string[] {
  return [...new Set(paths.flatMap(placesOf))].flatMap((place) => problemOf(place) ?? []);
}

function problemOf(path: string): string | undefined {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) return problemOfAbsent(path);
  const { uid, gid, mode } = status;
  const state = `(owner ${uid}:${gid}, mode ${(mode & 0o7777).toString(8).padStart(4, '0')})`;
  if (uid !== 0 && uid !== process.geteuid?.()) return `"${path}" belongs to user ${uid} ${state}`;
  if (status.isSymbolicLink()) return undefined; // its owner decides where it leads, its mode nothing
  if (!letsOthersReplace(status) || isReadOnly(path)) return undefined;
  return `${writersOf(status)} may write "${path}" ${state}`;
}

function problemOfAbsent(path: string): string | undefined {
  const parent = lstatSync(dirname(path), { throwIfNoEntry: false });
  if (parent === undefined || (parent.mode & writableByOthers) === 0 || isReadOnly(dirname(path))) return undefined;
  return `${writersOf(parent)} may make "${path}", which is not there`;
}

/** Whether others than its owner may change the file, or replace what others have in the directory. */
export const letsOthersReplace = (status: Pick<Stats, 'mode' | 'isDirectory'>): boolean =>
  (status.mode & writableByOthers) !== 0 && !(status.isDirectory() && (status.mode & stickyBit) !== 0);

const writersOf = ({ mode, gid }: Stats): string => ((mode & writableByAll) === 0 ? `group ${gid}` : 'everybody');

/** The volume of a ConfigMap is open to everybody, and mounted so that nobody writes it. */
function isReadOnly(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (err) {
    return systemCode(err) === 'EROFS';
  }
}

/**
 * Whether we are root of the machine: root of a user namespace (user_namespaces(7), uid_map) is the user who has
 * created it.
 */
const isRoot = (): boolean => process.geteuid?.() === 0 && !/^\s*0\s+[1-9]/.test(procText('/proc/self/uid_map') ?? '');

/** Checks only where root acts: careless other users harm themselves alone. Throws `code`. */
export function requireClosed(
  path: string,
  { code, cannot }: { readonly code: ErrorCode; readonly cannot: string },
): void {
  const open = isRoot() ? openPlaces(path) : [];
  if (open.length === 0) return;
  const message = `${cannot}: root goes by it, and ${open.join(', ')}; give it to root and close it (chown root, chmod go-w), or put it elsewhere, for example below /etc/kubernetes`;
  throw new RecoveryError(code, message);
}
