// One pass over one object: take what the watch said and what lies on disk, decide (project.ts), read the object live
// before anything is written or removed, decide again, act. Files of an object in step that were removed come back
// from memory without a read: a kube-apiserver that has lost its own certificate never answers one.
import { getIfPresent, namedListPath, objectPath } from '../kube/objects.ts';
import type { KubeConnection, ObjectState } from '../kube/kube.ts';
import type { Running } from '../log.ts';
import { namesProblem } from '../publish/file-names.ts';
import { holdsOnlyPartsOf, readPublished, type Scan } from '../publish/scan.ts';
import { unpublish } from '../publish/unpublish.ts';
import { compare, publish, type PublishOutcome } from '../publish/writer.ts';
import { objectEntries } from '../store/object-entries.ts';
import type { Entries } from '../store/store.ts';
import { factsOf, type ApiObject } from './material.ts';
import { lastEnd, project, type ApiFacts, type SyncDecision, type DiskFacts, type MaterialFacts } from './project.ts';
import type { SyncedObject } from './synced-objects.ts';

export interface PassContext extends Pick<Running, 'clock' | 'signal'> {
  readonly object: SyncedObject;
  readonly connection: KubeConnection;
  readonly dryRun: boolean;
  /** Takes the lock of the destination, unless it is held. Throws AlreadyRunning, WriteFailed. */
  readonly hold: () => Promise<void>;
}

interface Pass extends PassContext {
  /** Of the object's directory, at the beginning of this pass. */
  readonly scanned: Scan;
  /** What the watch said last; without it the object is read first. */
  readonly suggested?: ObjectState<ApiObject> | undefined;
  /** The resourceVersion that the last good pass has seen. */
  readonly synced?: string | undefined;
  /** The resourceVersion whose content the last good pass left on disk. */
  readonly published?: string | undefined;
}

export type PassResult = {
  readonly resourceVersion: string | undefined;
  readonly notAfter: Date | undefined;
} & (
  | Exclude<SyncDecision, { action: 'write' }>
  | (Extract<SyncDecision, { action: 'write' }> & { readonly outcome: PublishOutcome })
);

/** What is known at one moment: the decision, and what acting on it needs. */
interface Look {
  readonly decision: SyncDecision;
  readonly entries: Entries;
  readonly material: MaterialFacts;
  readonly resourceVersion: string | undefined;
}

/** Throws what a request throws, ReadFailed, WriteFailed; the last good files stay in use after all of them. */
export async function syncObject(pass: Pass): Promise<PassResult> {
  const { suggested } = pass;
  if (suggested === undefined) return act(pass, await look(pass, await readLive(pass)));
  // Most likely a change: the live read that writing needs is asked for while what is known is judged.
  const early = versionOf(suggested) === pass.synced ? undefined : readLive(pass);
  early?.catch(() => undefined); // its failure counts where the value is needed
  const first = await look(pass, suggested);
  if (!isChange(first.decision) || (await isLost(pass, first))) return act(pass, first);
  const live = await (early ?? readLive(pass));
  const same = live.present && versionOf(live) === versionOf(suggested);
  return act(pass, same ? first : await look(pass, live));
}

/** What is missing on disk is what the last good pass left there, and nothing else is in its place. */
async function isLost(
  { object, published, scanned }: Pass,
  { decision, entries, resourceVersion }: Look,
): Promise<boolean> {
  const isKnown = published !== undefined && resourceVersion === published;
  return isKnown && decision.action === 'write' && holdsOnlyPartsOf(entries, object, scanned);
}

const versionOf = (state: ObjectState<ApiObject>): string | undefined =>
  state.present ? state.object.metadata?.resourceVersion : undefined;

const isChange = ({ action }: SyncDecision): boolean => action === 'write' || action === 'remove';

/** What the API has of the object now. Throws what a request throws. */
export async function readLive({ object, connection, signal }: PassContext): Promise<ObjectState<ApiObject>> {
  const { location } = object;
  const found = await getIfPresent<ApiObject>({ connection, signal }, objectPath(location));
  if (found !== undefined) return { present: true, object: found };
  // A 404 may also come from something that is no API server (a load balancer without backend). An empty list cannot.
  const path = namedListPath(location);
  const { items } = await connection.request<{ readonly items?: readonly ApiObject[] }>({
    method: 'GET',
    path,
    signal,
  });
  const listed = items?.[0];
  return listed === undefined ? { present: false } : { present: true, object: listed };
}

async function look(pass: Pass, state: ObjectState<ApiObject>): Promise<Look> {
  const { object, clock } = pass;
  const { entries, keys, problem } = objectEntries(object.location.kind, state.present ? state.object : {});
  const material: MaterialFacts =
    problem === undefined ? factsOf(object, entries) : { problem: { reason: 'unreadable', message: problem } };
  const api: ApiFacts = state.present ? { state: 'present', keys, material } : { state: 'absent' };
  const disk = await diskFacts(pass, entries, material);
  const decision = project({ object, api, disk, now: clock.now() });
  return { decision, entries, material, resourceVersion: versionOf(state) };
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

async function act(pass: Pass, { decision, entries, material, resourceVersion }: Look): Promise<PassResult> {
  const { object, scanned, clock, dryRun, hold } = pass;
  const facts = { resourceVersion, notAfter: lastEnd(material) };
  if (!dryRun && isChange(decision)) await hold();
  if (decision.action === 'write') {
    const publication = { ...object, entries, now: () => clock.now() };
    const outcome = dryRun ? (await compare(publication, scanned)).difference : await publish(publication, scanned);
    return { ...facts, ...decision, outcome };
  }
  if (decision.action === 'remove' && !dryRun) await unpublish(object);
  return { ...facts, ...decision };
}
