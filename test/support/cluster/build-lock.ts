// Keeps two processes from building the same binaries at the same time. A directory is the lock; its holder touches it
// every two seconds, and one that was not touched for fifteen belongs to a dead process, whatever PID namespace that
// lived in. The lock only saves work: if two take over one stale lock, both build, and both place whole files.
import { mkdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { systemCode } from '../../../lib/errors.ts';
import type { Progress } from './progress.ts';

const touchedEveryMs = 2000;
const staleAfterMs = 15_000;

export async function withBuildLock<T>(lock: string, progress: Progress, work: () => Promise<T>): Promise<T> {
  if (!(await acquire(lock))) {
    const holder = await readFile(join(lock, 'pid'), 'utf8').catch(() => 'unknown');
    await progress.during(`waiting for the control-plane binaries that process ${holder} is building`, async () => {
      while (!(await acquire(lock))) await delay(200);
    });
  }
  const heartbeat = setInterval(() => {
    const now = new Date();
    utimes(lock, now, now).catch(() => undefined); // taken over after all, or removed: nothing to keep alive
  }, touchedEveryMs);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    await rm(lock, { recursive: true, force: true });
  }
}

async function acquire(lock: string): Promise<boolean> {
  try {
    await mkdir(lock);
  } catch (err) {
    if (systemCode(err) !== 'EEXIST') throw err;
    const touched = await stat(lock).then(
      ({ mtimeMs }) => mtimeMs,
      () => Number.POSITIVE_INFINITY, // just released: look again
    );
    if (Date.now() - touched > staleAfterMs) await rm(lock, { recursive: true, force: true });
    return false;
  }
  await writeFile(join(lock, 'pid'), String(process.pid));
  return true;
}
