// Reads a file that somebody else may have put there: never waits (a FIFO has no end), never takes a device for a file,
// and never fills the memory. What is refused says why in the words of a system error, so that whoever reads names the
// object as for every other failure.
import { constants } from 'node:fs';
import { type Disk, onPath } from './disk.ts';

/** Certificates, keys, kubeconfigs and manifests are kilobytes. */
const mostBytes = 4 * 1024 * 1024;

/** Throws what the system throws, EFBIG for a file of more than 4 MiB, and ENOTREG for what is no file at all. */
export async function readRegularFile(disk: Pick<Disk, 'readFile' | 'stat'>, path: string): Promise<Buffer> {
  const stats = await disk.stat(path);
  if (!stats.isFile() && !stats.isDirectory()) throw refusal('ENOTREG', path);
  if (stats.size > mostBytes) throw refusal('EFBIG', path);
  return onPath(path, () => disk.readFile(path, { flag: constants.O_RDONLY | constants.O_NONBLOCK }));
}

function refusal(code: 'ENOTREG' | 'EFBIG', path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: "${path}"`), { code, path });
}
