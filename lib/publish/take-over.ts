// From the plain files of an earlier tool to the layout of publish.ts, and back. Every path holds the same bytes
// before, during and after; none is ever absent. Both can be killed at any moment and run again.
import { join } from 'node:path';
import { attempt, realDisk, type Disk } from '../disk/disk.ts';
import { syncDirectory, writeNewFile } from '../disk/files.ts';
import { flip, replaceByLink, temporaryName, type FileMode, type Generation } from './generation.ts';
import { dataLink, inspect, visibleFiles, type Inspected } from './inspect.ts';

/**
 * 1. a generation with the bytes that every visible name leads to now, files of an earlier tool included
 * 2. flip to it: no reader sees a difference
 * 3. each plain file is replaced by a link to its own bytes
 * Only then may a new generation come: flipped earlier, a link would show the new certificate beside the old plain key.
 */
export async function takeOver(options: Omit<Generation, 'entries'>, seen: Inspected): Promise<void> {
  const { disk, directory } = options;
  const plain = await visibleFiles(disk, directory, seen.foreign);
  if (plain.size === 0) return; // links that lead nowhere: nothing to keep
  const entries: Map<string, Uint8Array> = new Map(plain);
  for (const name of seen.links) {
    const file = seen.files.get(name);
    if (file?.bytes !== undefined) entries.set(name, file.bytes);
  }
  await flip({ ...options, entries: Object.fromEntries(entries) }); // 1, 2
  for (const name of plain.keys()) await replaceByLink(disk, join(directory, name), `${dataLink}/${name}`); // 3
  await syncDirectory(disk, directory);
}

export interface GiveBack {
  readonly directory: string;
  readonly what: string;
  readonly mode: FileMode;
  readonly disk?: Disk;
}

/** Makes plain files of a published object again: what takes its place finds no links. Throws WriteFailed. */
export async function giveBack({ directory, what, mode, disk = realDisk }: GiveBack): Promise<void> {
  await attempt({ code: 'WriteFailed', action: 'give back', what, directory }, async () => {
    const seen = await inspect(disk, directory);
    if (!seen.present) return;
    for (const [name, bytes] of linkedFiles(directory, seen)) {
      const temporary = join(directory, temporaryName('file'));
      try {
        await writeNewFile(disk, temporary, bytes, { mode });
        await disk.rename(temporary, join(directory, name));
      } catch (err) {
        await disk.rm(temporary, { force: true }).catch(() => undefined);
        throw err;
      }
    }
    await syncDirectory(disk, directory); // before the generation goes: the plain files are durable
    const hidden = seen.generation === undefined ? seen.leftovers : [dataLink, seen.generation, ...seen.leftovers];
    for (const name of hidden) await disk.rm(join(directory, name), { recursive: true, force: true });
    await syncDirectory(disk, directory);
  });
}

/** Throws EACCES for one that cannot be read: a plain file with other content would take its place. */
function linkedFiles(directory: string, seen: Inspected): (readonly [string, Uint8Array])[] {
  return [...seen.files].flatMap(([name, { bytes }]) => {
    if (!seen.links.has(name)) return [];
    if (bytes !== undefined) return [[name, bytes] as const];
    throw Object.assign(new Error('content unknown'), { code: 'EACCES', path: join(directory, name) });
  });
}
