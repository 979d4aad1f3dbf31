// Publishes one object as a directory of files: all of its keys at once, and durably. Layout as AtomicWriter makes it
// (kubernetes pkg/volume/util/atomic_writer.go): `<key> -> ..data/<key>`, `..data -> ..<generation>`. Killed or without
// power at any moment, the old or the new generation is there, complete; the next call repairs the rest. Two calls for
// one directory must not run at the same time. The directory belongs to this tool: other files in it go away.
//
//  1. validate the names          5. link with a temporary name             9. links of keys that are gone
//  2. compare with what is there  6. rename it over `..data`: atomic       10. unlink what is superseded
//  3. write and fsync each file   7. fsync the object's directory          11. fsync the object's directory
//  4. fsync the generation        8. visible links of new keys
//
// Step 10 is not tidiness: kube-apiserver watches the inodes of the files it loaded and reads again only when the old
// ones are really gone. Its price: who followed `..data` at the very instant of the flip may get one ENOENT from that
// open (about one in a million opens under constant flips), as with every mounted Secret; the next open succeeds.
import { basename, join } from 'node:path';
import { systemClock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import type { Entries } from '../store/store.ts';
import { attempt, realDisk, type Disk } from '../disk/disk.ts';
import { directoryMode, ensureDirectory, syncDirectory } from '../disk/files.ts';
import { flip, removeLeftovers, replaceByLink, type FileMode } from './generation.ts';
import { dataLink, entriesSeen, inspect, inspectAcrossFlips, type Inspected } from './inspect.ts';
import { namesProblem, nameProblem } from './names.ts';
import { takeOver } from './take-over.ts';

export type { FileMode } from './generation.ts';

export interface Publication {
  /** The object's own directory: `<destination>/secrets/<name>`. Absolute. */
  readonly directory: string;
  /** Kind and name for messages: `Secret "a/b"`. */
  readonly what: string;
  readonly entries: Entries;
  readonly mode: FileMode;
  readonly disk?: Disk;
  readonly now?: () => Date;
}

export type PublishOutcome = 'written' | 'unchanged' | 'repaired';

/** Throws MaterialInvalid (names) and WriteFailed; after both, the last good files are still in use. */
export async function publish(publication: Publication): Promise<PublishOutcome> {
  const { directory, what, entries, mode, disk = realDisk, now = () => systemClock.now() } = publication;
  checkNames(publication); // 1
  return attempt({ code: 'WriteFailed', action: 'publish', what, directory }, async () => {
    await ensureDirectory(disk, directory);
    let seen = await inspect(disk, directory); // 2
    checkDirectories(publication, seen);
    const foreign = seen.foreign.filter((name) => Object.hasOwn(entries, name));
    if (foreign.length > 0) {
      await takeOver({ disk, directory, mode, now: now() }, { ...seen, foreign });
      seen = await inspect(disk, directory);
    }
    if (sameContent(seen, entries)) {
      const modesRepaired = await repairModes(disk, directory, { seen, mode });
      const namesRepaired = await settle(disk, directory, { seen, entries });
      return foreign.length > 0 || modesRepaired || namesRepaired ? 'repaired' : 'unchanged';
    }
    await repairModes(disk, directory, { seen: { ...seen, generation: undefined }, mode });
    await flip({ disk, directory, entries, mode, now: now() }); // 3 to 7
    const superseded = seen.generation === undefined ? [] : [seen.generation];
    await settle(disk, directory, { seen: { ...seen, leftovers: [...superseded, ...seen.leftovers] }, entries });
    return 'written';
  });
}

export interface Comparison {
  /** What publish would do. */
  readonly difference: PublishOutcome;
  /** Where that is `written`: the entries as readers see them now; undefined where there are none. */
  readonly published: Entries | undefined;
}

/** Compares the publication with what is there, and changes nothing. Throws what publish throws. */
export async function compare(publication: Publication): Promise<Comparison> {
  const { directory, what, entries, mode, disk = realDisk } = publication;
  checkNames(publication);
  return attempt({ code: 'WriteFailed', action: 'publish', what, directory }, async () => {
    const seen = await inspectAcrossFlips(disk, directory);
    checkDirectories(publication, seen);
    if (!sameContent(seen, entries))
      return { difference: 'written', published: await entriesSeen(disk, directory, seen) };
    const settled =
      seen.foreign.length === 0 &&
      seen.leftovers.length === 0 &&
      drifted(seen, mode).length === 0 &&
      missingLinks(seen, entries).length === 0 &&
      goneNames(seen, entries).length === 0;
    return { difference: settled ? 'unchanged' : 'repaired', published: undefined };
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

function checkDirectories({ directory, what, entries }: Publication, seen: Inspected): void {
  const inTheWay = seen.directories.find((name) => Object.hasOwn(entries, name));
  if (inTheWay === undefined) return;
  const path = join(directory, inTheWay);
  const message = `Cannot publish ${what}: "${path}" is a directory where a file is wanted; move it away`;
  throw new RecoveryError('WriteFailed', message, { details: { path } });
}

function sameContent(seen: Inspected, entries: Entries): boolean {
  const names = Object.keys(entries);
  // What somebody else owns they can change at any moment: it is replaced, whatever it says now.
  if (seen.generation === undefined || seen.foreignGeneration || seen.files.size !== names.length) return false;
  return names.every((name) => {
    const file = seen.files.get(name);
    const bytes = entries[name];
    if (file?.bytes === undefined || file.foreignOwner || bytes === undefined) return false;
    return Buffer.compare(file.bytes, bytes) === 0;
  });
}

/** Paths below the object's directory whose mode is not what it must be, with the wanted one. */
function drifted(seen: Inspected, mode: FileMode): readonly (readonly [string, number])[] {
  const found: [string, number][] = [];
  if (seen.present && seen.directoryMode !== directoryMode) found.push(['', directoryMode]);
  if (seen.generation === undefined) return found;
  if (seen.generationMode !== directoryMode) found.push([seen.generation, directoryMode]);
  for (const [name, file] of seen.files) if (file.mode !== mode) found.push([join(seen.generation, name), mode]);
  return found;
}

const missingLinks = (seen: Inspected, entries: Entries): readonly string[] =>
  Object.keys(entries).filter((name) => !seen.links.has(name));

const goneNames = (seen: Inspected, entries: Entries): readonly string[] =>
  [...seen.links, ...seen.foreign].filter((name) => !Object.hasOwn(entries, name));

interface Repair {
  readonly seen: Inspected;
  readonly mode: FileMode;
}

async function repairModes(disk: Disk, directory: string, { seen, mode }: Repair): Promise<boolean> {
  const wrong = drifted(seen, mode);
  for (const [path, wanted] of wrong) await disk.chmod(join(directory, path), wanted);
  return wrong.length > 0;
}

interface Settlement {
  readonly seen: Inspected;
  readonly entries: Entries;
}

/** Steps 8 to 11, for a generation that is in use: the visible names become what they must be, the rest goes. */
async function settle(disk: Disk, directory: string, { seen, entries }: Settlement): Promise<boolean> {
  const missing = missingLinks(seen, entries);
  const gone = goneNames(seen, entries);
  if (missing.length === 0 && gone.length === 0 && seen.leftovers.length === 0) return false;
  // 8. a directory, and all temporary names in it, end with the same fsync
  for (const name of missing) await replaceByLink(disk, join(directory, name), `${dataLink}/${name}`);
  for (const name of gone) await disk.unlink(join(directory, name)); // 9
  // 10.
  await removeLeftovers(disk, directory, seen.leftovers);
  await syncDirectory(disk, directory); // 11
  return true;
}
