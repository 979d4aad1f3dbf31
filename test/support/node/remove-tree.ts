import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { asRoot } from './as-root.ts';

const run = promisify(execFile);

/**
 * Removes a directory of a daemon that may have been killed. Its mounts are still there then and go first, the last one
 * mounted first; nothing on another file system is removed with it.
 */
export async function removeTree(directory: string): Promise<void> {
  const mounts = mountPoints(await readFile('/proc/self/mountinfo', 'utf8'));
  const below = mounts.filter((path) => path === directory || path.startsWith(`${directory}/`));
  for (const path of below.toReversed()) await run(...asRoot('umount', [path]));
  await run(...asRoot('rm', ['-rf', '--one-file-system', directory]));
}

/** The fifth field of each line; blanks in it are octal numbers (proc_pid_mountinfo(5)). */
function mountPoints(mountinfo: string): readonly string[] {
  return mountinfo
    .split('\n')
    .flatMap((line) => line.split(' ')[4] ?? [])
    .map((path) => path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8))));
}
