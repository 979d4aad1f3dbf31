// A year of an OpenShift cluster in seconds: its operators and regen with the three presets on the same objects, real
// keys and certificates, a clock that only the story moves. Whichever wakes, the other may come between two of its writes.
// Every write of either is kept, with the generation that it made: a certificate, a set of certificates, a content.
import { createHash } from 'node:crypto';
import type { Location, Resolved } from '../../lib/inventory/model.ts';
import { withNames } from '../../lib/inventory/names-in-api.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { createLog } from '../../lib/log.ts';
import { noMetrics } from '../../lib/metrics.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { signSigner } from '../../lib/pki/sign.ts';
import { signatureMatches } from '../../lib/pki/verify.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import { Journal } from '../../lib/regen/journal.ts';
import { createLook, type Look } from '../../lib/regen/look.ts';
import { type Found, locationText, type Material, type Seen, type Store } from '../../lib/store/store.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { algorithm, pick, type Random, seeded, StoryClock } from '../support/faults/interleaving.ts';
import * as cluster from '../support/cluster/openshift-objects.ts';
import {
  configMap,
  held,
  leafs,
  ObjectStore,
  OperatorActor,
  type OperatorOptions,
  secret,
} from '../support/stories/operator-actor.ts';
import { openshiftNames } from '../support/stories/preset-worlds.ts';
import { problems } from '../support/stories/soundness.ts';
import { contentsOf } from '../support/stories/store-readers.ts';

const second = 1000;
const minute = 60_000;
const day = 24 * 60 * minute;
const graceMs = minute;
/** Of the operator, one after the other: each may need what the one before has made. */
const mostRounds = 30;

/** Every object with a certificate and key of its own. */
const pairs: readonly { readonly object: string; readonly refreshDays: number }[] = [
  ...cluster.leaves,
  cluster.csrSigner,
  ...cluster.signers.map(([object, , refreshDays]) => ({ object, refreshDays })),
];

export interface YearWrite {
  readonly object: string;
  readonly by: 'operator' | 'regen';
  readonly at: Date;
  readonly generation: string;
}

export interface YearOptions {
  readonly seed: number;
  readonly policy: RenewalPolicy['kind'];
  /** The most that passes between two steps of the operator. */
  readonly stepMs?: number;
  readonly broken?: OperatorOptions['broken'];
}

export class SimulatedYear {
  readonly store = new ObjectStore();
  readonly clock = new StoryClock(new Date('2026-01-01T00:00:00Z'));
  readonly writes: YearWrite[] = [];
  /** What should not have happened, as it happened. */
  readonly faults: string[] = [];
  isOperatorOn = true;
  isRegenOn = true;
  /** Whether everything must be verifiable after every single write: not while something is healed. */
  isStrict = false;
  readonly #random: Random;
  readonly #options: YearOptions;
  readonly #operator: OperatorActor;
  readonly #looks: readonly Look[];
  readonly #inventories: readonly Resolved[];
  readonly #generations = new Map<string, Set<string>>();
  #round: AsyncGenerator<string> | undefined;
  readonly #rests = new Map<Look, { readonly changes: number; readonly until: number }>();
  #isAmid = false;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: YearOptions) {
    this.#options = options;
    this.#random = seeded(options.seed);
    const keys = createKeyPool({ algorithm, size: 0 });
    const { clock } = this;
    this.#operator = new OperatorActor({
      store: this.#watched('operator'),
      now: () => clock.now(),
      keys,
      random: this.#random,
      ...(options.broken !== undefined && { broken: options.broken }),
    });
    const log = createLog({ level: 'error', write: () => undefined });
    const resolved = cluster.openshiftPresets.map((name) => resolve(loadPreset(name), {}));
    this.#inventories = resolved.map((one) => withNames(one, openshiftNames));
    this.#looks = resolved.map((one) => {
      const journal = new Journal({ resolved: one, clock, log, dryRun: false, metrics: noMetrics });
      return createLook({
        resolved: one,
        clock,
        log,
        journal,
        keyPool: keys,
        keyAlgorithm: algorithm,
        store: this.#watched('regen'),
        namesInApi: () => Promise.resolve(openshiftNames),
        policy: { kind: options.policy, graceMs, settleMs: second },
        clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
        once: false,
        dryRun: false,
        signal: new AbortController().signal,
      });
    });
  }

  /** What others give, and everything else as the operator makes it, or regen. */
  async begin(by: YearWrite['by'] = 'operator'): Promise<void> {
    for (const object of [
      'openshift-config/admin-kubeconfig-client-ca',
      'openshift-config-managed/kubelet-bootstrap-kubeconfig',
      'openshift-config-managed/default-ingress-cert',
    ]) {
      const { key } = await generateKey(algorithm);
      const now = this.clock.now();
      const dates = { notBefore: now, notAfter: new Date(now.getTime() + 3650 * day), now };
      const { pem } = await signSigner({ commonName: object, key, ...dates });
      this.store.put(configMap(object), { entries: { 'ca-bundle.crt': Buffer.from(pem) }, annotations: {} });
    }
    this.isOperatorOn = by === 'operator';
    this.isRegenOn = !this.isOperatorOn;
    await this.tillQuiet();
    this.isOperatorOn = this.isRegenOn = true;
    this.writes.length = 0;
  }

  /** Passes that many days: from one moment at which something may be due to the next, or a little later. */
  async days(count: number): Promise<void> {
    const end = this.clock.ms + count * day;
    while (this.clock.ms < end) {
      const late = pick(this.#random, [0, 0, 0.01, 0.3]) * day;
      this.clock.ms = Math.min(this.#nextMoment() + late, end, this.#nextEnd());
      await this.tillQuiet();
    }
  }

  /** Something is due by its age, or has ended; a fortnight at most. */
  #nextMoment(): number {
    const moments = pairs.flatMap(({ object, refreshDays }) =>
      leafs(this.store.peek(secret(object)))
        .slice(0, 1)
        .flatMap(({ facts }) => {
          const from = facts.notBefore.getTime();
          const to = facts.notAfter.getTime();
          const isSigner = cluster.signers.some(([name]) => name === object);
          const spread = isSigner ? [1.5 * day, 3 * day] : [];
          return [...spread, refreshDays * day, (to - from) * 0.8, to - from].map((ms) => from + ms + 2 * second);
        }),
    );
    return Math.min(...moments.filter((ms) => ms > this.clock.ms), this.clock.ms + 14 * day);
  }

  /** Until neither has anything to write: not at once, nor in the time in which refusals to believe and promotions end. */
  async tillQuiet(): Promise<void> {
    const waits = [1.5 * second, minute, 4 * minute + 10 * second];
    let [quiet, wrote] = [0, false];
    for (let turn = 0; quiet < (wrote ? 4 : 1); turn += 1) {
      if (turn > 60) throw new Error(`no rest at ${this.clock.now().toISOString()}: ${this.#last(12)}`);
      const before = this.writes.length;
      const turns = [() => this.#operatorTurn(), () => this.#regenTurn()];
      if (this.#random() < 0.5) turns.reverse();
      for (const one of turns) await one();
      const isQuiet = this.writes.length === before;
      wrote ||= !isQuiet;
      quiet = isQuiet ? quiet + 1 : 0;
      this.clock.ms += waits[quiet - 1] ?? 1.5 * second;
    }
    this.#checkAtRest();
  }

  /** Looks of regen, one after the other, as long as any of them writes; the clock stands still. What is wrong then. */
  async withoutWaiting(): Promise<string[]> {
    for (let before = -1; before !== this.writes.length;) {
      before = this.writes.length;
      for (const look of this.#looks) await look(() => true);
    }
    const now = this.clock.now();
    const unsound = this.#inventories.flatMap((resolved) => problems(resolved, contentsOf(this.store, resolved), now));
    return [...unsound, ...this.unverifiable()];
  }

  /** Regen leaves what has ended to the operator for its grace: the moment after it. */
  #nextEnd(): number {
    const ends = pairs.flatMap(({ object }) =>
      leafs(this.store.peek(secret(object)))
        .slice(0, 1)
        .map(({ facts }) => facts.notAfter.getTime() + graceMs + 1),
    );
    return Math.min(...ends.filter((ms) => ms > this.clock.ms));
  }

  async #operatorTurn(): Promise<void> {
    if (!this.isOperatorOn) return;
    // A change wakes its readers: rounds follow until there is nothing left to write.
    for (let [before, round] = [-1, 0]; before !== this.store.changes; round += 1) {
      if (round > mostRounds) throw new Error(`the operator comes to no rest: ${this.#last(12)}`);
      before = this.store.changes;
      await this.#operatorSteps(Infinity);
    }
    if (this.#random() < 0.5) await this.#regenAmid();
  }

  /** Steps of the round that is under way, or of a new one. Regen may look between two of them. */
  async #operatorSteps(count: number): Promise<void> {
    for (let step = 0; step < count && this.isOperatorOn; step += 1) {
      this.#round ??= this.#operator.round();
      this.clock.ms += Math.floor(this.#random() * (this.#options.stepMs ?? 10));
      const { done } = await this.#round.next();
      if (done === true) {
        this.#round = undefined;
        return;
      }
      if (this.#random() < 0.2) await this.#regenAmid();
    }
  }

  async #regenAmid(): Promise<void> {
    if (this.#isAmid || !this.isRegenOn) return;
    this.#isAmid = true;
    await this.#lookBy(pick(this.#random, this.#looks));
    this.#isAmid = false;
  }

  async #regenTurn(): Promise<void> {
    if (!this.isRegenOn) return;
    for (const look of this.#looks.toSorted(() => this.#random() - 0.5)) await this.#lookBy(look);
  }

  /** As the real loop: not before a change, or before the time that the last look has named. */
  async #lookBy(look: Look): Promise<void> {
    const rest = this.#rests.get(look);
    if (rest?.changes === this.store.changes && this.clock.ms < rest.until) return;
    const { changes } = this.store;
    const { outcome } = await look(() => true);
    if (outcome.conflicts + outcome.failed > 0) this.#rests.delete(look);
    else this.#rests.set(look, { changes, until: outcome.recheckAt.getTime() });
  }

  #watched(by: YearWrite['by']): Store {
    return {
      read: (location) => this.store.read(location),
      write: async (location, next, seen) => {
        if (by === 'regen') await this.#before();
        return this.#write(by, location, next, seen);
      },
    };
  }

  /** Between two of regen's writes the operator takes a few steps, one such visit at a time. */
  async #before(): Promise<void> {
    if (this.#isAmid) return;
    const turn = this.#turn.then(async () => {
      if (this.#random() >= 0.3) return undefined;
      this.#isAmid = true;
      await this.#operatorSteps(1 + Math.floor(this.#random() * 4));
      this.#isAmid = false;
      return undefined;
    });
    this.#turn = turn;
    await turn;
  }

  async #write(by: YearWrite['by'], location: Location, next: Material, seen: Seen): Promise<'written' | 'conflict'> {
    const before = this.store.peek(location);
    const outcome = await this.store.write(location, next, seen);
    if (outcome === 'conflict') return outcome;
    const found = this.store.peek(location);
    const object = objectOf(location);
    const generation = found === undefined ? '' : generationOf(found);
    this.writes.push({ object, by, at: this.clock.now(), generation });
    const known = this.#generations.get(object) ?? new Set();
    if (known.has(generation))
      this.#fault(`${object}: ${by} writes a generation that was there${difference(before, found)}`);
    this.#generations.set(object, known.add(generation));
    this.#checkPair(object, by, before);
    if (this.isStrict)
      for (const problem of this.unverifiable()) this.#fault(`after ${by} wrote ${object}: ${problem}`);
    return outcome;
  }

  /** A pair that was good and not due was not replaced. */
  #checkPair(object: string, by: string, before: Found | undefined): void {
    const refreshDays = pairs.find((one) => one.object === object)?.refreshDays;
    const [old] = leafs(before);
    const [next] = leafs(this.store.peek(secret(object)));
    if (refreshDays === undefined || old === undefined || old.facts.fingerprint === next?.facts.fingerprint) return;
    const { notBefore, notAfter } = old.facts;
    const life = notAfter.getTime() - notBefore.getTime();
    const due = notBefore.getTime() + Math.min(refreshDays * day, life * 0.8);
    if (this.clock.ms < due)
      this.#fault(`${object}: ${by} renews it ${Math.round((due - this.clock.ms) / 1000)} s early`);
  }

  #fault(text: string): void {
    if (this.faults.length < 200) this.faults.push(`${this.clock.now().toISOString()} ${text}`);
  }

  /** Leaves that have expired, or that no living CA of their bundle has signed. */
  unverifiable(): string[] {
    const now = this.clock.now();
    const bundles = new Map(cluster.bundles.map(([bundle, signer]) => [signer, bundle]));
    return [...cluster.leaves, cluster.csrSigner].flatMap(({ object, signer }) => {
      const [leaf] = leafs(this.store.peek(secret(object)));
      if (leaf === undefined || leaf.facts.notAfter <= now || now < leaf.facts.notBefore)
        return [`${object}: not valid`];
      const trust = held(this.store.peek(configMap(bundles.get(signer) ?? '')));
      return trust.some((ca) => now < ca.facts.notAfter && signs(ca, leaf))
        ? []
        : [`${object}: nobody knows its signer`];
    });
  }

  #checkAtRest(): void {
    const now = this.clock.now();
    if (!this.isOperatorOn && this.#isInGrace(now.getTime())) return;
    for (const resolved of this.#inventories) {
      for (const problem of problems(resolved, contentsOf(this.store, resolved), now))
        this.#fault(`at rest: ${problem}`);
    }
    for (const problem of this.unverifiable()) this.#fault(`at rest: ${problem}`);
  }

  /** What has ended this moment may stay so for a minute, and is looked at then (`#nextEnd`). */
  #isInGrace(now: number): boolean {
    const ends = pairs.flatMap(({ object }) => leafs(this.store.peek(secret(object))).slice(0, 1));
    return ends.some(({ facts }) => facts.notAfter.getTime() <= now && now <= facts.notAfter.getTime() + graceMs);
  }

  #last(count: number): string {
    return this.writes
      .slice(-count)
      .map(({ object, by }) => `${by} ${object}`)
      .join(', ');
  }

  count(by: YearWrite['by']): number {
    return this.writes.filter((write) => write.by === by).length;
  }
}

const objectOf = (location: Location): string => locationText(location).replace(/^\w+ "(.*)"$/, '$1');

const verified = new WeakMap<Certificate, WeakMap<Certificate, boolean>>();

function signs(ca: Certificate, leaf: Certificate): boolean {
  const known = verified.get(ca) ?? new WeakMap<Certificate, boolean>();
  verified.set(ca, known);
  const answer = known.get(leaf) ?? signatureMatches(leaf, ca);
  known.set(leaf, answer);
  return answer;
}

/** A pair by its certificate, a bundle by its set of certificates, kubeconfigs by both. */
function generationOf(found: Found): string {
  const { entries } = found;
  const [leaf] = leafs(found);
  const set = (certificates: readonly Certificate[]): string =>
    certificates
      .map(({ facts }) => facts.fingerprint.slice(0, 16))
      .toSorted()
      .join(' ');
  if (leaf !== undefined) return leaf.facts.fingerprint;
  if (entries['ca-bundle.crt'] !== undefined) return set(held(found));
  const parts = Object.entries(entries).map(([key, bytes]) => {
    const config = parseYaml(Buffer.from(bytes).toString()) as {
      readonly clusters: readonly { readonly cluster: Readonly<Record<string, string>> }[];
      readonly users: readonly { readonly user: Readonly<Record<string, string>> }[];
    };
    const { 'certificate-authority-data': ca = '', server = '' } = config.clusters[0]?.cluster ?? {};
    const { 'client-certificate-data': client = '' } = config.users[0]?.user ?? {};
    const cas = held({ entries: { 'ca-bundle.crt': Buffer.from(ca, 'base64') }, annotations: {}, version: '' });
    return [key, server, set(cas), client].join(' ');
  });
  return createHash('sha256').update(parts.toSorted().join('\n')).digest('hex');
}

/** What a write of the same generation has changed. */
function difference(before: Found | undefined, after: Found | undefined): string {
  const changed = (key: 'annotations' | 'labels'): string[] =>
    Object.entries(after?.[key] ?? {}).flatMap(([name, value]) => (before?.[key]?.[name] === value ? [] : [name]));
  const bytes = Object.entries(after?.entries ?? {}).flatMap(([key, value]) =>
    Buffer.from(value).equals(before?.entries[key] ?? Buffer.of()) ? [] : [key],
  );
  const all = [...changed('annotations'), ...changed('labels'), ...bytes];
  return ` (changed: ${all.length === 0 ? 'nothing' : all.join(', ')})`;
}
