// One look: read, plan, carry out. Remembers between looks what only time can tell: since when a version has been
// there, what of our own work is unfinished, and whether the clock was set.
import type { Lock } from '../host/lock.ts';
import { notLater } from '../clock.ts';
import { isCode, type RecoveryError } from '../errors.ts';
import type { Location, Resolved } from '../inventory/model.ts';
import { type NamesInApi, withNames } from '../inventory/names-in-api.ts';
import type { KeyAlgorithm, PrivateKey } from '../pki/key.ts';
import type { KeyPool } from '../pki/key-pool.ts';
import { gather, type Gathered } from '../plan/gather.ts';
import { type Sources, understandOffers } from '../plan/gather-offers.ts';
import type { Facts } from '../plan/facts.ts';
import { type Plan, plan as makePlan } from '../plan/plan.ts';
import type { ClockFacts } from '../plan/clock-rules.ts';
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

/** What a look needs. */
export interface LookOptions extends ClockSources {
  readonly resolved: Resolved;
  readonly store: Store;
  /** Names that only the API tells, read at each look; needed where the inventory asks for them. */
  readonly namesInApi?: ((signal: AbortSignal) => Promise<NamesInApi>) | undefined;
  readonly policy: RenewalPolicy;
  /** Where somebody else puts what cannot be made here, and what they have answered. They are asked between two runs. */
  readonly sources?: Sources | undefined;
  readonly keyPool: KeyPool;
  readonly keyAlgorithm?: KeyAlgorithm | undefined;
  readonly once: boolean;
  /** Says what would be done: makes no key and no write. */
  readonly dryRun: boolean;
  /**
   * The right to write files of this host: of a single run for as long as it lasts, otherwise for each look that writes,
   * so that a process that lasts shuts nobody out.
   */
  readonly lockDisk?: () => Promise<Lock>;
  /** The one that is held for the whole run. */
  readonly lock?: Lock | undefined;
  /** Taken before files that are still valid are renewed; answers why that has to wait. See RenewalLease. */
  readonly renewalLease?: { readonly take: () => Promise<string | undefined> } | undefined;
  /** Asked before each look that writes files. Throws AlreadyRunning beside a writer that takes no lock. */
  readonly refuseBesideOthers?: () => void;
}

export interface Looked {
  readonly outcome: PassOutcome;
  /** By name what could not be read. */
  readonly unavailable: Gathered['failures'];
  readonly external: ExternalContents;
}

type Only = (location: Location) => boolean;

/** Looks at the artefacts whose location `only` accepts. */
export type Look = (only: Only) => Promise<Looked>;

/** What is there, and what is to be done about it. */
interface Seen {
  readonly resolved: Resolved;
  readonly gathered: Gathered;
  /** Objects that tell names, and could not be read. */
  readonly unread: number;
  readonly plan: Plan;
  /** The same, made by another policy. */
  readonly replan: (policy: RenewalPolicy) => Plan;
  readonly now: Date;
}

export function createLook(options: LookOptions & { readonly journal: Journal }): Look {
  const { policy, clock, signal, journal, dryRun, keyPool, keyAlgorithm } = options;
  const reads = new KeptReads(withKnownEntries(options.store, options.resolved), clock);
  const { store } = reads;
  // Empty and not undefined: what contradicts itself at the first look may be another writer's work, too.
  let previous: Facts = new Map();
  let unfinished = noOwnWork;
  let foundExpiredAt: Date | undefined;
  let settling: ReadonlyMap<string, Date> = new Map();
  const keptKeys = new Map<string, PrivateKey>();
  const known = knownClock(options);
  const isFilesAlone = options.resolved.artefacts.every(({ location }) => isFile(location));

  const see = async (only: Only, asked?: ClockFacts): Promise<Seen> => {
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
      return { ...sight, plan, replan: () => plan, now: clock.now() };
    }
    previous = gathered.facts;
    const now = gathered.readAt;
    const facts = withoutWaiting(gathered.facts, unfinished);
    foundExpiredAt = foundExpiredAt && notLater(foundExpiredAt, now);
    const unattended = isUnattended(foundExpiredAt, now);
    const offers = understandOffers(options.sources, { ...gathered, resolved });
    const planBy = (by: ClockFacts, kept = policy): Plan =>
      makePlan({ resolved, facts, policy: kept, clock: by, now, unattended, offers, settlingSince: settling });
    const planned = planBy(trust);
    const apiAnswers = hasAnswered({ resolved, gathered }, only);
    const canHear = apiAnswers && options.otherClocks !== undefined;
    if (asked !== undefined || trust.synchronised || !matters(planned, canHear))
      return { ...sight, plan: planned, replan: (kept) => planBy(trust, kept), now };
    const heard = await known.ask({ apiAnswers: apiAnswers || (isFilesAlone && isOnlyDue(planned)) });
    // Others have had time to write meanwhile: what was read is as old as that.
    const isOld = Math.abs(clock.now().getTime() - now.getTime()) > oldMs;
    return isOld ? see(only, heard) : { ...sight, plan: planBy(heard), replan: (kept) => planBy(heard, kept), now };
  };
  /** What is still valid is renewed by the holder of the Lease alone, which is asked for once in a look. */
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
    let seen = await leased(await see(only));
    const guard: Guard = signal.aborted ? {} : await guardDisk(seen.plan, options);
    try {
      // What the holder before us has written counts.
      if (guard.lock !== undefined) seen = await leased(await see(only));
      const { resolved, gathered, unread, plan, now } = seen;
      const external = externalContents(resolved, gathered.found, only);
      if (signal.aborted)
        return { unavailable: gathered.failures, external, outcome: outcomeOf({ ...seen, steps: [], decisions: [] }) };
      if (hasFoundExpired(seen)) foundExpiredAt = now;
      for (const [name, err] of [...gathered.faults, ...(plan.faults ?? [])]) journal.faulted(name, err);
      journal.measured(gathered.facts);
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

/** Whether more should be known of the clock: it seems wrong, or somebody could say that it is before we sign by it. */
const matters = ({ decisions }: Plan, canHear: boolean): boolean =>
  decisions.some(({ action, reason }) => isInDoubt.has(reason) || (canHear && action === 'renew'));
const isInDoubt: ReadonlySet<Reason> = new Set<Reason>(['ClockImplausible', 'ClockUnconfirmed']);

/** Files alone have no API server that has answered. One is asked for the time all the same, once nothing has to be repaired first. */
const isOnlyDue = ({ decisions }: Plan): boolean =>
  decisions.some(({ reason }) => reason === 'ClockUnconfirmed') && decisions.every(({ action }) => action !== 'renew');

/** Files of this host that are still valid. */
function renewsAhead({ resolved, plan }: Seen): boolean {
  const ahead = new Set(
    plan.decisions.flatMap(({ action, reason, artefact }) =>
      action === 'renew' && reason === 'RefreshDue' ? [artefact] : [],
    ),
  );
  return resolved.artefacts.some(({ name, location }) => ahead.has(name) && isFile(location));
}

function hasAnswered({ resolved, gathered }: Pick<Seen, 'resolved' | 'gathered'>, only: Only): boolean {
  return resolved.artefacts.some(
    ({ name, location }) => !isFile(location) && only(location) && !gathered.failures.has(name),
  );
}

/** So long after something was found expired nobody else counts as being at work. */
const unattendedMs = 60_000;

const isUnattended = (foundExpiredAt: Date | undefined, now: Date): boolean =>
  foundExpiredAt !== undefined && now.getTime() - foundExpiredAt.getTime() < unattendedMs;

/** In the API, where somebody else would have renewed it before: after its end he has had his grace, too. */
function hasFoundExpired({ resolved, plan }: Seen): boolean {
  const ended = new Set(
    plan.decisions.flatMap(({ action, reason, artefact }) =>
      action === 'renew' && reason === 'Expired' ? [artefact] : [],
    ),
  );
  return resolved.artefacts.some(({ name, location }) => ended.has(name) && !isFile(location));
}

/** Of a dry run: a real one would have carried out the rest by now, and would wait for a later date. */
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

/** Requests of a look whose writes are all refused: it reads the objects, and tries the writes. */
function refusedCost(steps: readonly StepResult[], { facts }: Gathered): number {
  const failed = steps.filter(({ outcome }) => outcome === 'failed');
  return failed.length > 0 && failed.every(({ err }) => isCode(err, 'KubeRejected')) ? facts.size + failed.length : 0;
}

interface Guard {
  readonly lock?: Lock | undefined;
  /** Why no file may be written in this look. */
  readonly refused?: RecoveryError | undefined;
}

/** Before files are written: the lock, where it is not held for the whole run, and a look for those who take none. */
async function guardDisk({ decisions }: Plan, options: LookOptions): Promise<Guard> {
  const { resolved, once, dryRun, lockDisk, refuseBesideOthers } = options;
  const renewed = new Set(decisions.flatMap(({ action, artefact }) => (action === 'renew' ? [artefact] : [])));
  if (dryRun || !resolved.artefacts.some(({ name, location }) => renewed.has(name) && isFile(location))) return {};
  try {
    refuseBesideOthers?.();
    return { lock: once ? undefined : await lockDisk?.() };
  } catch (err) {
    if (isCode(err, 'AlreadyRunning', 'WriteFailed')) return { refused: err };
    throw err;
  }
}

const farMs = 24 * 3_600_000;
