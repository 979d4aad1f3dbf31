// One pass over one object: take the version from the watch, the known content and the files on disk, decide
// (project.ts), read the object live before anything is written or removed, decide again, act. Removed files of an
// object that was in sync come back from memory without a read: a kube-apiserver that has lost its own certificate
// never answers one.
import { getIfPresent, namedListPath, objectPath } from '../kube/objects.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Running } from '../log.ts';
import { namesProblem } from '../publish/file-names.ts';
import { holdsOnlyPartsOf, readPublished, type Scan } from '../publish/scan.ts';
import { unpublish } from '../publish/unpublish.ts';
import { compare, type Publication, publish, type PublishOutcome } from '../publish/writer.ts';
import type { Entries } from '../store/store.ts';
import { contentRead, type KnownContent, nothingInApi, type ObjectContent, recall, remember } from './known-content.ts';
import { factsOf, type ApiObject } from './material.ts';
import { lastEnd, project, type ApiFacts, type SyncDecision, type DiskFacts, type MaterialFacts } from './project.ts';
import type { SyncedObject } from './synced-objects.ts';

export interface PassContext extends Pick<Running, 'clock' | 'signal'> {
  readonly object: SyncedObject;
  readonly connection: KubeConnection;
  readonly dryRun: boolean;
  /** Takes the lock of the destination, unless it is held. Throws AlreadyRunning, WriteFailed. */
  readonly hold: () => Promise<void>;
  readonly onCleared?: Publication['onCleared'];
}

/** Last version from the watch; no version: the object is gone. */
export interface Suggested {
  readonly version: string | undefined;
}

interface Pass extends PassContext {
  /** Scan of the object's directory at the start of this pass. */
  readonly scanned: Scan;
  /** Absent: the object is read first. */
  readonly suggested?: Suggested | undefined;
  /** Content at the last read. */
  readonly known?: KnownContent | undefined;
  /**
   * Reads the object even without news: a watch may lose an event and go on. While the API is away only the disk is
   * checked.
   */
  readonly asks?: boolean;
  /** The resourceVersion whose content the last good pass left on disk. */
  readonly published?: string | undefined;
}

export type PassResult = {
  readonly resourceVersion: string | undefined;
  readonly known: KnownContent;
  readonly notAfter: Date | undefined;
} & (
  | Exclude<SyncDecision, { action: 'write' }>
  | (Extract<SyncDecision, { action: 'write' }> & { readonly outcome: PublishOutcome })
);

/** State at one moment: the decision, and the facts for acting on it. */
interface Look {
  readonly decision: SyncDecision;
  readonly content: ObjectContent;
  readonly material: MaterialFacts;
}

/** Throws errors of requests, ReadFailed, WriteFailed; the last good files stay in use after all of them. */
export async function syncObject(pass: Pass): Promise<PassResult> {
  const said = contentSaid(pass);
  const first = said && (await look(pass, said));
  // Before any request: an API server that hangs may be waiting for just these files.
  if (first !== undefined && (await isLost(pass, first))) return act(pass, first);
  const asked = pass.asks === true ? await readLive(pass).catch(() => undefined) : undefined;
  if (asked !== undefined) return act(pass, await look(pass, asked));
  if (said === undefined || first === undefined) return act(pass, await look(pass, await readLive(pass)));
  if (!isChange(first.decision)) return act(pass, first);
  const live = await readLive(pass);
  return act(pass, live.version === said.version ? first : await look(pass, live));
}

/**
 * Restores files that vanished from what the last good pass published, without a request: a version from the watch that
 * is not known must be read first, and an API server that hangs may be waiting for just these files. Undefined: nothing
 * vanished, or its content is not known. Throws ReadFailed, WriteFailed.
 */
export async function restoreLost(pass: Pass): Promise<PassResult | undefined> {
  const { known, published, scanned } = pass;
  const isKnown = known !== undefined && published !== undefined && known.version === published;
  const content = isKnown ? recall(known, scanned) : undefined;
  const first = content && (await look(pass, content));
  return first !== undefined && (await isLost(pass, first)) ? act(pass, first) : undefined;
}

/** Content of the version from the watch, where it is known without a read. */
function contentSaid({ suggested, known, scanned }: Pass): ObjectContent | undefined {
  if (suggested === undefined) return undefined;
  if (suggested.version === undefined) return nothingInApi;
  return known?.version === suggested.version ? recall(known, scanned) : undefined;
}

/** Whether the files missing on disk were left there by the last good pass, and nothing else has replaced them. */
async function isLost({ object, published, scanned }: Pass, { decision, content }: Look): Promise<boolean> {
  const isKnown = published !== undefined && content.version === published;
  return isKnown && decision.action === 'write' && holdsOnlyPartsOf(content.entries, object, scanned);
}

const isChange = ({ action }: SyncDecision): boolean => action === 'write' || action === 'remove';

/** The object as the API has it now. Throws errors of requests. */
async function readLive({ object, connection, signal }: PassContext): Promise<ObjectContent> {
  const { location } = object;
  const found = await getIfPresent<ApiObject>({ connection, signal }, objectPath(location));
  if (found !== undefined) return contentRead(object, found);
  // A 404 may also come from a server that is no API server (a load balancer without backend). An empty list cannot.
  const path = namedListPath(location);
  const { items } = await connection.request<{ readonly items?: readonly ApiObject[] }>({
    method: 'GET',
    path,
    signal,
  });
  const listed = items?.[0];
  return listed === undefined ? nothingInApi : contentRead(object, listed);
}

async function look(pass: Pass, content: ObjectContent): Promise<Look> {
  const { object, clock } = pass;
  const { entries, keys, problem } = content;
  const material: MaterialFacts =
    problem === undefined ? factsOf(object, entries) : { problem: { reason: 'unreadable', message: problem } };
  const api: ApiFacts = content.version === undefined ? { state: 'absent' } : { state: 'present', keys, material };
  const disk = await diskFacts(pass, entries, material);
  const decision = project({ object, api, disk, now: clock.now() });
  return { decision, content, material };
}

async function diskFacts({ object, scanned }: Pass, entries: Entries, material: MaterialFacts): Promise<DiskFacts> {
  const there = (published: Entries | undefined): DiskFacts =>
    published === undefined ? { present: false } : { present: true, material: factsOf(object, published) };
  const publishable = Object.keys(entries).length > 0 && material.problem === undefined;
  if (publishable && namesProblem(Object.keys(entries)) === undefined) {
    const { difference, published } = await compare({ ...object, entries }, scanned);
    return difference === 'written' ? { difference, ...there(published) } : { present: true, difference };
  }
  return { ...there(await readPublished(object, scanned)), ...(publishable && { difference: 'written' }) };
}

async function act(pass: Pass, { decision, content, material }: Look): Promise<PassResult> {
  const { object, scanned, clock, dryRun, hold, onCleared } = pass;
  const { version: resourceVersion, entries } = content;
  const facts = { resourceVersion, notAfter: lastEnd(material), known: remember(content) };
  if (!dryRun && isChange(decision)) await hold();
  if (decision.action === 'write') {
    const publication = { ...object, entries, now: () => clock.now(), ...(onCleared && { onCleared }) };
    const outcome = dryRun ? (await compare(publication, scanned)).difference : await publish(publication, scanned);
    return { ...facts, ...decision, outcome };
  }
  if (decision.action === 'remove' && !dryRun) await unpublish(object);
  return { ...facts, ...decision };
}
