// Several actors on one store, step by step. Every call of an actor to the store waits here until the schedule, a seeded
// random order, lets it through, loses its answer, makes it fail, or kills the actor that made it. Nothing else decides
// what happens next: a seed always gives the same story.
import type { Clock } from '../../../lib/clock.ts';
import { RecoveryError } from '../../../lib/errors.ts';
import { namesOf } from '../../../lib/inventory/discover/openshift.ts';
import type { Location, Resolved, ResolvedArtefact } from '../../../lib/inventory/model.ts';
import type { NamesInApi } from '../../../lib/inventory/names-in-api.ts';
import { createLog } from '../../../lib/log.ts';
import { noMetrics } from '../../../lib/metrics.ts';
import { createKeyPool } from '../../../lib/pki/key-pool.ts';
import type { Decision, RenewalPolicy } from '../../../lib/plan/decision.ts';
import type { Plan } from '../../../lib/plan/plan.ts';
import type { StepResult } from '../../../lib/regen/execute.ts';
import { Journal } from '../../../lib/regen/journal.ts';
import { createLook, type Looked } from '../../../lib/regen/look.ts';
import type { Found, Material, Seen, Store } from '../../../lib/store/store.ts';
import type { MemoryStore } from '../stories/memory-store.ts';

export type Random = () => number;

/** mulberry32: small, and good enough to order events. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const pick = <T>(random: Random, of: readonly T[]): T => {
  const one = of[Math.floor(random() * of.length)];
  if (one === undefined) throw new Error('nothing to choose from');
  return one;
};

export const algorithm = { name: 'ECDSA', curve: 'P-256' } as const;
const log = createLog({ level: 'error', write: () => undefined });

/** Time that only the schedule moves. */
export class StoryClock implements Clock {
  ms: number;
  constructor(start: Date) {
    this.ms = start.getTime();
  }
  now(): Date {
    return new Date(this.ms);
  }
  uptimeSeconds(): number {
    return this.ms / 1000;
  }
  sleep(): Promise<void> {
    return Promise.reject(new Error('an actor only looks; the schedule says when'));
  }
}

export interface Write {
  readonly artefact: ResolvedArtefact;
  readonly by: string;
  readonly reason: Decision['reason'];
  readonly at: Date;
  readonly before: Found | undefined;
}

interface Call {
  readonly actor: Actor;
  /** The artefact, or the names that only the API tells. */
  readonly of: string;
  readonly kind: 'read' | 'write';
  /** Carries it out, and returns how to answer. */
  readonly carryOut: () => Promise<() => void>;
  readonly fail: (err: RecoveryError) => void;
}

/** What a process is there for. */
export interface Role {
  readonly resolved: Resolved;
  readonly policy: RenewalPolicy;
  /** What its API tells, where the inventory asks. */
  readonly names?: NamesInApi;
}

const unreadable = { problem: 'it could not be read', isUnread: true };

/** A process: looks again and again, with what the real loop remembers between looks. */
class Actor {
  readonly name: string;
  readonly role: Role;
  readonly calls: Call[] = [];
  state: 'resting' | 'looking' | 'dead' = 'resting';
  restsUntil: number;
  /** Looks in a row that had nothing to do. */
  quiet = 0;
  plan: Plan | undefined;
  #reads = 0;
  readonly #asks: number;
  readonly #ended = new Set<string>();
  readonly #look: () => Promise<Looked>;
  readonly #story: Story;

  constructor(name: string, role: Role, story: Story) {
    this.name = name;
    this.role = role;
    this.#story = story;
    this.restsUntil = story.clock.ms;
    const { clock } = story;
    const { resolved, policy, names } = role;
    this.#asks = resolved.artefacts.length + (names === undefined ? 0 : 1);
    const planned = (plan: Plan): void => void (this.plan = plan);
    const ended = ({ artefact, outcome, err }: StepResult): void => {
      this.#ended.add(artefact.name);
      story.tell(`${name}: ${artefact.name} ${outcome} ${err?.message ?? ''}`);
      story.poke();
    };
    class WatchedJournal extends Journal {
      override decided(plan: Plan, lookedAt: (row: ResolvedArtefact) => boolean): void {
        super.decided(plan, lookedAt);
        planned(plan);
      }
      override stepped(result: StepResult): void {
        super.stepped(result);
        ended(result);
      }
    }
    const look = createLook({
      resolved,
      clock,
      store: this.#store(),
      policy,
      ...(names !== undefined && { namesInApi: () => this.#tell(names) }),
      clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
      log,
      keyPool: createKeyPool({ algorithm, size: 0 }),
      keyAlgorithm: algorithm,
      once: false,
      dryRun: false,
      signal: new AbortController().signal,
      journal: new WatchedJournal({ resolved, clock, log, dryRun: false, metrics: noMetrics }),
    });
    this.#look = () => look(() => true);
  }

  /** Waits for the schedule, or has nothing under way. A look reads everything at once, then carries its plan out. */
  get isIdle(): boolean {
    if (this.state !== 'looking') return true;
    if (this.plan === undefined) return this.#reads < this.#asks && this.calls.length === this.#asks - this.#reads;
    const steps = this.plan.decisions.filter(({ action }) => action === 'renew');
    if (steps.every(({ artefact }) => this.#ended.has(artefact))) return false;
    const names = new Set(steps.map(({ artefact }) => artefact));
    return steps.every(
      ({ artefact, after }) =>
        this.#ended.has(artefact) ||
        this.calls.some((call) => call.of === artefact) ||
        after.some((name) => names.has(name) && !this.#ended.has(name)),
    );
  }

  begin(): void {
    this.state = 'looking';
    this.plan = undefined;
    this.#reads = 0;
    this.#ended.clear();
    void this.#lookOnce().catch((err: unknown) => this.#story.broken(err));
  }

  async #lookOnce(): Promise<void> {
    const { outcome } = await this.#look();
    const { written, conflicts, failed, unavailable: unread, settling, recheckAt } = outcome;
    this.quiet = written + conflicts + failed + unread + settling > 0 ? 0 : this.quiet + 1;
    const now = this.#story.clock.ms;
    const waits = failed + unread > 0 ? 200 : Math.min(Math.max(recheckAt.getTime() - now, 100), 30_000);
    this.restsUntil = now + (written + conflicts > 0 ? 0 : waits);
    this.state = 'resting';
    this.#story.poke();
  }

  take(call: Call): void {
    this.calls.splice(this.calls.indexOf(call), 1);
    if (call.kind === 'read') this.#reads += 1;
  }

  /** Never rejects, as the real one. */
  #tell(names: NamesInApi): Promise<NamesInApi> {
    return this.#waiting('read', 'names', () => Promise.resolve(names)).catch(() => namesOf(unreadable, unreadable));
  }

  #waiting<T>(kind: Call['kind'], of: string, act: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const carryOut = async (): Promise<() => void> => {
        const result = await act();
        return () => resolve(result);
      };
      this.calls.push({ actor: this, of, kind, carryOut, fail: reject });
      this.#story.poke();
    });
  }

  #store(): Store {
    const { store } = this.#story;
    const { resolved } = this.role;
    const rowAt = (location: Location): ResolvedArtefact => {
      const row = resolved.artefacts.find((one) => one.location === location);
      if (row === undefined) throw new Error('no such row');
      return row;
    };
    return {
      read: (location) => this.#waiting('read', rowAt(location).name, () => store.read(location)),
      write: (location, next, seen) => {
        const artefact = rowAt(location);
        return this.#waiting('write', artefact.name, () => this.#write(artefact, next, seen));
      },
    };
  }

  async #write(artefact: ResolvedArtefact, next: Material, seen: Seen): Promise<'written' | 'conflict'> {
    const { store, clock, writes, onWrite } = this.#story;
    const before = store.peek(artefact.location);
    const outcome = await store.write(artefact.location, next, seen);
    if (outcome === 'conflict') return outcome;
    const reason = this.plan?.decisions.find((one) => one.artefact === artefact.name)?.reason ?? 'Healthy';
    const write = { artefact, by: this.name, reason, at: clock.now(), before };
    writes.push(write);
    onWrite(write);
    return outcome;
  }
}

export interface StoryOptions {
  readonly store: MemoryStore;
  readonly random: Random;
  readonly start: Date;
  /** One actor each. */
  readonly roles: readonly Role[];
  /** How many calls may fail, answers be lost and actors be killed, before all goes well. */
  readonly faults: number;
  /** Throws when a write has done harm. */
  readonly onWrite: (write: Write) => void;
}

const unavailable = (what: string): RecoveryError => new RecoveryError('KubeUnavailable', `Cannot reach: ${what}`);

export class Story {
  readonly store: MemoryStore;
  readonly clock: StoryClock;
  readonly writes: Write[] = [];
  readonly lines: string[] = [];
  readonly #random: Random;
  readonly #onWrite: (write: Write) => void;
  readonly #actors: Actor[] = [];
  #faults: number;
  #failure: Error | undefined;
  #poke = (): void => undefined;

  constructor({ store, random, start, roles, faults, onWrite }: StoryOptions) {
    this.store = store;
    this.clock = new StoryClock(start);
    this.#random = random;
    this.#faults = faults;
    this.#onWrite = onWrite;
    for (const role of roles) this.#join(role);
  }

  readonly onWrite = (write: Write): void => {
    this.tell(`${write.by}: writes ${write.artefact.name} (${write.reason})`);
    try {
      this.#onWrite(write);
    } catch (err) {
      this.broken(err);
    }
  };

  tell(line: string): void {
    this.lines.push(`${this.clock.now().toISOString()} ${line}`);
  }

  /** Something has happened; perhaps everybody waits now. */
  poke(): void {
    this.#poke();
  }

  broken(err: unknown): void {
    this.#failure ??= err instanceof Error ? err : new Error(String(err));
    this.poke();
  }

  /** Until everybody has had nothing to do twice in a row. Throws when that does not come, or when harm is done. */
  async tillQuiet(mostEvents = 20_000): Promise<void> {
    for (const actor of this.#actors) actor.quiet = 0;
    for (let event = 0; event < mostEvents; event += 1) {
      await this.#allIdle();
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#living().every(({ quiet, state }) => quiet >= 2 && state === 'resting')) return;
      await this.#next();
    }
    throw new Error(`it does not come to rest within ${mostEvents} events`);
  }

  /** Kills everybody after so many writes, or when they rest. */
  async tillKilled(writes: number): Promise<void> {
    for (let event = 0; event < 20_000 && this.writes.length < writes; event += 1) {
      await this.#allIdle();
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#living().every(({ quiet, state }) => quiet >= 2 && state === 'resting')) break;
      await this.#next();
    }
    await this.#allIdle();
    for (const actor of this.#living()) this.#end(actor);
  }

  #living(): Actor[] {
    return this.#actors.filter(({ state }) => state !== 'dead');
  }

  #join(role: Role): void {
    const actor = new Actor(`${role.resolved.name}-${role.policy.kind}-${this.#actors.length}`, role, this);
    this.#actors.push(actor);
  }

  async #allIdle(): Promise<void> {
    while (this.#failure === undefined && !this.#living().every(({ isIdle }) => isIdle)) {
      await new Promise<void>((resolve) => {
        this.#poke = resolve;
      });
    }
  }

  async #next(): Promise<void> {
    const random = this.#random;
    this.clock.ms += Math.floor(random() * 40);
    const living = this.#living();
    const calls = living.flatMap((actor) => actor.calls.toSorted((a, b) => (order(a) < order(b) ? -1 : 1)));
    // Now and then one looks before its time, as when a watch has told of a change.
    const early = random() < 0.1;
    const awake = living.filter(
      ({ state, restsUntil }) => state === 'resting' && (early || restsUntil <= this.clock.ms),
    );
    if (calls.length + awake.length === 0) {
      this.clock.ms = Math.min(...living.map(({ restsUntil }) => restsUntil));
      return;
    }
    if (this.#faults > 0 && random() < 0.01) {
      this.#faults -= 1;
      await this.#kill(pick(random, living));
      return;
    }
    const chosen = pick(random, [...calls, ...awake]);
    if (chosen instanceof Actor) chosen.begin();
    else await this.#letThrough(chosen);
  }

  async #letThrough(call: Call): Promise<void> {
    const { actor, of, kind } = call;
    const what = `${kind} of ${of}`;
    actor.take(call);
    const goesWrong = this.#faults > 0 && this.#random() < (kind === 'read' ? 0.02 : 0.2);
    if (!goesWrong) {
      (await call.carryOut())();
      return;
    }
    this.#faults -= 1;
    const isLost = this.#random() < 0.6;
    this.tell(`${actor.name}: ${what} ${isLost ? 'loses its answer' : 'fails'}`);
    if (isLost) await call.carryOut();
    call.fail(unavailable(what));
  }

  /** Requests that are under way may still arrive. Another one takes the place, with no memory. */
  async #kill(actor: Actor): Promise<void> {
    this.tell(`${actor.name}: killed`);
    for (const call of actor.calls.splice(0)) {
      if (call.kind === 'write' && this.#random() < 0.3) await call.carryOut();
    }
    this.#end(actor);
    this.#join(actor.role);
  }

  #end(actor: Actor): void {
    actor.calls.length = 0;
    actor.state = 'dead';
  }
}

function order({ kind, of }: Call): string {
  return `${kind} ${of}`;
}
