// The Secrets and ConfigMaps of a control plane whose certificates live in the API, healthy, as JSON; one at a time is
// damaged as no server would send it, and read as one that a server did send. What regen and the syncer make of it.
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import type { ApiLocation, Resolved, ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { isFile, isObject } from '../../../lib/inventory/places.ts';
import { createKeyPool } from '../../../lib/pki/key-pool.ts';
import type { Facts } from '../../../lib/plan/facts.ts';
import { gather } from '../../../lib/plan/gather.ts';
import { plan } from '../../../lib/plan/plan.ts';
import { execute } from '../../../lib/regen/execute.ts';
import { foundIn } from '../../../lib/store/api-store.ts';
import { objectEntries } from '../../../lib/store/object-entries.ts';
import { type Found, locationText, type Store } from '../../../lib/store/store.ts';
import { factsOf } from '../../../lib/syncer/material.ts';
import { project } from '../../../lib/syncer/project.ts';
import { syncedObjects } from '../../../lib/syncer/synced-objects.ts';
import { damageInsidePem, damages, damageValue, type Dice } from './damage.ts';
import { decided, p256 } from './damaged-machine.ts';
import type { Outcome } from './damaged-readers.ts';
import { MemoryStore } from '../stories/memory-store.ts';

type Json = Parameters<typeof damageValue>[0];
interface ApiJson {
  readonly metadata: { readonly resourceVersion: string };
  readonly data: Readonly<Record<string, string>>;
}

const now = new Date('2026-06-01T00:00:00Z');
const signal = new AbortController().signal;

export class ObjectCases {
  readonly #resolved: Resolved;
  readonly #rows: readonly (ResolvedArtefact & { readonly location: ApiLocation })[];
  readonly #store: MemoryStore;
  readonly #before: ReadonlyMap<string, string>;

  private constructor(...made: readonly [Resolved, MemoryStore, ReadonlyMap<string, string>]) {
    [this.#resolved, this.#store, this.#before] = made;
    this.#rows = this.#resolved.artefacts.flatMap((row) => {
      const { location } = row;
      return isObject(location) && this.#store.peek(location) !== undefined ? [{ ...row, location }] : [];
    });
  }

  static async create(): Promise<ObjectCases> {
    const all = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.com'] } });
    const resolved = { ...all, artefacts: all.artefacts.filter(({ location }) => !isFile(location)) };
    const store = new MemoryStore();
    for (let round = 0; round < 2; round += 1) {
      const gathered = await gather({ resolved, store, now, signal });
      const decision = planOf(resolved, gathered.facts);
      const keys = createKeyPool({ algorithm: p256, size: 0 });
      await execute({ resolved, plan: decision, gathered, store, keys, keyAlgorithm: p256, now, signal });
    }
    const { facts } = await gather({ resolved, store, now, signal });
    return new ObjectCases(resolved, store, decided(planOf(resolved, facts)));
  }

  async run(dice: Dice): Promise<Outcome> {
    const row = dice.pick(this.#rows);
    const next = this.#damaged(row, dice);
    const told = `${row.name}: ${JSON.stringify(next).slice(0, 200)}`;
    try {
      const read: Store['read'] = async (location) => {
        if (locationText(location) !== locationText(row.location)) return this.#store.peek(location);
        return foundIn(row.location, next as Parameters<typeof foundIn>[1]);
      };
      const store: Store = { read, write: this.#store.write.bind(this.#store) };
      const { facts, faults } = await gather({ resolved: this.#resolved, store, now, signal });
      const made = planOf(this.#resolved, facts);
      const thrown = [...(faults ?? []), ...(made.faults ?? [])].map(([name, err]) => `${name}: ${String(err)}`);
      if (thrown.length > 0) return `${told}: faults: ${thrown.join('; ')}`;
      this.#project(row, next);
      return this.#changedOf(row, made.decisions, told);
    } catch (err) {
      return `${told}: thrown: ${err instanceof Error ? err.stack : String(err)}`;
    }
  }

  #changedOf(row: ResolvedArtefact, decisions: ReturnType<typeof plan>['decisions'], told: string): Outcome {
    // What is made of it is rewritten with it, and only then; a copy also when bytes differ that mean nothing.
    const own = decisions.find(({ artefact }) => artefact === row.name);
    const isSame = own?.action === 'keep';
    const copies = this.#resolved.artefacts.filter((one) => one.kind === 'copy' && one.of === row.name);
    const dependents = isSame ? copies.map(({ name }) => name) : dependentsOf(this.#resolved, row.name);
    const changed = decisions.find(
      ({ artefact, action, reason }) =>
        artefact !== row.name && !dependents.includes(artefact) && `${action} ${reason}` !== this.#before.get(artefact),
    );
    return changed && `${told}: ${changed.artefact} became "${changed.action} ${changed.reason}": ${changed.message}`;
  }

  #damaged({ location }: { readonly location: ApiLocation }, dice: Dice): Json {
    const { entries, version } = this.#store.peek(location) as Found;
    const encoding = location.kind === 'secret' ? 'base64' : 'utf8';
    const names = Object.keys(entries);
    const name = dice.pick(names);
    const bytes = dice.roll(2) === 0 ? damageInsidePem : dice.pick(damages);
    const isOdd = dice.roll(3) === 0;
    const data = Object.fromEntries(
      names.map((key) => {
        const value = Buffer.from(entries[key] ?? Buffer.of());
        return [key, (!isOdd && key === name ? bytes(value, dice) : value).toString(encoding)];
      }),
    );
    const object: ApiJson = { metadata: { resourceVersion: version }, data };
    return isOdd ? { ...object, data: damageValue(data, dice) } : (object as unknown as Json);
  }

  /** As the syncer decides, over files that are healthy. */
  #project(row: ResolvedArtefact & { readonly location: ApiLocation }, next: Json): void {
    const { location } = row;
    const there = this.#store.peek(location) as Found;
    const sync = syncedObjects(this.#resolved, '/certs').find(({ name }) => name === row.name);
    if (sync === undefined) return;
    const { entries, keys, problem } = objectEntries(location.kind, next as object);
    const material =
      problem === undefined ? factsOf(sync, entries) : { problem: { reason: 'unreadable' as const, message: problem } };
    const ours = factsOf(sync, there.entries);
    const decision = project({
      object: sync,
      api: { state: 'present', keys, material },
      disk: { present: true, difference: 'written', material: ours },
      now,
    });
    if (decision.action === 'write' && material.problem !== undefined) throw new Error('the syncer publishes damage');
  }
}

const planOf = (resolved: Resolved, facts: Facts): ReturnType<typeof plan> =>
  plan({
    resolved,
    facts,
    policy: { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 0 },
    clock: { builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: true },
    now,
  });

/** What is made of an artefact, and what is made of that. */
function dependentsOf({ artefacts }: Resolved, name: string): readonly string[] {
  const found = new Set([name]);
  const isMadeOf = (row: ResolvedArtefact): boolean => {
    const parts = [
      ...('issuer' in row && row.issuer !== undefined ? [row.issuer] : []),
      ...('signers' in row ? row.signers : []),
      ...('inputs' in row ? row.inputs : []),
      ...('of' in row ? [row.of] : []),
    ];
    return parts.some((part) => found.has(part));
  };
  for (let size = 0; size < found.size;) {
    size = found.size;
    for (const row of artefacts) if (isMadeOf(row)) found.add(row.name);
  }
  return [...found];
}
