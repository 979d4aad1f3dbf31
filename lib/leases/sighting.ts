// When a version of a Lease was first seen, kept for the next process: a timer's runs each end long before a turn that
// nobody gives back is over. Uptime counts, and the boot that it belongs to: a clock that is set changes nothing.
import { dirname } from 'node:path';
import { attempt, realDisk, unlessAbsent } from '../disk/disk.ts';
import { replaceFile } from '../disk/files.ts';
import { readRegularFile } from '../disk/read.ts';
import { bootId } from '../restart/processes.ts';

export interface Sighting {
  /** resourceVersion. */
  readonly version: string;
  /** Uptime, milliseconds. */
  readonly sinceMs: number;
}

/** Undefined when nothing is kept, or what is there is of another boot or not ours. Throws ReadFailed. */
export async function readSighting(path: string): Promise<Sighting | undefined> {
  const what = `note "${path}"`;
  const bytes = await attempt({ code: 'ReadFailed', action: 'read', what, directory: dirname(path) }, () =>
    unlessAbsent(() => readRegularFile(realDisk, path)),
  );
  const [boot, version = '', sinceMs = ''] = (bytes?.toString('utf8') ?? '').split(' ');
  if (boot === '' || boot !== (await bootId()) || !/^\d+$/.test(sinceMs)) return undefined;
  return { version, sinceMs: Number(sinceMs) };
}

/** In a directory that is there. Throws WriteFailed. */
export async function keepSighting(path: string, { version, sinceMs }: Sighting): Promise<void> {
  const content = [await bootId(), version, Math.floor(sinceMs)].join(' ');
  await replaceFile({ path, content, mode: 0o600, what: 'note' });
}
