// Writes of this process to one file come one after the other. Two artefacts may be one file by links; whoever prepares a
// write removes what killed runs have left beside the file, and must not meet what another write has just put there.
import type { Disk } from '../disk/disk.ts';
import { finalTarget } from './dated-files.ts';
import { realFile } from './shared-files.ts';

/** By file, the end of the last write that has taken its turn. */
const turns = new Map<string, Promise<void>>();

/** Does this when nobody else writes one of these files any more. */
export async function inTurn<T>(disk: Disk, files: readonly string[], work: () => Promise<T>): Promise<T> {
  // An absent file is known by where its link leads.
  const targets = files.map(async (file) => realFile(disk, await finalTarget(disk, file).catch(() => file)));
  const keys = [...new Set(await Promise.all(targets))];
  // All turns are taken in one step, so nobody waits for another one in a circle.
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
