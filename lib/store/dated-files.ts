// A link and the dated files behind it, as client-go keeps a kubelet's certificates (util/certificate/
// certificate_store.go): `kubelet-client-current.pem` leads to `kubelet-client-2026-11-21-12-00-00.pem` next to it. The
// superseded file stays, as with the kubelet; of all older files the newest are kept.
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { systemCode } from '../errors.ts';
import { type Disk, onPath, realDisk, unlessAbsent } from '../disk/disk.ts';
import { temporaryName } from '../disk/files.ts';
import type { Location } from '../inventory/model.ts';
import { type Found, type Store, verifyMaterial } from './store.ts';

export interface Link {
  readonly path: string;
  /** Its present target; undefined: there is no link yet. */
  readonly value: string | undefined;
  readonly relative: boolean;
  /** Directory of the files that it leads to. */
  readonly directory: string;
}

const currentSuffix = '-current.pem';
const filesKept = 5;
const longestChain = 40;

/** The last link on the way to the file; undefined for a plain file, and for an absent file with another name. */
export async function lastLink(disk: Disk, file: string): Promise<Link | undefined> {
  const link = await linkOf(disk, file);
  if (link !== undefined) return settled(disk, link);
  if (!file.endsWith(currentSuffix) || (await unlessAbsent(() => disk.lstat(file))) !== undefined) return undefined;
  return { path: file, value: undefined, relative: false, directory: dirname(file) };
}

/** Final target of the links of `file`, whether or not it exists; `file` itself where it is no link. */
export async function finalTarget(disk: Disk, file: string): Promise<string> {
  const link = await linkOf(disk, file);
  return link?.value === undefined ? file : resolve(dirname(link.path), link.value);
}

async function linkOf(disk: Disk, file: string): Promise<Link | undefined> {
  let link: Link | undefined;
  let at = file;
  for (let depth = 0; depth < longestChain; depth += 1) {
    const path = at;
    const status = await unlessAbsent(() => disk.lstat(path));
    if (status?.isSymbolicLink() !== true) break;
    const value = await disk.readlink(path);
    at = resolve(dirname(path), value);
    link = { path, value, relative: !isAbsolute(value), directory: dirname(at) };
  }
  return link;
}

/**
 * A link into a directory that is gone gets its files in its own directory; a link into another directory is absolute.
 */
async function settled(disk: Disk, link: Link): Promise<Link> {
  const own = dirname(link.path);
  if (link.directory === own) return link;
  if ((await unlessAbsent(() => disk.stat(link.directory))) === undefined) return { ...link, directory: own };
  return { ...link, relative: false };
}

const prefixOf = ({ path }: Link): string => {
  const name = basename(path);
  return name.endsWith(currentSuffix) ? name.slice(0, -currentSuffix.length) : name.replace(/\.pem$/, '');
};

/** A free name; a second later where a file was made in this second. */
export async function datedName(disk: Disk, link: Link, now: Date): Promise<string> {
  for (let later = 0; ; later += 1) {
    const stamp = localStamp(new Date(now.getTime() + later * 1000));
    const path = join(link.directory, `${prefixOf(link)}-${stamp}.pem`);
    if ((await unlessAbsent(() => disk.lstat(path))) === undefined) return path;
  }
}

/** client-go formats local time. */
function localStamp(date: Date): string {
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())];
  return [...day, two(date.getHours()), two(date.getMinutes()), two(date.getSeconds())].join('-');
}

export async function flip(disk: Disk, { path }: Link, value: string): Promise<void> {
  await onPath(path, async () => {
    const temporary = temporaryName(path);
    await disk.symlink(value, temporary);
    try {
      await disk.rename(temporary, path);
    } catch (err) {
      await disk.rm(temporary, { force: true }).catch(() => undefined);
      throw err;
    }
  });
}

/** Names of the files that a link leads to, the newest first. */
async function datedNames(disk: Disk, link: Link): Promise<readonly string[]> {
  const prefix = `${prefixOf(link)}-`;
  return (await disk.readdir(link.directory))
    .filter((name) => name.startsWith(prefix) && /^\d{4}(-\d{2}){5}\.pem$/.test(name.slice(prefix.length)))
    .toSorted()
    .toReversed();
}

/**
 * Dated files of a path that may be such a link: none where it is a plain file, or where the directory cannot be
 * listed.
 */
async function datedBeside(
  disk: Disk,
  file: string,
): Promise<{ readonly directory: string; readonly names: readonly string[] }> {
  const link = await lastLink(disk, file).catch(() => undefined);
  if (link === undefined) return { directory: dirname(file), names: [] };
  return { directory: link.directory, names: await datedNames(disk, link).catch(() => []) };
}

/** Keeps the newest dated files, and always the present and the superseded one. Files that cannot be removed stay. */
export async function pruneDated(disk: Disk, link: Link, present: string): Promise<void> {
  const { directory, value, path } = link;
  const kept = new Set([basename(present), value === undefined ? '' : basename(resolve(dirname(path), value))]);
  try {
    for (const name of (await datedNames(disk, link)).slice(filesKept)) {
      if (!kept.has(name)) await disk.rm(join(directory, name), { force: true });
    }
  } catch (err) {
    if (systemCode(err) === undefined) throw err; // the new file is in place: this is no failure of the write
  }
}

/**
 * The newest whole pair of the dated files next to a combined file; undefined: none. A power loss while the kubelet takes
 * a new certificate leaves its link dangling, or pointing to an empty file: client-go does not sync the file (Update).
 */
export async function earlierPair(
  location: Location,
  store: Pick<Store, 'read'>,
  signal: AbortSignal,
): Promise<Found | undefined> {
  if (location.kind !== 'combinedPem') return undefined;
  const { directory, names } = await datedBeside(realDisk, location.file);
  for (const name of names) {
    const dated = { ...location, file: join(directory, name) };
    try {
      const there = await store.read(dated, signal);
      if (there === undefined) continue;
      verifyMaterial(dated, there);
      return there;
    } catch {
      // Another dated file may be whole.
    }
  }
  return undefined;
}
