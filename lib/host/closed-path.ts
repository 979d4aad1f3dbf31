// Whether anybody else than root may change what root runs or goes by: the file, or what a name of its path leads to. Every
// directory in which a part of the path or a symbolic link of it lies must be root's and writable by nobody else, as
// sshd asks of keys (openssh misc.c, safe_path) and sudo of its plugins. In a sticky directory of root's, as /tmp is, nobody
// else can rename or remove what is root's (inode(7)), so that the next name of the path decides. Where a process is not
// root's, its user counts as root does.
import { accessSync, constants, lstatSync, readlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type ErrorCode, RecoveryError, systemCode } from '../errors.ts';
import { procText } from './proc.ts';

const stickyBit = 0o1000;
/** As many as the kernel follows (ELOOP). */
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
    return undefined; // no link, or not there
  }
}

/** The places of absolute paths that others may change, each with why. */
export function openPlaces(...paths: readonly string[]): readonly string[] {
  return [...new Set(paths.flatMap(placesOf))].flatMap((place) => problemOf(place) ?? []);
}

function problemOf(path: string): string | undefined {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) return canBeMade(path) ? `anybody may make "${path}", which is not there` : undefined;
  const { uid, gid, mode } = status;
  const state = `(owner ${uid}:${gid}, mode ${(mode & 0o7777).toString(8).padStart(4, '0')})`;
  if (uid !== 0 && uid !== process.geteuid?.()) return `"${path}" belongs to user ${uid} ${state}`;
  if ((mode & 0o002) === 0 && gid === 0) return undefined; // as sudo takes it (sudoers, secure_path.c)
  if (status.isSymbolicLink()) return undefined; // its owner decides where it leads, its mode nothing
  const isSticky = status.isDirectory() && (mode & stickyBit) !== 0;
  if ((mode & 0o022) === 0 || isSticky || isReadOnly(path)) return undefined;
  return (mode & 0o002) === 0 ? `group ${gid} may write "${path}" ${state}` : `everybody may write "${path}" ${state}`;
}

function canBeMade(path: string): boolean {
  const parent = lstatSync(dirname(path), { throwIfNoEntry: false });
  return parent !== undefined && (parent.mode & 0o002) !== 0;
}

/** The volume of a ConfigMap is open to everybody, and mounted so that nobody writes it. */
function isReadOnly(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (err) {
    return systemCode(err) === 'EROFS';
  }
}

/** Of the machine: root of a user namespace (user_namespaces(7), uid_map) is the user who has made it. */
const isRoot = (): boolean => process.geteuid?.() === 0 && !/^\s*0\s+[1-9]/.test(procText('/proc/self/uid_map') ?? '');

/** Asked where root acts: whoever else is careless harms himself alone. Throws `code`. */
export function requireClosed(
  path: string,
  { code, cannot }: { readonly code: ErrorCode; readonly cannot: string },
): void {
  const open = isRoot() ? openPlaces(path) : [];
  if (open.length === 0) return;
  const message = `${cannot}: root goes by it, and ${open.join(', ')}; give it to root and close it (chown root, chmod go-w), or put it elsewhere, for example below /etc/kubernetes`;
  throw new RecoveryError(code, message);
}
