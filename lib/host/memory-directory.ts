// A directory for key material that no disk may ever hold: in memory, entered by this user alone, used by one process at a
// time, gone at the end. The leftover of a killed process is removed by the next one.
import { mkdir, rm, rmdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { acquireLock } from './lock.ts';

/** Types of file systems (statfs(2)) in memory: tmpfs, ramfs. */
export const memoryTypes: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);

const places = ['/run', '/dev/shm'];
const name = 'kube-cert-recovery-rehearsal';
const inner = 'root';

async function placeInMemory(): Promise<string> {
  for (const place of places) {
    const type = await statfs(place).then(
      (found) => found.type,
      () => undefined,
    );
    if (type !== undefined && memoryTypes.has(type)) return join(place, name);
  }
  const message = `Cannot keep copies of keys: neither of ${places.join(', ')} is a file system in memory (tmpfs); mount one`;
  throw new RecoveryError('PreconditionFailed', message);
}

/** Throws AlreadyRunning beside another process that uses it, PreconditionFailed where there is no place for it. */
export async function withMemoryDirectory<T>(clock: Clock, use: (directory: string) => Promise<T>): Promise<T> {
  const place = await placeInMemory();
  const directory = join(place, inner);
  const lock = await acquireLock({ directory: place, clock, guards: `copies in "${place}"` });
  const clear = (): Promise<void> => rm(directory, { recursive: true, force: true });
  try {
    await clear();
    await mkdir(directory, { mode: 0o700 });
    return await use(directory);
  } finally {
    await clear();
    await lock.release();
    // Sockets of killed processes are removed by acquireLock(); that of one which starts now keeps the directory.
    await rmdir(place).catch(unlessInUse);
  }
}

function unlessInUse(err: unknown): void {
  if (!['ENOTEMPTY', 'ENOENT'].includes(systemCode(err) ?? '')) throw err;
}
