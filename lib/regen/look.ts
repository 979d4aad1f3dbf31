// One look: read, plan, carry out. Remembers between looks what only time can tell: since when a version has been
// there, what of our own work is unfinished, and whether the clock was set.
import { isCode, type RecoveryError } from '../errors.ts';
import type { Location, Resolved } from '../inventory/model.ts';
import { withNames } from '../inventory/names-in-api.ts';
import { gather } from '../plan/gather.ts';
import type { Gathered } from '../plan/gather.ts';
import type { Facts } from '../plan/facts.ts';
import { plan as makePlan } from '../plan/plan.ts';
import type { ClockFacts, Plan } from '../plan/plan-types.ts';
import type { Lock } from '../store/lock.ts';
import { observeClock } from './clock-watch.ts';
import type { ClockWatch } from './clock-watch.ts';
import { execute, type StepResult } from './execute.ts';
import type { Journal } from './journal.ts';
import type { RegenOptions } from './options.ts';
import { type GivenVersions, givenVersions } from './glance.ts';
import { noOwnWork, ownWork, withoutWaiting } from './own-work.ts';
import type { PassOutcome } from './waits.ts';
import { isFile } from '../inventory/places.ts';

export interface Looked {
  readonly outcome: PassOutcome;
  /** Names of the rows that could not be read. */
  readonly unavailable: Gathered['failures'];
  readonly given: GivenVersions;
}

/** Looks at the rows whose truth `only` accepts. */
export type Look = (only: (location: Location) => boolean) => Promise<Looked>;

/** What is there, and what is to be done about it. */
interface Seen {
  readonly resolved: Resolved;
  readonly gathered: Gathered;
  /** Objects that tell names, and could not be read. */
  readonly unread: number;
  readonly plan: Plan;
  readonly now: Date;
}

export function createLook(options: RegenOptions & { readonly journal: Journal }): Look {
  const { store, policy, clock, signal, journal, dryRun, keyPool, keyAlgorithm } = options;
  // Empty and not undefined: what contradicts itself at the first look may be another writer's work, too.
  let previous: Facts = new Map();
  let unfinished = noOwnWork;
  let foundEndedAt: Date | undefined;
  const clockFacts = watchClock(options);

  const see = async (only: (location: Location) => boolean): Promise<Seen> => {
    const trust = await clockFacts(false);
    const asks = options.resolved.artefacts.some(
      (row) => row.kind === 'target' && row.asks !== undefined && only(row.truth),
    );
    const [names, gathered] = await Promise.all([
      asks ? options.namesInApi?.(signal) : undefined,
      gather({
        resolved: options.resolved,
        store,
        signal,
        now: clock.now(),
        readAt: () => clock.now(),
        only,
        previous,
      }),
    ]);
    const resolved = names === undefined ? options.resolved : withNames(options.resolved, names);
    const sight = { resolved, gathered, unread: names?.unread ?? 0 };
    if (signal.aborted) return { ...sight, plan: { decisions: [], recheckAt: clock.now() }, now: clock.now() };
    previous = gathered.facts;
    const now = gathered.readAt;
    const facts = withoutWaiting(gathered.facts, unfinished);
    const unattended = isUnattended(foundEndedAt, now);
    const planBy = (by: ClockFacts): Plan => makePlan({ resolved, facts, policy, clock: by, now, unattended });
    const planned = planBy(trust);
    const isDoubted = !trust.synchronised && planned.decisions.some(({ reason }) => reason === 'ClockImplausible');
    return { ...sight, plan: isDoubted ? planBy(await clockFacts(true)) : planned, now };
  };

  return async (only) => {
    let seen = await see(only);
    const guard = signal.aborted ? {} : await guardDisk(seen.plan, options);
    try {
      // What the holder before us has written counts.
      if (guard.lock !== undefined) seen = await see(only);
      const { resolved, gathered, unread, plan, now } = seen;
      const given = givenVersions(resolved, gathered.found, only);
      if (signal.aborted) return { unavailable: gathered.failures, given, outcome: nothingDone(clock.now()) };
      if (hasFoundEnded(seen)) foundEndedAt = now;
      journal.measured(gathered.facts);
      journal.decided(plan, ({ truth }) => only(truth));
      const onStep = journal.stepped.bind(journal);
      const how = {
        keys: keyPool,
        ...(keyAlgorithm !== undefined && { keyAlgorithm }),
        ...(guard.refused !== undefined && { diskRefused: guard.refused }),
      };
      const steps = dryRun ? [] : await execute({ resolved, plan, gathered, store, ...how, now, signal, onStep });
      unfinished = ownWork(unfinished, steps, gathered.facts);
      const mine = new Set(resolved.artefacts.filter(({ truth }) => only(truth)).map(({ name }) => name));
      const decisions = plan.decisions.filter(({ artefact }) => mine.has(artefact));
      const outcome = outcomeOf({ steps, decisions, gathered, unread, now });
      return { unavailable: gathered.failures, given, outcome };
    } finally {
      await guard.lock?.release();
    }
  };
}

/** So long after something was found ended nobody else counts as being at work. */
const unattendedMs = 60_000;

const isUnattended = (foundEndedAt: Date | undefined, now: Date): boolean =>
  foundEndedAt !== undefined && now >= foundEndedAt && now.getTime() - foundEndedAt.getTime() < unattendedMs;

/** In the API, where somebody else would have renewed it before: after its end he has had his grace, too. */
function hasFoundEnded({ resolved, plan }: Seen): boolean {
  const ended = new Set(
    plan.decisions.flatMap(({ action, reason, artefact }) =>
      action === 'renew' && reason === 'Expired' ? [artefact] : [],
    ),
  );
  return resolved.artefacts.some(({ name, truth }) => ended.has(name) && !isFile(truth));
}

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
    settling: decisions.filter(({ reason }) => reason === 'Settling').length,
    blocked: decisions.filter(({ action }) => action === 'blocked').length,
    awaiting: decisions.filter(({ awaits }) => awaits === true).length,
    recheckAt: new Date(Math.min(...decisions.map(({ recheckAt }) => recheckAt.getTime()), now.getTime() + farMs)),
  };
}

interface Guard {
  readonly lock?: Lock;
  /** Why no file may be written in this look. */
  readonly refused?: RecoveryError;
}

/** Before files are written: the lock, where it is not held for the whole run, and a look for those who take none. */
async function guardDisk({ decisions }: Plan, options: RegenOptions): Promise<Guard> {
  const { resolved, once, dryRun, lockDisk, refuseBesideOthers } = options;
  const renewed = new Set(decisions.flatMap(({ action, artefact }) => (action === 'renew' ? [artefact] : [])));
  if (dryRun || !resolved.artefacts.some(({ name, truth }) => renewed.has(name) && isFile(truth))) return {};
  try {
    refuseBesideOthers?.();
    const lock = once ? undefined : await lockDisk?.();
    return lock === undefined ? {} : { lock };
  } catch (err) {
    if (isCode(err, 'AlreadyRunning', 'WriteFailed')) return { refused: err };
    throw err;
  }
}

const farMs = 24 * 3_600_000;

function nothingDone(now: Date): PassOutcome {
  return { unavailable: 0, written: 0, conflicts: 0, failed: 0, blocked: 0, settling: 0, awaiting: 0, recheckAt: now };
}

function watchClock({ clock, clockFacts, log }: RegenOptions): (thorough: boolean) => Promise<ClockFacts> {
  let watch: ClockWatch | undefined;
  return async (thorough) => {
    const observed = observeClock(watch, clock.now(), clock.uptimeSeconds());
    watch = observed.watch;
    const { jumpedMs, settlesAt } = observed;
    if (jumpedMs !== undefined) {
      const until = settlesAt === undefined ? {} : { recheckAt: settlesAt.toISOString() };
      log.warn('clock.jumped', { duration: jumpedMs, ...until });
    }
    return { ...(await clockFacts(thorough)), ...(settlesAt !== undefined && { settlesAt }) };
  };
}
