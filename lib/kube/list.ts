// A collection, in one answer or in pages of which only the fields that the caller keeps stay in memory: users who can
// create objects decide how large they are. A page that is too large for one answer is requested again with fewer
// objects; a single object always fits (`bounds.answer`). All pages are of the one version that the first was read at.
import { isCode } from '../errors.ts';
import { describeRequest } from './answer.ts';
import { isTooLarge, wrongAnswer } from './api-error.ts';
import { sendableToken } from './continue-token.ts';
import type { KubeConnection, KubeRequest } from './kube.ts';
import { withQuery } from './resources.ts';
import { isMapping } from '../yaml.ts';

export interface Pages<T, K> {
  /** Objects in one answer, at most. */
  readonly size: number;
  /**
   * Returns the part of an object to keep; undefined: nothing. Called again for the same object when a list begins
   * again.
   */
  readonly keep: (object: T) => K | undefined;
  /** Stops paging after so many objects read, or once an object was kept. Default: all are read. */
  readonly enough?: { readonly read: number };
}

export interface ListOptions<T, K> {
  readonly connection: KubeConnection;
  /** Path of the collection, with the selectors that narrow it: `/api/v1/nodes?fieldSelector=...`. */
  readonly path: string;
  /** Paging, for a collection whose size other users decide. Default: one answer, and all of it. */
  readonly pages?: Pages<T, K> | undefined;
  readonly objects?: KubeRequest['objects'];
  readonly mostBytes?: KubeRequest['mostBytes'];
  readonly signal: AbortSignal;
}

interface Listed<K> {
  readonly objects: readonly K[];
  readonly resourceVersion: string;
}

interface ObjectList<T> {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
  readonly items?: readonly T[] | null;
  /** Of a Table, in place of the objects. */
  readonly rows?: readonly unknown[] | null;
}

/** Throws as `request` does. */
export async function list<T, K = T>(options: ListOptions<T, K>): Promise<Listed<K>> {
  try {
    return await listOnce(options);
  } catch (err) {
    // etcd was compacted between two pages (410): the pages read are of no use, and a new list is of the present.
    if (options.pages === undefined || !isCode(err, 'WatchExpired')) throw err;
    return listOnce(options);
  }
}

async function listOnce<T, K>({
  connection,
  path,
  pages,
  signal,
  objects: form,
  mostBytes,
}: ListOptions<T, K>): Promise<Listed<K>> {
  const keep = pages?.keep ?? ((object: T): K | undefined => object as unknown as K);
  const objects: K[] = [];
  let size = pages?.size;
  let read = 0;
  let from: string | undefined;
  for (;;) {
    const pagePath = withQuery(path, {
      ...formQuery(form),
      ...(size !== undefined && { limit: `${size}` }),
      ...(from !== undefined && { continue: from }),
    });
    let page: ObjectList<T>;
    try {
      // Without a resourceVersion in `path`: a consistent read, as new as etcd, never from a cache that lags behind.
      page = await connection.request<ObjectList<T>>({
        method: 'GET',
        path: pagePath,
        signal,
        objects: form,
        mostBytes,
      });
    } catch (err) {
      if (size === undefined || size === 1 || !isTooLarge(err)) throw err;
      size = Math.floor(size / 2);
      continue;
    }
    const { resourceVersion, continue: next = '' } = page.metadata ?? {};
    // A row names no version: that of the list is as new.
    const items =
      form === 'versions' && page.rows !== undefined
        ? (page.rows ?? []).map(() => ({ metadata: { resourceVersion } }))
        : page.items === null // of metadata alone, where there is no object
          ? []
          : page.items;
    if (resourceVersion === undefined || !Array.isArray(items) || !items.every(isMapping)) {
      const attempt = { ...describeRequest('GET', path), verb: 'list', server: connection.server };
      throw wrongAnswer(attempt, 'it is no list of objects');
    }
    for (const object of items as unknown as readonly T[]) {
      const kept = keep(object);
      if (kept !== undefined) objects.push(kept);
    }
    read += items.length;
    const isEnough = pages?.enough !== undefined && (objects.length > 0 || read >= pages.enough.read);
    if (next === '' || isEnough) return { objects, resourceVersion };
    from = sendableToken(next);
  }
}

/** Rows would come with the metadata of their objects. */
export const formQuery = (form: KubeRequest['objects']): Readonly<Record<string, string>> =>
  form === 'versions' ? { includeObject: 'None' } : {};
