// One look: read, plan, carry out. Remembers between looks what only time can tell: since when a version has been
// there, what of our own work is unfinished, and whether the clock was set.
import type { Location } from '../inventory/model.ts';
import { gather } from '../plan/gather.ts';
import type { Gathered } from '../plan/gather.ts';
import type { Facts } from '../plan/facts.ts';
import { plan as makePlan } from '../plan/plan.ts';
import type { ClockFacts } from '../plan/plan-types.ts';
import { observeClock } from './clock-watch.ts';
import type { ClockWatch } from './clock-watch.ts';
import { execute } from './execute.ts';
import type { Journal } from './journal.ts';
import type { RegenOptions } from './options.ts';
import { noOwnWork, ownWork, withoutWaiting } from './own-work.ts';
import type { PassOutcome } from './waits.ts';

export interface Looked {
  readonly outcome: PassOutcome;
  /** Names of the rows that could not be read. */
  readonly unavailable: Gathered['failures'];
}

/** Looks at the rows whose truth `only` accepts. */
export type Look = (only: (location: Location) => boolean) => Promise<Looked>;

export function createLook(options: RegenOptions & { readonly journal: Journal }): Look {
  const { resolved, store, policy, clock, signal, journal, dryRun, keyPool, keyAlgorithm } = options;
  // Empty and not undefined: what contradicts itself at the first look may be another writer's work, too.
  let previous: Facts = new Map();
  let unfinished = noOwnWork;
  const clockFacts = watchClock(options);

  return async (only) => {
    const trust = await clockFacts();
    const gathered = await gather({ resolved, store, signal, now: clock.now(), only, previous });
    if (signal.aborted) return { unavailable: gathered.failures, outcome: nothingDone(clock.now()) };
    previous = gathered.facts;
    const now = clock.now();
    const facts = withoutWaiting(gathered.facts, unfinished);
    const plan = makePlan({ resolved, facts, policy, clock: trust, now });
    journal.measured(gathered.facts);
    journal.decided(plan, ({ truth }) => only(truth));
    const onStep = journal.stepped.bind(journal);
    const keys = { keys: keyPool, ...(keyAlgorithm !== undefined && { keyAlgorithm }) };
    const steps = dryRun ? [] : await execute({ resolved, plan, gathered, store, ...keys, now, signal, onStep });
    unfinished = ownWork(unfinished, steps, gathered.facts);
    const count = (outcome: string): number => steps.filter((step) => step.outcome === outcome).length;
    const mine = new Set(resolved.artefacts.filter(({ truth }) => only(truth)).map(({ name }) => name));
    const decisions = plan.decisions.filter(({ artefact }) => mine.has(artefact));
    return {
      unavailable: gathered.failures,
      outcome: {
        unavailable: gathered.failures.size,
        written: count('written'),
        conflicts: count('conflict'),
        failed: count('failed'),
        settling: decisions.filter(({ reason }) => reason === 'Settling').length,
        blocked: decisions.filter(({ action }) => action === 'blocked').length,
        recheckAt: new Date(Math.min(...decisions.map(({ recheckAt }) => recheckAt.getTime()), now.getTime() + farMs)),
      },
    };
  };
}

const farMs = 24 * 3_600_000;

function nothingDone(now: Date): PassOutcome {
  return { unavailable: 0, written: 0, conflicts: 0, failed: 0, blocked: 0, settling: 0, recheckAt: now };
}

function watchClock({ clock, clockFacts, log }: RegenOptions): () => Promise<ClockFacts> {
  let watch: ClockWatch | undefined;
  return async () => {
    const observed = observeClock(watch, clock.now(), clock.uptimeSeconds());
    watch = observed.watch;
    const { jumpedMs, settlesAt } = observed;
    if (jumpedMs !== undefined) {
      const until = settlesAt === undefined ? {} : { recheckAt: settlesAt.toISOString() };
      log.warn('clock.jumped', { duration: jumpedMs, ...until });
    }
    return { ...(await clockFacts()), ...(settlesAt !== undefined && { settlesAt }) };
  };
}
