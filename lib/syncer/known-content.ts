// Content of an object at the last read, between two passes. Users who may write objects determine their size, and
// there are many: small content is kept, so that lost files come back where no API server answers (without its own
// certificate none does). Of large content the hash is kept: as long as the files match it, they are the content.
import { createHash } from 'node:crypto';
import type { Scan } from '../publish/scan.ts';
import { objectEntries } from '../store/object-entries.ts';
import type { Entries } from '../store/store.ts';
import type { ApiObject } from './material.ts';
import type { SyncedObject } from './synced-objects.ts';

export interface ObjectContent extends ReturnType<typeof objectEntries> {
  /** The resourceVersion; undefined: the API has no such object. */
  readonly version: string | undefined;
}

export const nothingInApi: ObjectContent = { version: undefined, entries: {}, keys: [] };

export function contentRead({ location }: Pick<SyncedObject, 'location'>, object: ApiObject): ObjectContent {
  return { version: object.metadata?.resourceVersion, ...objectEntries(location.kind, object) };
}

export interface KnownContent {
  readonly version: string | undefined;
  /** Bytes of all entries. */
  readonly size: number;
  /** The whole content, where small. */
  readonly content?: ObjectContent;
  readonly hash?: string;
}

/** A bundle of a hundred CAs has less. */
const keptBytes = 256 * 1024;

export function remember(content: ObjectContent): KnownContent {
  const { version, entries, problem } = content;
  const size = Object.values(entries).reduce((sum, { length }) => sum + length, 0);
  if (size <= keptBytes) return { version, size, content };
  return { version, size, ...(problem === undefined && { hash: hashOf(entries) }) };
}

/** The known content, from memory or from disk; undefined: it must be read. */
export function recall({ version, content, hash }: KnownContent, { files }: Scan): ObjectContent | undefined {
  if (content !== undefined || hash === undefined) return content;
  const published = [...files].flatMap(([name, { bytes }]) => (bytes === undefined ? [] : [[name, bytes] as const]));
  const entries: Entries = Object.fromEntries(published);
  return hashOf(entries) === hash ? { version, entries, keys: Object.keys(entries) } : undefined;
}

function hashOf(entries: Entries): string {
  const hash = createHash('sha256');
  for (const [name, bytes] of Object.entries(entries).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    hash.update(`${name}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest('hex');
}
