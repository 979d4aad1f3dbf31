// Serialises writes of this process to one file. Two artefacts may be one file by links; the preparation of a write
// removes leftovers of killed runs next to the file, and must not remove a file that another write has just put there.
import type { Disk } from '../disk/disk.ts';
import { finalTarget } from './dated-files.ts';
import { realFile } from './shared-files.ts';

/** End of the last write that has taken its turn, by file. */
const turns = new Map<string, Promise<void>>();

/** Runs `work` once no other write of this process uses any of these files. */
export async function inTurn<T>(disk: Disk, files: readonly string[], work: () => Promise<T>): Promise<T> {
  // An absent file is identified by the target of its link.
  const targets = files.map(async (file) => realFile(disk, await finalTarget(disk, file).catch(() => file)));
  const keys = [...new Set(await Promise.all(targets))];
  // All turns are taken in one step, so no writes wait for each other in a circle.
  const before = keys.flatMap((key) => turns.get(key) ?? []);
  const { promise: own, resolve: end } = Promise.withResolvers<void>();
  for (const key of keys) turns.set(key, own);
  try {
    await Promise.all(before);
    return await work();
  } finally {
    end();
    for (const key of keys) if (turns.get(key) === own) turns.delete(key);
  }
}
