import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { isBelow, mountsOf } from '../../../lib/host/mounts.ts';
import { asRoot } from './as-root.ts';

const run = promisify(execFile);

/**
 * Removes a directory of a daemon that may have been killed. Its mounts are still there then and go first, the last one
 * mounted first; nothing on another file system is removed with it.
 */
export async function removeTree(directory: string): Promise<void> {
  const mounts = mountsOf(await readFile('/proc/self/mountinfo', 'utf8'));
  const within = mounts.filter(({ point }) => isBelow(point, directory));
  for (const { point } of within.toReversed()) await run(...asRoot('umount', [point]));
  await run(...asRoot('rm', ['-rf', '--one-file-system', directory]));
}
