// Byte copies of what is about to be replaced, kept outside the live directories: the last five generations of each
// artefact, 0600 in 0700. Never links and never moves: a reader that watches the inode of a live file (kube-apiserver)
// would miss a later change when another name keeps that inode alive.
import { createHash } from 'node:crypto';
import { basename, join } from 'node:path';
import { ifPresent } from './disk-calls.ts';
import type { DiskCalls } from './disk-calls.ts';
import type { Entries } from './store.ts';

const generationsKept = 5;
const longestName = 200;

/** Copies `entries` into a new generation below `backupDir`, unless the newest generation already holds these bytes. */
export async function backUp(disk: DiskCalls, backupDir: string, path: string, entries: Entries): Promise<void> {
  const directory = join(backupDir, directoryName(path));
  await disk.mkdir(directory, { recursive: true, mode: 0o700 });
  const generations = (await disk.readdir(directory)).filter((name) => /^\d{6}$/.test(name)).toSorted();
  const newest = generations.at(-1);
  // A write that fails and is tried again must not push the older generations out.
  if (newest !== undefined && (await holds(disk, join(directory, newest), entries))) return;
  const generation = String(Number(newest ?? '0') + 1).padStart(6, '0');
  await disk.mkdir(join(directory, generation), { mode: 0o700 });
  try {
    for (const [key, bytes] of Object.entries(entries)) await copy(disk, join(directory, generation, key), bytes);
  } catch (err) {
    // Half a generation would push a whole one out, and keep on a full disk the room that the next one needs.
    await disk.rm(join(directory, generation), { recursive: true, force: true }).catch(() => undefined);
    throw err;
  }
  for (const old of [...generations, generation].slice(0, -generationsKept)) {
    await disk.rm(join(directory, old), { recursive: true, force: true });
  }
}

async function holds(disk: DiskCalls, directory: string, entries: Entries): Promise<boolean> {
  const names = await disk.readdir(directory);
  if (names.length !== Object.keys(entries).length) return false;
  for (const [key, bytes] of Object.entries(entries)) {
    const kept = await ifPresent(disk.readFile(join(directory, key)));
    if (kept === undefined || !Buffer.from(kept).equals(bytes)) return false;
  }
  return true;
}

async function copy(disk: DiskCalls, path: string, bytes: Uint8Array): Promise<void> {
  const handle = await disk.open(path, 'wx', 0o600);
  try {
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** The path in one name that a person can read; a hash takes the place of what is too long for a file name. */
function directoryName(path: string): string {
  const name = encodeURIComponent(path);
  if (name.length <= longestName) return name;
  return `${createHash('sha256').update(path).digest('hex').slice(0, 16)}-${basename(path).slice(0, 100)}`;
}
