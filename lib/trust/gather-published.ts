// Trust that the API keeps for readers elsewhere: the entries of ConfigMaps that the table of relations names. Impure: it
// asks the API. An entry that cannot be read is said to be so, and an object that does not exist has none.
import { bounds } from '../bounds.ts';
import { errorText } from '../errors.ts';
import { clusterInfoName, publishedAuthority } from '../kube/cluster-info.ts';
import type { ConfigMap } from '../kube/kube.ts';
import { type GetRequest, getIfPresent, objectPath } from '../kube/objects.ts';
import type { Received } from '../kube/received.ts';
import { type PublishedTrust, publishedText, relations } from './relations.ts';
import type { FileHere, TrustFacts } from './trust-facts.ts';

type Entries = Received<Pick<ConfigMap, 'data'>>;

/** Returns content by the text of its entry. Never throws. */
export async function gatherPublished(request: GetRequest): Promise<TrustFacts['files']> {
  const files = new Map<string, FileHere>();
  for (const { published } of relations) {
    if (published === undefined) continue;
    for (const [key, file] of await entriesOf(published, request)) files.set(publishedText(published, key), file);
  }
  return files;
}

async function entriesOf(
  published: PublishedTrust,
  request: GetRequest,
): Promise<readonly (readonly [key: string, file: FileHere])[]> {
  const { namespace, name, key, commonNamesKey } = published;
  try {
    const found = await getIfPresent<Entries>(request, objectPath({ kind: 'configMap', namespace, name }));
    if (found === undefined) return [];
    const names = commonNamesKey === undefined ? '' : namesIn(found.data?.[commonNamesKey]);
    const allowed =
      commonNamesKey === undefined || names === '' ? [] : [[commonNamesKey, entryContent(names)] as const];
    return [[key, name === clusterInfoName.name ? authorityOf(found) : entryContent(found.data?.[key])], ...allowed];
  } catch (err) {
    return [[key, { unread: `cannot be read: ${errorText(err)}` }]];
  }
}

export function entryContent(text: unknown): FileHere {
  if (typeof text !== 'string') return { unread: 'is absent' };
  const { bytes: most } = bounds.entry.most;
  return text.length > most ? { unread: `has more than ${most} characters` } : { bytes: Buffer.from(text) };
}

function authorityOf(clusterInfo: Entries): FileHere {
  const found = publishedAuthority(clusterInfo);
  return Buffer.isBuffer(found) ? { bytes: found } : { unread: `cannot be used: ${found.problem}` };
}

/** Names of a list in JSON, with commas between them as in a flag; empty where any is allowed. */
function namesIn(text: unknown): string {
  try {
    const names: unknown = typeof text === 'string' ? JSON.parse(text) : [];
    return Array.isArray(names) ? names.filter((name) => typeof name === 'string').join(',') : '';
  } catch {
    return '';
  }
}
