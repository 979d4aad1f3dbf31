// Three machines for a month: each runs the real loop of regen, over one store, by a clock of its own that is off by
// minutes, ahead by a year after a boot, or set back by hand. Real keys and certificates; time passes only when all of
// them sleep. Two of them lead, and renew their Leases as long as their clients' certificates are valid.
import { makeGeneration } from '../../lib/install/first-generation.ts';
import type { Location, Resolved } from '../../lib/inventory/model.ts';
import type { KubeRequest } from '../../lib/kube/kube.ts';
import { createOtherClocks } from '../../lib/regen/other-clocks.ts';
import { createLog } from '../../lib/log.ts';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { locationText, type Material, type Store } from '../../lib/store/store.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';
import { shared } from '../support/cluster/shared-store.ts';
import { StoreReaders } from '../support/stories/store-readers.ts';
import { certificateKey } from '../../lib/inventory/content.ts';

export const minute = 60_000;
export const hour = 60 * minute;
export const day = 24 * hour;
const algorithm = { name: 'ECDSA', curve: 'P-256' } as const;
/** Clocks that differ by more than this are wrong: what they would say of a certificate counts for nothing. */
const mostOffMs = 5 * minute;
/** In quiet times. */
const longestStepMs = 6 * hour;
const begin = new Date('2026-06-01T00:00:00Z').getTime();

/** A tenth of the lives: every leaf is renewed some twenty times in a month. */
const inventory: Resolved = {
  ...shared,
  artefacts: shared.artefacts.map((row) =>
    row.kind === 'signer' || row.kind === 'target'
      ? { ...row, validity: row.validity / 10, refresh: row.refresh / 10 }
      : row,
  ),
};
const readers = new StoreReaders(inventory);
const leaseNames = ['kube-controller-manager', 'kube-scheduler'] as const;

export interface MonthWrite {
  readonly by: string;
  /** Of a certificate with its key: why a machine with a good clock cannot use it within five minutes. */
  readonly fault?: string;
  /** By which the clock of the writer was ahead. */
  readonly offsetMs: number;
}

class Machine {
  readonly name: string;
  isSynchronised = false;
  clock: FakeClock | undefined;
  #stop: AbortController | undefined;
  #run: Promise<unknown> = Promise.resolve();
  readonly #month: SimulatedMonth;

  constructor(name: string, month: SimulatedMonth) {
    this.name = name;
    this.#month = month;
  }

  /** By how much its clock is ahead; undefined while it is off. */
  get offsetMs(): number | undefined {
    return this.clock && this.clock.now().getTime() - this.#month.ms;
  }

  boot(offsetMs: number): void {
    const clock = new FakeClock(new Date(this.#month.ms + offsetMs), 30);
    const stop = new AbortController();
    this.clock = clock;
    this.#stop = stop;
    const leases = leaseNames.map((name) => ({ namespace: 'kube-system', name }));
    const { connection } = this.#month;
    this.#run = runRegen({
      resolved: inventory,
      store: this.#month.storeOf(this),
      policy: { kind: 'BeforeExpiry', graceMs: minute, settleMs: 1000 },
      clockFacts: () => ({ builtAt: new Date(begin - 100 * day), synchronised: this.isSynchronised }),
      otherClocks: createOtherClocks({ connection, leases, hostName: this.name, clock }),
      clock,
      log: createLog({ level: 'error', write: () => undefined }),
      keyPool: createKeyPool({ algorithm, size: 1 }),
      keyAlgorithm: algorithm,
      once: false,
      dryRun: false,
      signal: stop.signal,
    }).catch((err: unknown) => this.#month.faults.push(String(err)));
  }

  /** Its clock is set: that much ahead of the right time. */
  set(offsetMs: number): void {
    this.clock?.set(new Date(this.#month.ms + offsetMs));
  }

  async off(): Promise<void> {
    this.#stop?.abort();
    await this.#run;
    this.clock = undefined;
  }
}

export class SimulatedMonth {
  ms = begin;
  readonly store: MemoryStore;
  readonly writes: MonthWrite[] = [];
  /** What should not have happened. */
  readonly faults: string[] = [];
  readonly a = new Machine('a', this);
  readonly b = new Machine('b', this);
  readonly c = new Machine('c', this);
  /** Who leads, by Lease. */
  readonly leaders = new Map<string, Machine>([
    [leaseNames[0], this.a],
    [leaseNames[1], this.b],
  ]);
  readonly #renewed = new Map<string, string>();

  private constructor(store: MemoryStore) {
    this.store = store;
  }

  static async create(): Promise<SimulatedMonth> {
    const store = new MemoryStore();
    const generation = makeGeneration({ resolved: inventory, now: new Date(begin), keyAlgorithm: algorithm });
    for await (const { artefact, material } of generation) store.put(artefact.location, material);
    return new SimulatedMonth(store);
  }

  get machines(): readonly Machine[] {
    return [this.a, this.b, this.c].filter(({ clock }) => clock !== undefined);
  }

  /** What a reader would refuse at the right time. */
  unsound(now = new Date(this.ms)): string[] {
    return readers.unsound(this.store, now);
  }

  /** Passes so much time: by the machines' own naps, or in hours while none of them works. An hour passes by naps. */
  async pass(forMs: number): Promise<void> {
    const end = this.ms + forMs;
    for (let wrote = -1; this.ms < end;) {
      await this.#asleep();
      const naps = this.machines.map(({ clock }) => clock?.nextWake ?? 0);
      const isQuiet = forMs > hour && wrote === this.writes.length && naps.every((ms) => ms >= 10_000);
      wrote = this.writes.length;
      const step = Math.min(
        isQuiet || naps.length === 0 ? longestStepMs : Math.max(Math.min(...naps), 1),
        end - this.ms,
      );
      this.ms += step;
      for (const { clock } of this.machines) clock?.advance(step);
    }
    await this.#asleep();
  }

  /** Until none has written for a minute: a race that was lost is run again within seconds. */
  async rest(): Promise<void> {
    for (let before = -1, tries = 0; before !== this.writes.length; tries += 1) {
      if (tries > 10) throw new Error(`they come to no rest: ${JSON.stringify(this.writes.slice(-20))}`);
      before = this.writes.length;
      await this.pass(minute);
    }
  }

  async #asleep(): Promise<void> {
    for (const { clock } of this.machines) await clock?.waiting();
  }

  async end(): Promise<void> {
    await Promise.all(this.machines.map((machine) => machine.off()));
  }

  storeOf(machine: Machine): Store {
    return {
      read: (location) => this.store.read(location),
      write: async (location, next, seen) => {
        const outcome = await this.store.write(location, next, seen);
        if (outcome === 'written') this.#wrote(machine, location, next);
        return outcome;
      },
    };
  }

  #wrote({ name, offsetMs = 0 }: Machine, location: Location, { entries }: Material): void {
    const pem = entries[certificateKey];
    const [leaf] = pem === undefined ? [] : parseCertificates(pem, name);
    const good = this.machines.filter((machine) => Math.abs(machine.offsetMs ?? 0) <= mostOffMs);
    const refusing = good.find(({ clock }) => {
      const now = clock?.now().getTime() ?? 0;
      if (leaf === undefined) return false;
      return leaf.facts.notBefore.getTime() > now + 5 * minute || leaf.facts.notAfter.getTime() <= now;
    });
    const dates =
      leaf === undefined ? '' : `${leaf.facts.notBefore.toISOString()} to ${leaf.facts.notAfter.toISOString()}`;
    const at = new Date(this.ms).toISOString();
    const fault = `${at} ${name} writes ${locationText(location)}, ${dates}: ${refusing?.name} cannot use it`;
    this.writes.push({ by: name, offsetMs, ...(refusing !== undefined && { fault }) });
  }

  /** The Leases of the leaders, by their clocks. */
  readonly connection = {
    request: <T>({ path }: KubeRequest): Promise<T> => {
      const lease = path.slice(path.lastIndexOf('/') + 1);
      const leader = this.leaders.get(lease);
      const now = leader?.clock?.now();
      const lives = now !== undefined && !this.unsound(now).some((refused) => refused.startsWith('middle-client'));
      if (lives) this.#renewed.set(lease, new Date(Math.floor(now.getTime() / 2000) * 2000).toISOString());
      const renewTime = this.#renewed.get(lease) ?? new Date(begin).toISOString();
      return Promise.resolve({ spec: { holderIdentity: `${leader?.name}_1`, renewTime } } as T);
    },
  };
}
