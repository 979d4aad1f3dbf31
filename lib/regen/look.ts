// One pass: read, plan, carry out. Remembers between passes since when a version has been there, which of our own work
// is unfinished, and whether the clock was set.
import type { Lock } from '../host/lock.ts';
import { notLater } from '../clock.ts';
import { isCode, type RecoveryError } from '../errors.ts';
import type { Location, Resolved } from '../inventory/model.ts';
import { type NamesInApi, withNames } from '../inventory/names-in-api.ts';
import type { KeyAlgorithm, PrivateKey } from '../pki/key.ts';
import type { KeyPool } from '../pki/key-pool.ts';
import { gather, type Gathered } from '../plan/gather.ts';
import { answersOf, ask, type HeardFacts } from '../plan/gather-asked.ts';
import type { AskNodes } from '../plan/gather-nodes.ts';
import { type Sources, understandOffers } from '../plan/gather-offers.ts';
import type { Facts } from '../plan/facts.ts';
import { type Plan, plan as makePlan } from '../plan/plan.ts';
import { type ClockFacts, isConfirmed } from '../plan/clock-rules.ts';
import type { Decision, RenewalPolicy } from '../plan/decision.ts';
import type { Reason } from '../plan/reasons.ts';
import { stillSettling } from '../plan/settling.ts';
import type { Store } from '../store/store.ts';
import { execute, noOwnWork, ownWork, type StepResult, withoutWaiting } from './execute.ts';
import type { Journal } from './journal.ts';
import { KeptReads } from './kept-reads.ts';
import { withKnownEntries } from './known-entries.ts';
import { type ExternalContents, externalContents } from './poll.ts';
import { type ClockSources, knownClock } from './known-clock.ts';
import type { PassOutcome } from './waits.ts';
import { isFile } from '../inventory/places.ts';

/** Collaborators of a pass. */
export interface LookOptions extends ClockSources {
  readonly resolved: Resolved;
  readonly store: Store;
  /** Names known to the API only, read at each pass; needed where the inventory refers to them. */
  readonly namesInApi?: ((signal: AbortSignal) => Promise<NamesInApi>) | undefined;
  readonly policy: RenewalPolicy;
  /** Asked once in a pass at most, where a new CA waits for nodes. */
  readonly askNodes?: AskNodes | undefined;
  /**
   * Places that provide artefacts which cannot be made here, with their answers. They are fetched from between two
   * runs.
   */
  readonly sources?: Sources | undefined;
  readonly keyPool: KeyPool;
  readonly keyAlgorithm?: KeyAlgorithm | undefined;
  readonly once: boolean;
  /** Reports the plan: makes no key and no write. */
  readonly dryRun: boolean;
  /**
   * Takes the lock for files of this host: a single run for its whole duration, a daemon for each pass that writes, so
   * that it shuts out no other writer.
   */
  readonly lockDisk?: () => Promise<Lock>;
  /** Lock that is held for the whole run. */
  readonly lock?: Lock | undefined;
  /** Taken before files that are still valid are renewed; returns why that has to wait. See RenewalLease. */
  readonly renewalLease?: { readonly take: () => Promise<string | undefined> } | undefined;
  /** Called before each pass that writes files. Throws AlreadyRunning next to a writer that takes no lock. */
  readonly refuseBesideOthers?: () => void;
}

export interface Looked {
  readonly outcome: PassOutcome;
  /** Errors of failed reads, by artefact. */
  readonly unavailable: Gathered['failures'];
  readonly external: ExternalContents;
}

type Only = (location: Location) => boolean;

/** One pass over the artefacts whose location `only` accepts. */
export type Look = (only: Only) => Promise<Looked>;

/** Observed state, and the plan for it. */
interface Seen {
  readonly resolved: Resolved;
  readonly gathered: Gathered;
  /** Number of objects that provide names, and could not be read. */
  readonly unread: number;
  readonly plan: Plan;
  readonly isClockConfirmed: boolean;
  /** The plan under another policy. */
  readonly replan: (policy: RenewalPolicy) => Plan;
  readonly now: Date;
}

export function createLook(options: LookOptions & { readonly journal: Journal }): Look {
  const { policy, clock, signal, journal, dryRun, keyPool, keyAlgorithm } = options;
  const reads = new KeptReads(withKnownEntries(options.store, options.resolved), clock);
  const { store } = reads;
  // Empty and not undefined: a contradiction found by the first pass may be another writer's work, too.
  let previous: Facts = new Map();
  let unfinished = noOwnWork;
  let foundExpiredAt: Date | undefined;
  let settling: ReadonlyMap<string, Date> = new Map();
  const keptKeys = new Map<string, PrivateKey>();
  const known = knownClock(options);
  const isFilesAlone = options.resolved.artefacts.every(({ location }) => isFile(location));

  const see = async (only: Only, heard: HeardFacts, asked?: ClockFacts): Promise<Seen> => {
    const trust = asked ?? (await known.observe());
    const asks = options.resolved.artefacts.some(
      (one) => one.kind === 'target' && one.asks !== undefined && only(one.location),
    );
    const [names, gathered] = await Promise.all([
      asks ? options.namesInApi?.(signal) : undefined,
      gather({ ...options, store, now: clock.now(), readAt: () => clock.now(), only, previous }),
    ]);
    reads.keep(options.resolved, gathered);
    const resolved = names === undefined ? options.resolved : withNames(options.resolved, names);
    const sight = { resolved, gathered, unread: names?.unread ?? 0 };
    if (signal.aborted) {
      const plan = { decisions: [], recheckAt: clock.now() };
      return { ...sight, isClockConfirmed: false, plan, replan: () => plan, now: clock.now() };
    }
    previous = gathered.facts;
    const now = gathered.readAt;
    const facts = withoutWaiting(gathered.facts, unfinished);
    foundExpiredAt = foundExpiredAt && notLater(foundExpiredAt, now);
    const unattended = isUnattended(foundExpiredAt, now);
    const offers = understandOffers(options.sources, { ...gathered, resolved });
    const given = { resolved, facts, now, unattended, offers, settlingSince: settling, ...answersOf(heard, options) };
    const planBy = (by: ClockFacts, kept = policy): Plan => makePlan({ ...given, policy: kept, clock: by });
    const planned = planBy(trust);
    // The answer of a thousand nodes takes a while.
    if (await ask(planned, heard, { ...options, resolved })) return see(only, heard, asked);
    const apiAnswers = hasAnswered({ resolved, gathered }, only);
    const canHear = apiAnswers && options.otherClocks !== undefined;
    const seenBy = (by: ClockFacts, plan: Plan): Seen => ({
      ...sight,
      plan,
      isClockConfirmed: isConfirmed(by, now),
      replan: (kept) => planBy(by, kept),
      now,
    });
    if (asked !== undefined || trust.synchronised || !matters(planned, canHear)) return seenBy(trust, planned);
    const told = await known.ask({ apiAnswers: apiAnswers || (isFilesAlone && isOnlyDue(planned)) });
    // Other writers have had time to write since the read: it is too old.
    const isOld = Math.abs(clock.now().getTime() - now.getTime()) > oldMs;
    return isOld ? see(only, heard, told) : seenBy(told, planBy(told));
  };
  /** Valid certificates are renewed by the holder of the Lease alone; the Lease is requested once in a pass. */
  const withLease = () => {
    let answer: Promise<string | undefined> | undefined;
    return async (seen: Seen): Promise<Seen> => {
      const { ahead } = policy;
      if (options.renewalLease === undefined || dryRun || ahead === undefined || !renewsAhead(seen)) return seen;
      const waits = await (answer ??= options.renewalLease.take());
      return waits === undefined ? seen : { ...seen, plan: seen.replan({ ...policy, ahead: { ...ahead, waits } }) };
    };
  };

  return async (only) => {
    const leased = withLease();
    const heard = {};
    let seen = await leased(await see(only, heard));
    const guard: Guard = signal.aborted ? {} : await guardDisk(seen.plan, options);
    try {
      // Read again under the lock: the previous holder may have written.
      if (guard.lock !== undefined) seen = await leased(await see(only, heard));
      const { resolved, gathered, unread, plan, now, isClockConfirmed } = seen;
      const external = externalContents(resolved, gathered.found, only);
      if (signal.aborted)
        return { unavailable: gathered.failures, external, outcome: outcomeOf({ ...seen, steps: [], decisions: [] }) };
      if (hasFoundExpired(seen)) foundExpiredAt = now;
      for (const [name, err] of [...gathered.faults, ...(plan.faults ?? [])]) journal.faulted(name, err);
      journal.measured(gathered.facts, isClockConfirmed);
      journal.decided(plan, ({ location }) => only(location));
      const onStep = journal.stepped.bind(journal);
      const { sources } = options;
      const how = {
        keys: keyPool,
        keptKeys,
        keyAlgorithm,
        sources,
        diskRefused: guard.refused,
        lock: guard.lock ?? options.lock,
      };
      const steps = dryRun ? [] : await execute({ resolved, plan, gathered, store, ...how, now, signal, onStep });
      known.dated(steps);
      unfinished = ownWork(unfinished, steps, gathered.facts);
      if (steps.every(({ outcome }) => outcome === 'written')) keptKeys.clear();
      const mine = new Set(resolved.artefacts.filter(({ location }) => only(location)).map(({ name }) => name));
      const decisions = plan.decisions.filter(({ artefact }) => mine.has(artefact));
      settling = stillSettling(settling, decisions, now);
      const left = dryRun ? decisions.filter(isLeft) : decisions;
      const outcome = outcomeOf({ steps, decisions: left, gathered, unread, now });
      return { unavailable: gathered.failures, external, outcome };
    } finally {
      await guard.lock?.release();
    }
  };
}

const oldMs = 200;

/**
 * Whether more should be known of the clock: it seems wrong, or another machine could confirm it before we sign by it.
 */
const matters = ({ decisions }: Plan, canHear: boolean): boolean =>
  decisions.some(({ action, reason }) => isInDoubt.has(reason) || (canHear && action === 'renew'));
const isInDoubt: ReadonlySet<Reason> = new Set<Reason>(['ClockImplausible', 'ClockUnconfirmed']);

/**
 * A run for files alone has read no API server. One is read for the time all the same, once no repair is left to do
 * first.
 */
const isOnlyDue = ({ decisions }: Plan): boolean =>
  decisions.some(({ reason }) => reason === 'ClockUnconfirmed') && decisions.every(({ action }) => action !== 'renew');

/** Whether the plan renews an artefact that lies there, for this reason. */
function renews({ resolved, plan }: Seen, wanted: Reason, isThere: Only): boolean {
  const names = new Set(
    plan.decisions.flatMap(({ action, reason, artefact }) =>
      action === 'renew' && reason === wanted ? [artefact] : [],
    ),
  );
  return resolved.artefacts.some(({ name, location }) => names.has(name) && isThere(location));
}

/** Whether the plan renews files of this host that are still valid. */
const renewsAhead = (seen: Seen): boolean => renews(seen, 'RefreshDue', isFile);

function hasAnswered({ resolved, gathered }: Pick<Seen, 'resolved' | 'gathered'>, only: Only): boolean {
  return resolved.artefacts.some(
    ({ name, location }) => !isFile(location) && only(location) && !gathered.failures.has(name),
  );
}

/** Time for which no other controller counts as active after an object was found expired. */
const unattendedMs = 60_000;

const isUnattended = (foundExpiredAt: Date | undefined, now: Date): boolean =>
  foundExpiredAt !== undefined && now.getTime() - foundExpiredAt.getTime() < unattendedMs;

/**
 * Whether an object in the API was found expired: its own controller would have renewed it before notAfter, so its
 * grace is over, too.
 */
const hasFoundExpired = (seen: Seen): boolean => renews(seen, 'Expired', (location) => !isFile(location));

/** Decisions of a dry run that count for the recheck: a real run would have carried out all renewals by now. */
const isLeft = ({ action }: Decision): boolean => action !== 'renew';

interface Done extends Pick<Seen, 'gathered' | 'unread' | 'now'>, Pick<Plan, 'decisions'> {
  readonly steps: readonly StepResult[];
}

function outcomeOf({ steps, decisions, gathered, unread, now }: Done): PassOutcome {
  const count = (outcome: string): number => steps.filter((step) => step.outcome === outcome).length;
  return {
    unavailable: gathered.failures.size + unread,
    written: count('written'),
    conflicts: count('conflict'),
    failed: count('failed'),
    refusedCost: refusedCost(steps, gathered),
    settling: decisions.filter(({ reason }) => reason === 'Settling').length,
    blocked: decisions.filter(({ action }) => action === 'blocked').length,
    awaiting: decisions.filter(({ awaits }) => awaits === true).length,
    recheckAt: new Date(Math.min(...decisions.map(({ recheckAt }) => recheckAt.getTime()), now.getTime() + farMs)),
  };
}

/** Requests of a pass whose writes are all refused: it reads the objects, and tries the writes. */
function refusedCost(steps: readonly StepResult[], { facts }: Gathered): number {
  const failed = steps.filter(({ outcome }) => outcome === 'failed');
  return failed.length > 0 && failed.every(({ err }) => isCode(err, 'KubeRejected')) ? facts.size + failed.length : 0;
}

interface Guard {
  readonly lock?: Lock | undefined;
  /** Why no file may be written in this pass. */
  readonly refused?: RecoveryError | undefined;
}

/**
 * Guards file writes: takes the lock, where it is not held for the whole run, and checks for writers that take none.
 */
async function guardDisk({ decisions }: Plan, options: LookOptions): Promise<Guard> {
  const { resolved, dryRun, lockDisk, refuseBesideOthers } = options;
  const renewed = new Set(decisions.flatMap(({ action, artefact }) => (action === 'renew' ? [artefact] : [])));
  if (dryRun || !resolved.artefacts.some(({ name, location }) => renewed.has(name) && isFile(location))) return {};
  try {
    refuseBesideOthers?.();
    return { lock: options.lock === undefined ? await lockDisk?.() : undefined };
  } catch (err) {
    if (isCode(err, 'AlreadyRunning', 'WriteFailed')) return { refused: err };
    throw err;
  }
}

const farMs = 24 * 3_600_000;
