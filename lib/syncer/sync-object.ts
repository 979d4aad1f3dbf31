// One pass over one object: look at what the watch said and at the disk, decide (project.ts), read the object live
// before anything is written or removed, decide again, act. Files of an object in step that somebody removed come back
// from memory without a read: a kube-apiserver that has lost its own certificate never answers one.
import type { Clock } from '../clock.ts';
import { isCode } from '../errors.ts';
import type { KubeConnection, ObjectState } from '../kube/kube.ts';
import { namedListPath, objectPath } from '../kube/object-path.ts';
import { holdsOnlyPartsOf, readPublished } from '../publish/inspect.ts';
import { namesProblem } from '../publish/names.ts';
import { compare, publish, type PublishOutcome } from '../publish/publish.ts';
import { unpublish } from '../publish/remove.ts';
import { objectEntries } from '../store/object-entries.ts';
import type { Entries } from '../store/store.ts';
import { factsOf, type ApiObject } from './material.ts';
import { lastEnd, project, type ApiFacts, type Decision, type DiskFacts, type MaterialFacts } from './project.ts';
import type { SyncRow } from './rows.ts';

export interface PassContext {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  /** The resourceVersion that the last good pass has seen. */
  readonly synced?: string | undefined;
  /** The resourceVersion whose content the last good pass left on disk. */
  readonly published?: string | undefined;
  /** Takes the lock of the destination, unless it is held. Throws AlreadyRunning, WriteFailed. */
  readonly hold: () => Promise<void>;
}

export type PassResult = {
  readonly resourceVersion?: string;
  readonly notAfter?: Date;
} & (
  | { readonly action: 'none' }
  | {
      readonly action: 'write';
      readonly reason: string;
      readonly outcome: PublishOutcome;
      readonly warning?: string;
    }
  | Extract<Decision, { action: 'remove' | 'keep' | 'refuse' }>
);

/** What is known at one moment: the decision, and what acting on it needs. */
interface Look {
  readonly decision: Decision;
  readonly entries: Entries;
  readonly material: MaterialFacts;
  readonly object: ApiObject | undefined;
}

/**
 * `suggested` is what the watch said last; without it the object is read first. Throws what a request throws, ReadFailed,
 * WriteFailed; the last good files stay in use after all of them.
 */
export async function syncObject(
  row: SyncRow,
  context: PassContext,
  suggested?: ObjectState<ApiObject>,
): Promise<PassResult> {
  if (suggested === undefined) return act(row, context, await look(row, await readLive(row, context), context));
  // Most likely a change: the live read that writing needs is asked for while the disk is looked at.
  const early = versionOf(suggested) === context.synced ? undefined : settled(readLive(row, context));
  const first = await look(row, suggested, context);
  if (!isChange(first.decision) || (await isLost(row, context, first))) return act(row, context, first);
  const live = early === undefined ? await readLive(row, context) : (await early)();
  const same = live.present && versionOf(live) === versionOf(suggested);
  return act(row, context, same ? first : await look(row, live, context));
}

/** What is missing on disk is what the last good pass left there, and nothing else is in its place. */
async function isLost(row: SyncRow, { published }: PassContext, { decision, entries, object }: Look): Promise<boolean> {
  const isKnown = published !== undefined && object?.metadata?.resourceVersion === published;
  return isKnown && decision.action === 'write' && holdsOnlyPartsOf(entries, row);
}

const versionOf = (state: ObjectState<ApiObject>): string | undefined =>
  state.present ? state.object.metadata?.resourceVersion : undefined;

/** Holds a failure back until somebody asks for the value; nobody may. */
function settled<T>(promise: Promise<T>): Promise<() => T> {
  return promise.then(
    (value) => () => value,
    (err: unknown) => () => {
      throw err;
    },
  );
}

const isChange = ({ action }: Decision): boolean => action === 'write' || action === 'remove';

/** What the API has of the object now. Throws what a request throws. */
export async function readLive(
  { location }: SyncRow,
  { connection, signal }: Pick<PassContext, 'connection' | 'signal'>,
): Promise<ObjectState<ApiObject>> {
  try {
    const object = await connection.request<ApiObject>({ method: 'GET', path: objectPath(location), signal });
    return { present: true, object };
  } catch (err) {
    if (!isCode(err, 'KubeNotFound')) throw err;
  }
  // A 404 may also come from something that is no API server (a load balancer without backend). An empty list cannot.
  const path = namedListPath(location);
  const { items } = await connection.request<{ readonly items?: readonly ApiObject[] }>({
    method: 'GET',
    path,
    signal,
  });
  const object = items?.[0];
  return object === undefined ? { present: false } : { present: true, object };
}

async function look(row: SyncRow, state: ObjectState<ApiObject>, { clock }: PassContext): Promise<Look> {
  const object = state.present ? state.object : undefined;
  const { entries, keys, problem } = objectEntries(row.location.kind, object ?? {});
  const material: MaterialFacts =
    problem === undefined ? factsOf(row, entries) : { problem: { reason: 'unreadable', message: problem } };
  const api: ApiFacts = object === undefined ? { state: 'absent' } : { state: 'present', keys, material };
  const disk = await lookAtDisk(row, entries, material);
  return { decision: project({ row, api, disk, now: clock.now() }), entries, material, object };
}

async function lookAtDisk(row: SyncRow, entries: Entries, material: MaterialFacts): Promise<DiskFacts> {
  const { directory, what, mode } = row;
  const publishable = Object.keys(entries).length > 0 && material.problem === undefined;
  if (publishable && namesProblem(Object.keys(entries)) === undefined) {
    const { difference, published } = await compare({ directory, what, entries, mode });
    if (difference !== 'written') return { present: true, difference };
    return { difference, ...there(row, published) };
  }
  const published = await readPublished({ directory, what });
  return { ...there(row, published), ...(publishable && { difference: 'written' }) };
}

const there = (row: SyncRow, published: Entries | undefined): DiskFacts =>
  published === undefined ? { present: false } : { present: true, material: factsOf(row, published) };

async function act(row: SyncRow, context: PassContext, { decision, ...seen }: Look): Promise<PassResult> {
  const { directory, what, mode } = row;
  const { clock, dryRun, hold } = context;
  const resourceVersion = seen.object?.metadata?.resourceVersion;
  const notAfter = lastEnd(seen.material);
  const facts = {
    ...(resourceVersion !== undefined && { resourceVersion }),
    ...(notAfter !== undefined && { notAfter }),
  };
  if (!dryRun && isChange(decision)) await hold();
  if (decision.action === 'write') {
    const publication = { directory, what, entries: seen.entries, mode, now: () => clock.now() };
    const outcome = dryRun ? (await compare(publication)).difference : await publish(publication);
    return { ...facts, ...decision, outcome };
  }
  if (decision.action === 'remove' && !dryRun) await unpublish({ directory, what });
  return { ...facts, ...decision };
}
