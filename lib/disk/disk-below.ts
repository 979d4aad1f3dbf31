// The file system as a process would see it whose root is a directory: every path, and every target of a link, lies below
// it. Links in a copy are absolute (copyBelow()), so that none leads out of it.
import { constants } from 'node:fs';
import { chmod, chown, lstat, mkdir, open, readdir, readlink, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { bounds } from '../bounds.ts';
import { systemCode } from '../errors.ts';
import { type Disk, onPath, realDisk, unlessAbsent } from './disk.ts';

type Call = (...args: readonly unknown[]) => Promise<unknown>;

/** Calls whose second argument, or whose result, is a path, too. */
const twoPaths: ReadonlySet<string> = new Set(['rename', 'symlink', 'copyAttributes']);
const answersPath: ReadonlySet<string> = new Set(['mkdir', 'mkdtemp', 'readlink', 'realpath']);

export function diskBelow(root: string): Disk {
  const inside = (path: unknown): unknown =>
    typeof path === 'string' && path.startsWith('/') ? join(root, resolve(path)) : path;
  const outside = (path: unknown): unknown =>
    typeof path === 'string' && path.startsWith(`${root}/`) ? path.slice(root.length) : path;
  const below = ([name, call]: [string, Call]): [string, Call] => [
    name,
    async (...args) => {
      const paths = twoPaths.has(name) ? 2 : 1;
      const answer = await call(...args.map((one, at) => (at < paths ? inside(one) : one)));
      return answersPath.has(name) ? outside(answer) : answer;
    },
  ];
  return Object.fromEntries(Object.entries(realDisk).map((one) => below(one as [string, Call]))) as unknown as Disk;
}

const mostLinks = 40;

/** Copies a file, or all files below a directory, with the directories and links on the way, to the same path below `root`. */
export async function copyBelow(root: string, path: string, links = 0): Promise<void> {
  const parts = resolve(path).split('/').slice(1);
  let at = '/';
  for (const [index, part] of parts.entries()) {
    const from = join(at, part);
    const there = await unlessAbsent(() => lstat(from)).catch(unlessNoDirectory);
    if (there === undefined) return;
    if (there.isSymbolicLink()) {
      const to = resolve(at, await readlink(from));
      await symlink(join(root, to), join(root, from)).catch(unlessThere);
      if (links < mostLinks) await copyBelow(root, join(to, ...parts.slice(index + 1)), links + 1);
      return;
    }
    if (there.isDirectory()) await mkdir(join(root, from), { mode: 0o700 }).catch(unlessThere);
    else if (there.isFile() && there.size <= bounds.file.most.bytes) await copyFile(from, join(root, from));
    at = from;
  }
  const names = (await lstat(at)).isDirectory() ? await readdir(at) : [];
  for (const name of names) await copyBelow(root, join(at, name), links);
}

/** Copies content, owner and mode; the time of the last read of the original stays where the system allows it. */
async function copyFile(from: string, to: string): Promise<void> {
  const { O_RDONLY, O_NONBLOCK, O_NOATIME } = constants;
  const file = await open(from, O_RDONLY | O_NONBLOCK | O_NOATIME).catch(() => open(from, O_RDONLY | O_NONBLOCK));
  try {
    const { mode, uid, gid } = await file.stat();
    const bytes = await file.readFile();
    // A full file system is that of the copies.
    await onPath(to, () => writeFile(to, bytes, { flag: 'wx', mode: 0o600 }));
    await chown(to, uid, gid).catch(() => undefined);
    await chmod(to, mode & 0o777);
  } catch (err) {
    unlessThere(err);
  } finally {
    await file.close();
  }
}

function unlessThere(err: unknown): void {
  if (systemCode(err) !== 'EEXIST') throw err;
}

function unlessNoDirectory(err: unknown): undefined {
  if (systemCode(err) !== 'ENOTDIR') throw err;
}
