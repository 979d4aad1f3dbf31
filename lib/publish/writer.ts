// Publishes one object as a directory of files: all of its keys in one step, and durably. The layout is AtomicWriter's
// (kubernetes pkg/volume/util/atomic_writer.go): `<key> -> ..data/<key>`, `..data -> ..<generation>`. Killed or without
// power at any moment, the old or the new generation is there, complete; the next call repairs the rest. Two calls for
// one directory must not run at the same time. The directory belongs to this tool: other files in it are removed.
// 1. validate the names
// 2. compare with the present files
// 3. write and fsync each file
// 4. fsync the generation
// 5. link with a temporary name
// 6. rename it over `..data`: atomic
// 7. fsync the object's directory
// 8. visible links of new keys
// 9. remove links of keys that are gone
// 10. unlink superseded generations
// 11. fsync the object's directory
// Plain files of an earlier tool, and directories that have the name of a key or of `..data`, are taken over between 2
// and 3.
// Step 10 is not tidiness: kube-apiserver watches the inodes of the files it loaded and reads again only when the old
// ones are really gone. Its price: a reader that followed `..data` at the very instant of the flip may get one ENOENT
// from that open (about one in a million opens under constant flips), as with every mounted Secret; the next open
// succeeds.
import { basename, dirname, join } from 'node:path';
import { systemClock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import type { Entries } from '../store/store.ts';
import { attempt, realDisk, unlessAbsent, type Disk } from '../disk/disk.ts';
import { directoryMode, ensureDirectory, syncDirectory, writeNewFile } from '../disk/files.ts';
import { namesProblem, nameProblem } from './file-names.ts';
import { type Cleared, hiddenName, makeRoom } from './make-room.ts';
import { asEntries, dataLink, isCurrent, type ObjectDirectory, scan, type Scan, visibleContent } from './scan.ts';

export type FileMode = 0o600 | 0o644;

export interface Publication extends ObjectDirectory {
  readonly entries: Entries;
  readonly mode: FileMode;
  readonly now?: () => Date;
  /** Called for each directory that lay where a link belongs, and was removed with its content. */
  readonly onCleared?: (cleared: Cleared) => void;
}

export type PublishOutcome = 'written' | 'unchanged' | 'repaired';

type Writing = Required<Publication>;

/**
 * `scanned`: the caller's scan; the directory is scanned again if names have changed since. Throws MaterialInvalid
 * (names) and WriteFailed; after both, the last good files are still in use.
 */
export async function publish(publication: Publication, scanned?: Scan): Promise<PublishOutcome> {
  const writing: Writing = { disk: realDisk, now: () => systemClock.now(), onCleared: () => undefined, ...publication };
  const { disk, directory, what, entries } = writing;
  checkNames(writing); // 1
  return attempt({ code: 'WriteFailed', action: 'publish', what, directory }, async () => {
    await ensureDirectory(disk, directory);
    // Bytes changed in place do not change the directory's time: a repair is decided on a new scan.
    const isStale =
      scanned === undefined || hasContent(scanned, entries) || !(await isCurrent(disk, directory, scanned));
    let seen = isStale ? await scan(disk, directory) : scanned; // 2
    if (await makeRoom(writing, seen)) seen = await scan(disk, directory);
    const foreign = seen.foreign.filter((name) => Object.hasOwn(entries, name));
    if (foreign.length > 0) {
      await takeOver(writing, { ...seen, foreign });
      seen = await scan(disk, directory);
    }
    if (hasContent(seen, entries)) {
      const modesRepaired = await repairModes(writing, seen);
      const namesRepaired = await settle(writing, seen);
      return foreign.length > 0 || modesRepaired || namesRepaired ? 'repaired' : 'unchanged';
    }
    await repairModes(writing, { ...seen, generation: undefined });
    await flip(writing); // 3 to 7
    const superseded = seen.generation === undefined ? [] : [seen.generation];
    await settle(writing, { ...seen, leftovers: [...superseded, ...seen.leftovers] }); // 8 to 11
    return 'written';
  });
}

interface Comparison {
  /** Outcome that publish would have. */
  readonly difference: PublishOutcome;
  /** The entries as readers see them now, where `difference` is `written`; undefined where there are none. */
  readonly published: Entries | undefined;
}

/** Compares the publication with the present files, and changes nothing. Throws what publish throws. */
export async function compare(publication: Publication, scanned?: Scan): Promise<Comparison> {
  const { directory, what, entries, mode, disk = realDisk } = publication;
  checkNames(publication);
  return attempt({ code: 'WriteFailed', action: 'publish', what, directory }, async () => {
    const seen = scanned ?? (await scan(disk, directory));
    if (!hasContent(seen, entries)) {
      return { difference: 'written', published: asEntries(await visibleContent(disk, directory, seen)) };
    }
    const differing = [seen.foreign, seen.leftovers, drifted(seen, mode), missing(seen, entries), gone(seen, entries)];
    return {
      difference: differing.every(({ length }) => length === 0) ? 'unchanged' : 'repaired',
      published: undefined,
    };
  });
}

function checkNames({ directory, what, entries }: Publication): void {
  const ownProblem = nameProblem(basename(directory));
  const problem =
    ownProblem === undefined
      ? namesProblem(Object.keys(entries))
      : `its name ${ownProblem}; a bare directory name is wanted`;
  if (problem !== undefined) throw new RecoveryError('MaterialInvalid', `Cannot publish ${what}: ${problem}`);
}

/** Whether the generation in use holds exactly these entries. */
function hasContent(seen: Scan, entries: Entries): boolean {
  const names = Object.keys(entries);
  // Files of another user can change at any moment: they are replaced, whatever they hold now.
  if (seen.generation === undefined || seen.foreignGeneration || seen.files.size !== names.length) return false;
  return names.every((name) => {
    const file = seen.files.get(name);
    const bytes = entries[name];
    if (file?.bytes === undefined || file.foreignOwner || bytes === undefined) return false;
    return Buffer.compare(file.bytes, bytes) === 0;
  });
}

/** Paths below the object's directory with a wrong mode, with the wanted one. */
function drifted(seen: Scan, mode: FileMode): readonly (readonly [string, number])[] {
  const found: [string, number][] = [];
  if (seen.present && seen.directoryMode !== directoryMode) found.push(['', directoryMode]);
  if (seen.generation === undefined) return found;
  if (seen.generationMode !== directoryMode) found.push([seen.generation, directoryMode]);
  for (const [name, file] of seen.files) if (file.mode !== mode) found.push([join(seen.generation, name), mode]);
  return found;
}

const missing = (seen: Scan, entries: Entries): readonly string[] =>
  Object.keys(entries).filter((name) => !seen.links.has(name));

const gone = (seen: Scan, entries: Entries): readonly string[] =>
  [...seen.links, ...seen.foreign].filter((name) => !Object.hasOwn(entries, name));

async function repairModes({ disk, directory, mode }: Writing, seen: Scan): Promise<boolean> {
  const wrong = drifted(seen, mode);
  for (const [path, wanted] of wrong) await disk.chmod(join(directory, path), wanted);
  return wrong.length > 0;
}

/**
 * Converts plain files of an earlier tool to this layout; no path is ever absent. A generation with the bytes that
 * every visible name leads to now, a flip to it, in which no reader sees a difference, then each plain file is replaced
 * by a link to its own bytes. Only then may a new generation follow: flipped earlier, a link would show the new
 * certificate next to the old plain key.
 */
async function takeOver(writing: Writing, seen: Scan): Promise<void> {
  const { disk, directory } = writing;
  const content = await visibleContent(disk, directory, seen);
  const plain = seen.foreign.filter((name) => content.has(name));
  if (plain.length === 0) return; // links that lead nowhere: nothing to keep
  await flip({ ...writing, entries: Object.fromEntries(content) });
  for (const name of plain) await replaceByLink(disk, join(directory, name), `${dataLink}/${name}`);
  await syncDirectory(disk, directory);
}

/** Steps 3 to 7: after it, every reader that opens a path through `..data` gets the new generation. */
async function flip(writing: Writing): Promise<void> {
  const { disk, directory } = writing;
  const name = await nameless(directory, () => writeGeneration(writing)); // 3, 4
  try {
    // 5. the link under a name of its own, 6. the rename: the atomic instant. The target is relative, so that the
    //    directory can be mounted elsewhere.
    await replaceByLink(disk, join(directory, dataLink), name);
  } catch (err) {
    // A failed rename may have happened all the same (network file systems): a generation in use is never removed.
    const inUse = await disk.readlink(join(directory, dataLink)).catch(() => '');
    if (inUse !== name) await disk.rm(join(directory, name), { recursive: true, force: true }).catch(() => undefined);
    throw err;
  }
  // 7. from here on the former generation is no longer needed, also after a power loss.
  await syncDirectory(disk, directory);
}

/**
 * Writes the files, each durable, then the directory that names them: `..2026_11_20_08_30_00.xxxxxx`, as AtomicWriter.
 */
async function writeGeneration({ disk, directory, entries, mode, now }: Writing): Promise<string> {
  const prefix = `..${now().toISOString().slice(0, 19).replaceAll(/[-T:]/g, '_')}.`;
  const path = await disk.mkdtemp(join(directory, prefix));
  try {
    await disk.chmod(path, directoryMode); // mkdtemp makes it 0700
    const writes = Object.entries(entries).map(
      ([name, bytes]) => writeNewFile(disk, join(path, name), bytes, { mode }), // 3
    );
    // All writes finish before anything is removed: a write that is still running would fill the directory again.
    for (const result of await Promise.allSettled(writes)) if (result.status === 'rejected') throw result.reason;
    await syncDirectory(disk, path); // 4
  } catch (err) {
    await disk.rm(path, { recursive: true, force: true }).catch(() => undefined); // else the next prune finds it
    throw err;
  }
  return basename(path);
}

/** A link that replaces any file or link of that name in one step; the name is never absent. */
async function replaceByLink(disk: Disk, path: string, target: string): Promise<void> {
  const temporary = join(dirname(path), hiddenName('link'));
  await nameless(dirname(path), async () => {
    await disk.symlink(target, temporary);
    try {
      await disk.rename(temporary, path);
    } catch (err) {
      await disk.unlink(temporary).catch(() => undefined);
      throw err;
    }
  });
}

/**
 * Runs `call`, which creates something in `directory` under a name that no other run uses. After a failure its error
 * names the final path, so that the same failure again is no news.
 */
async function nameless<T>(directory: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (err) {
    const failure = err as NodeJS.ErrnoException;
    if (failure.path?.startsWith(`${directory}/..`) === true) {
      const [made, ...rest] = failure.path.slice(directory.length + 1).split('/');
      if (made !== dataLink) failure.path = join(directory, ...rest);
    }
    throw failure;
  }
}

/** Steps 8 to 11, for a generation in use: makes the visible names correct, removes the rest. */
async function settle({ disk, directory, entries }: Writing, seen: Scan): Promise<boolean> {
  const [wanted, unwanted] = [missing(seen, entries), gone(seen, entries)];
  if (wanted.length === 0 && unwanted.length === 0 && seen.leftovers.length === 0) return false;
  // 8. the same fsync covers a directory, and all temporary names in it
  for (const name of wanted) await replaceByLink(disk, join(directory, name), `${dataLink}/${name}`);
  for (const name of unwanted) await disk.unlink(join(directory, name)); // 9
  await removeLeftovers(disk, directory, seen.leftovers); // 10
  await syncDirectory(disk, directory); // 11
  return true;
}

/** Removes hidden names that no link led to in the scan; the present target of `..data` stays. */
async function removeLeftovers(disk: Disk, directory: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    // Read before each removal: another writer, against the rules, must not lose the files of its readers.
    const inUse = await unlessAbsent(() => disk.readlink(join(directory, dataLink)));
    if (name !== inUse) await disk.rm(join(directory, name), { recursive: true, force: true });
  }
}

/** Removes superseded and half-written generations and stale temporary names. Returns how many. Throws WriteFailed. */
export async function prune({ directory, what, disk = realDisk }: ObjectDirectory, scanned?: Scan): Promise<number> {
  return attempt({ code: 'WriteFailed', action: 'prune', what, directory }, async () => {
    const { generation, links, directories, leftovers } = scanned ?? (await scan(disk, directory));
    // Links without a generation: `..data` was removed or is a directory, and a leftover may be the last good state.
    // publish clears up once it has written a generation.
    const isOpen = generation === undefined && (links.size > 0 || directories.includes(dataLink));
    if (leftovers.length === 0 || isOpen) return 0;
    await syncDirectory(disk, directory); // the flip that superseded them may not be durable yet
    await removeLeftovers(disk, directory, leftovers);
    await syncDirectory(disk, directory);
    return leftovers.length;
  });
}
