// The copy of the program that units start, which root alone may write and no package or archive replaces while it runs:
// a folder for each version, named by its content, and a link to the one in use. The link is flipped by a rename, so
// every run has one version. The former one stays for the way back. A directory "bin" below /opt is one of programs to
// the policies of SELinux.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { constants, createReadStream, existsSync } from 'node:fs';
import { chown, copyFile, lstat, readdir, realpath, rmdir } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { attempt, realDisk, unlessAbsent } from '../disk/disk.ts';
import { ensureDirectory, leftoversOf, syncDirectory, temporaryName } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { version } from '../program.ts';
import { isThere, namesIn, removeDirectory, removeFile } from './existing-files.ts';

export interface ProgramPlaces {
  /** Directory of all copies. */
  readonly home: string;
  /** Directories of the PATH: the first one gets a link to the copy unless the program is in any of them. */
  readonly commands: readonly [string, ...string[]];
}

export const programPlaces: ProgramPlaces = {
  home: '/opt/kube-cert-recovery',
  commands: ['/usr/local/bin', '/usr/bin'],
};

const name = 'kube-cert-recovery';

/** Path by which units start whichever version is in use. */
export const copiedProgram = ({ home }: ProgramPlaces): string => join(home, 'bin', name);

/** Node binaries that a launcher starts, in its order (scripts/launcher.sh). */
export const nodesOf = (launcher: string): readonly string[] => [
  join(dirname(launcher), 'node'),
  join(dirname(launcher), '../node_modules/.bin/node'),
];

interface Part {
  readonly from: string;
  /** Path in the folder of the version. */
  readonly to: string;
  readonly mode: number;
  readonly uid: number;
}

/** The program of a launcher as it is copied; the Node that others bring stays where it is. */
async function partsOf(launcher: string): Promise<readonly Part[]> {
  const uid = process.geteuid?.() ?? 0;
  const page = ({ from, to }: Pick<Part, 'from' | 'to'>): Part => ({ from, to, mode: 0o644, uid });
  const folder = dirname(launcher); // in an image it is the root of all files
  const modules = (await partsIn(join(folder, 'app'))).map(({ from, to }) => ({ from, to: join('app', to) }));
  const licence = { from: join(folder, 'LICENSE'), to: 'LICENSE' };
  const node = nodesOf(launcher).find((path) => existsSync(path));
  return [
    { from: launcher, to: name, mode: 0o755, uid },
    ...[...modules, ...(existsSync(licence.from) ? [licence] : [])].map(page),
    ...(node === undefined ? [] : [{ from: node, to: 'node', mode: 0o755, uid }]),
  ];
}

/** All that a folder has. */
async function partsIn(folder: string): Promise<readonly Part[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const others = entries.filter((one) => !one.isDirectory());
  const files = others.map((one) => join(one.parentPath, one.name));
  const odd = others.findIndex((one) => !one.isFile());
  if (odd >= 0) {
    const message = `Cannot copy the program: "${files[odd]}" is no regular file; unpack the program again`;
    throw new RecoveryError('PreconditionFailed', message);
  }
  return Promise.all(
    files.map(async (from) => {
      const { mode, uid } = await lstat(from);
      return { from, to: relative(folder, from), mode: mode & 0o7777, uid };
    }),
  );
}

async function digestOf(parts: readonly Part[]): Promise<string> {
  const digest = createHash('sha256');
  for (const { from, to, mode, uid } of parts.toSorted((one, other) => (one.to < other.to ? -1 : 1))) {
    const content = createHash('sha256');
    for await (const chunk of createReadStream(from)) content.update(chunk as Buffer);
    digest.update(`${to} ${mode} ${uid} ${content.digest('hex')}\n`);
  }
  return digest.digest('hex').slice(0, 12);
}

export interface ProgramCopy {
  /** Launcher in the folder of this version. */
  readonly launcher: string;
  /** Launcher of the version in use, if any. */
  readonly inUse: string | undefined;
  /** Whether the folder was made now. */
  readonly isWritten: boolean;
}

interface Version {
  readonly parts: readonly Part[];
  readonly digest: string;
  readonly folder: string;
}

async function versionOf(launcher: string, places: ProgramPlaces): Promise<Version> {
  const parts = await partsOf(await realpath(launcher));
  const digest = await digestOf(parts);
  return { parts, digest, folder: join(dirname(copiedProgram(places)), `${version}-${digest}`) };
}

/** Launcher of the version that units start, if any. */
export const programInUse = async (places: ProgramPlaces): Promise<string | undefined> =>
  unlessAbsent(() => realpath(copiedProgram(places)));

/** Whether the version in use is this program, and whole. */
export async function isInUse(launcher: string, places: ProgramPlaces): Promise<boolean> {
  const { folder, digest } = await versionOf(launcher, places);
  const inUse = await programInUse(places);
  return inUse === join(folder, name) && (await digestIn(folder)) === digest;
}

/** Undefined where there is no folder, or something in it that no copy has. */
const digestIn = async (folder: string): Promise<string | undefined> => partsIn(folder).then(digestOf, () => undefined);

const writing = (directory: string) =>
  ({
    code: 'WriteFailed',
    action: 'copy',
    what: 'the program',
    directory,
    remains: 'the units stay as they are; with --executable they start a program where it lies',
  }) as const;

/** Copies the program of a launcher, for later use. Throws WriteFailed, PreconditionFailed. */
export async function copyProgram(from: string, places: ProgramPlaces): Promise<ProgramCopy> {
  const link = copiedProgram(places);
  const bin = dirname(link);
  if ((await lstat(places.home).catch(() => undefined))?.isSymbolicLink() === true) {
    // The copy would lie in the folder of an installation by hand, and be gone with it.
    const message = `Cannot copy the program: "${places.home}" is a link; remove it, and run the same command again (rm ${places.home})`;
    throw new RecoveryError('PreconditionFailed', message);
  }
  return attempt(writing(bin), async () => {
    const { parts, digest, folder } = await versionOf(from, places);
    const inUse = await programInUse(places);
    await ensureDirectory(realDisk, bin);
    for (const scratch of await leftoversOf(realDisk, link)) await removeDirectory(scratch);
    const isWhole = (await digestIn(folder)) === digest;
    if (!isWhole) await writeFolder(folder, parts, link);
    return { launcher: join(folder, name), inUse, isWritten: !isWhole };
  });
}

/** Writes a folder, or replaces a damaged one, which may be in use: it stays until the new one is there. */
async function writeFolder(folder: string, parts: readonly Part[], link: string): Promise<void> {
  const [scratch, damaged] = [temporaryName(link), temporaryName(link)];
  try {
    for (const { from, to, mode, uid } of parts) {
      const path = join(scratch, to);
      await ensureDirectory(realDisk, dirname(path));
      await copyFile(from, path, constants.COPYFILE_FICLONE);
      await chown(path, uid, process.getegid?.() ?? 0); // copyFile keeps the user who has unpacked it
      await realDisk.chmod(path, mode);
      await syncDirectory(realDisk, path); // as of a directory, what it holds
    }
    await unlessAbsent(() => realDisk.rename(folder, damaged));
    await realDisk.rename(scratch, folder);
  } catch (err) {
    await realDisk.rename(damaged, folder).catch(() => undefined); // absent where nothing was replaced
    await realDisk.rm(scratch, { recursive: true, force: true }); // on a full disk it takes the rest
    throw err;
  }
  await syncDirectory(realDisk, dirname(folder));
  await realDisk.rm(damaged, { recursive: true, force: true });
}

/** Gives the copies the labels of the policy where SELinux is on. The answer is a warning. */
export async function restoreLabels({ home }: ProgramPlaces): Promise<readonly string[]> {
  if (!existsSync('/sys/fs/selinux/enforce')) return [];
  const failure = await new Promise<Error | null>((resolve) => execFile('restorecon', ['-R', home], resolve));
  return failure === null ? [] : [`The SELinux labels of "${home}" are not restored: ${failure.message.trim()}`];
}

/** Folders that stay, besides the one in use and the former: ways back, 112 MB each. */
const keptFolders = 3;

/** From now on units start this copy. Only the newest ones stay, and the former. Throws ReadFailed, WriteFailed. */
export async function flipTo({ launcher, inUse }: ProgramCopy, places: ProgramPlaces): Promise<void> {
  const link = copiedProgram(places);
  const [first] = places.commands;
  const named = await Promise.all(places.commands.map((directory) => isThere(join(directory, name), 'command')));
  await attempt(writing(dirname(link)), async () => {
    if (launcher !== inUse) await replaceLink(relative(dirname(link), launcher), link);
    if (!named.includes(true) && existsSync(first)) await replaceLink(link, join(first, name));
  });
  const kept = [launcher, inUse].map((path = '') => dirname(path));
  const older = (await newestFirst(await foldersIn(places))).slice(keptFolders);
  for (const folder of older) if (!kept.includes(folder)) await removeDirectory(folder);
}

async function newestFirst(folders: readonly string[]): Promise<readonly string[]> {
  const dated = await Promise.all(folders.map(async (path) => ({ path, at: (await realDisk.lstat(path)).mtimeMs })));
  return dated.toSorted((one, other) => other.at - one.at).map(({ path }) => path);
}

async function replaceLink(target: string, path: string): Promise<void> {
  const temporary = temporaryName(path);
  await realDisk.symlink(target, temporary);
  await realDisk.rename(temporary, path);
  await syncDirectory(realDisk, dirname(path));
}

async function foldersIn(places: ProgramPlaces): Promise<readonly string[]> {
  const bin = dirname(copiedProgram(places));
  return (await namesIn(bin)).filter((one) => /-[0-9a-f]{12}$/.test(one)).map((one) => join(bin, one));
}

/** Removes a copy that cannot be used. */
export async function dropCopy({ launcher, inUse, isWritten }: ProgramCopy): Promise<void> {
  if (isWritten && launcher !== inUse) await removeDirectory(dirname(launcher));
}

/** Removed (with dryRun: to be removed) links and copies; none without `places`. Throws ReadFailed, WriteFailed. */
export async function removeProgram(dryRun: boolean, places: ProgramPlaces | undefined): Promise<readonly string[]> {
  if (places === undefined) return [];
  const link = copiedProgram(places);
  const leads = async (path: string): Promise<string> => realDisk.readlink(path).catch(() => '');
  const commands = places.commands.map((directory) => join(directory, name));
  const ours = await Promise.all(commands.map(async (path) => (await leads(path)) === link));
  const links = [...commands.filter((_, at) => ours[at]), ...((await leads(link)) === '' ? [] : [link])];
  const folders = await foldersIn(places);
  if (!dryRun) {
    for (const path of links) await removeFile(path, 'link');
    for (const folder of folders) await removeDirectory(folder);
    // Something else may lie there.
    for (const directory of [dirname(link), places.home]) await rmdir(directory).catch(() => undefined);
  }
  return [...links, ...folders];
}
