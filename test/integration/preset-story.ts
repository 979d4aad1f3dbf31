// A story of faults about one of the preset worlds, on a real API server and in namespaces of its own: everything has
// ended, or nothing is there, and the world's processes of regen reach the API by a proxy that misbehaves. What the API
// has seen since the beginning says how often each object was written, and whether trust was lost on the way.
import { join } from 'node:path';
import { expect } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { openshiftObjects, readNamesInApi } from '../../lib/inventory/discover/openshift.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { withNames } from '../../lib/inventory/names-in-api.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { runRegen } from '../../lib/regen/run.ts';
import type { Found, Material } from '../../lib/store/store.ts';
import type { ControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { expireAll } from '../support/cluster/expire.ts';
import type { Asked } from '../support/faults/fault-forwarder.ts';
import { type FaultProxy, startFaultProxy } from '../support/faults/fault-proxy.ts';
import { type SlowLink, type Slowness, startSlowLink } from '../support/faults/slow-link.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';
import { ObjectHistory } from '../support/stories/object-history.ts';
import { giveNames, prepareOpenshift } from '../support/cluster/openshift.ts';
import {
  asksForNames,
  externalBundle,
  isMade,
  namespacesOf,
  openshiftNames,
  type PresetWorld,
  presetWorld,
  unlikeOnce,
  type WorldName,
} from '../support/stories/preset-worlds.ts';
import { certificatesIn, problems } from '../support/stories/soundness.ts';
import { Actor, regenOptions, type LogLine } from './regen-world.ts';

export const serverName = 'localhost-recovery';
/** P-256, because keys are no matter here and are made in no time. A renewal keeps the algorithm. */
const algorithm = { name: 'ECDSA', curve: 'P-256' } as const;
const keys = () => ({ keyPool: createKeyPool({ algorithm, size: 32 }), keyAlgorithm: algorithm });

/** The objects of a world, by inventory and artefact, as months off have left them. Made once, brought to each story. */
type Generation = ReadonlyMap<string, Material>;
const keyOf = (resolved: Resolved, name: string): string => `${resolved.name} ${name}`;

/** What a story needs of its control plane; `prepare` it once. */
export class Stage {
  readonly controlPlane: ControlPlane;
  readonly scratch: string;
  readonly #ended = new Map<WorldName, Promise<Generation>>();

  constructor(controlPlane: ControlPlane, scratch: string) {
    this.controlPlane = controlPlane;
    this.scratch = scratch;
  }

  async prepare(): Promise<void> {
    await prepareOpenshift(this.controlPlane);
    await giveNames(this.controlPlane);
  }

  ended(world: WorldName): Promise<Generation> {
    const known = this.#ended.get(world) ?? endedGeneration(presetWorld(world));
    this.#ended.set(world, known);
    return known;
  }
}

async function endedGeneration({ inventories, given }: PresetWorld): Promise<Generation> {
  const store = new MemoryStore();
  for (const location of given) store.put(location, await externalBundle(location, systemClock.now()));
  const namesInApi = () => Promise.resolve(openshiftNames);
  // They are made of each other: the second time each finds what the others have made.
  for (const resolved of [...inventories, ...inventories]) {
    await runRegen(regenOptions({ resolved, store, namesInApi, ...keys() }));
  }
  const named = inventories.map((resolved) => ({ resolved: withNames(resolved, openshiftNames), store }));
  await expireAll(named, { now: systemClock.now() });
  const found = (resolved: Resolved) =>
    resolved.artefacts.flatMap((row): [string, Found][] => {
      const there = store.peek(row.location);
      return there === undefined ? [] : [[keyOf(resolved, row.name), there]];
    });
  return new Map(inventories.flatMap(found));
}

/** One process of the world: as it is started, and as the test looks at the same objects without the proxy. */
interface Member {
  readonly resolved: Resolved;
  readonly actors: readonly Actor[];
  readonly direct: Actor;
}

export interface StoryOptions {
  readonly world: WorldName;
  /** Nothing is there but what others maintain. */
  readonly absent?: boolean;
  /** Processes of each kind. Default: one. */
  readonly machines?: number;
  /** The way to the API server, instead of by the proxy. */
  readonly slow?: Slowness;
}

export const isWrite = ({ method }: Asked): boolean => method === 'PUT' || method === 'PATCH';
export const isAboutNames = ({ path }: Asked): boolean => path.includes(`/apis/${openshiftObjects.group}/`);

export class PresetStory implements AsyncDisposable {
  readonly proxy: FaultProxy;
  readonly history: ObjectHistory;
  readonly world: PresetWorld;
  readonly link: SlowLink | undefined;
  readonly #members: readonly Member[];
  readonly #stop = new AbortController();

  private constructor(parts: Pick<PresetStory, 'proxy' | 'history' | 'world' | 'link'>, members: readonly Member[]) {
    this.proxy = parts.proxy;
    this.history = parts.history;
    this.world = parts.world;
    this.link = parts.link;
    this.#members = members;
  }

  static #count = 0;

  static async create(
    stage: Stage,
    { world: name, absent = false, machines = 1, slow }: StoryOptions,
  ): Promise<PresetStory> {
    const { controlPlane } = stage;
    const story = `faults-${(PresetStory.#count += 1)}`;
    const world = presetWorld(name, story);
    const ended = await stage.ended(name);
    const target = { port: controlPlane.port, caFile: controlPlane.recoveryCa, serverName };
    const proxy = await startFaultProxy({ target });
    const link = slow && (await startSlowLink(controlPlane.port, slow));
    const recoveryKubeconfig = await writeKubeconfig(join(stage.scratch, story), {
      server: link?.url ?? proxy.url,
      certificateAuthority: link === undefined ? proxy.ca : controlPlane.recoveryCa,
      tlsServerName: serverName,
      token: controlPlane.adminToken,
    });
    for (const namespace of namespacesOf(world)) {
      await controlPlane.admin('/api/v1/namespaces', { method: 'POST', body: { metadata: { name: namespace } } });
    }
    const members: Member[] = [];
    for (const resolved of world.inventories) {
      const direct = await Actor.start(controlPlane, resolved);
      const actors = Array.from({ length: machines }, () => Actor.start({ recoveryKubeconfig }, resolved));
      members.push({ resolved, direct, actors: await Promise.all(actors) });
      const mine = resolved.artefacts.filter((row) =>
        isMade(row) ? !absent : world.given.includes(row.location as never),
      );
      await Promise.all(
        mine.map(async (row) => {
          const material = ended.get(keyOf(resolved, row.name));
          if (material === undefined) throw new Error(`${row.name} was not made`);
          await direct.store.write(row.location, material, 'absent', AbortSignal.timeout(60_000));
        }),
      );
    }
    const history = await ObjectHistory.start(controlPlane, namespacesOf(world));
    return new PresetStory({ proxy, history, world, link }, members);
  }

  /** All processes at the same time; a single one until it is done, several of them until all is well. */
  async run({ once = this.#members.length === 1 } = {}): Promise<readonly RegenReport[]> {
    const running = this.#members.flatMap(({ resolved, actors }) =>
      actors.map((actor) => actor.run({ ...keys(), once, ...namesFor(resolved, actor), signal: this.#stop.signal })),
    );
    if (!once) {
      // Longer than a contradiction takes to be believed.
      const isDone = async (): Promise<void> => {
        await this.history.still(1200);
        expect(this.problems()).toEqual([]);
      };
      await eventually(isDone);
      this.#stop.abort();
    }
    return Promise.all(running);
  }

  /** How many objects the world has. */
  get size(): number {
    return this.world.inventories.reduce((sum, { artefacts }) => sum + artefacts.length, 0);
  }

  /** Of all inventories, as the API has told. */
  problems(): string[] {
    return this.world.inventories.flatMap((resolved) =>
      problems(resolved, this.history.contents(resolved), systemClock.now()),
    );
  }

  /** Of each certificate that has any, by artefact. */
  hostnames(): Record<string, string[]> {
    return Object.fromEntries(
      this.world.inventories.flatMap((resolved) =>
        [...this.history.contents(resolved)].flatMap(([name, { 'tls.crt': pem = '' }]) => {
          const names = certificatesIn(pem)[0]?.subjectAltName;
          return names === undefined ? [] : [[name, names.split(', ').toSorted()] as const];
        }),
      ),
    );
  }

  /** Until a process has said that something went wrong, or all have ended. */
  async metFault(run: Promise<unknown>): Promise<boolean> {
    const events = ['api.waiting', 'rotation.failed', 'publish.conflicted', 'rotation.blocked'];
    // From nothing, what another process gives is not there yet: that is no fault.
    const isWrong = ({ event, message = '' }: LogLine): boolean =>
      events.includes(event) && !String(message).includes('it is made by others');
    const actors = this.#members.flatMap((member) => member.actors);
    const met = (): boolean => actors.some(({ lines }) => lines.some(isWrong));
    const ended = run.then(() => true);
    while (!met()) if (await Promise.race([ended, systemClock.sleep(10).then(() => false)])) break;
    return met();
  }

  /** All is well, nothing is left to do, each object was written once for what it is made of, and no trust was lost. */
  async expectRecovered(reports: readonly RegenReport[]): Promise<void> {
    if (this.#members.length === 1) {
      for (const report of reports) {
        expect(report.converged).toBe(true);
        expect(report.artefacts.filter(({ action }) => action !== 'keep')).toEqual([]);
      }
    }
    expect(this.problems()).toEqual([]);
    for (const { resolved, direct } of this.#members) {
      expect(await direct.run(namesFor(resolved, direct))).toMatchObject({ converged: true, writes: 0 });
    }
    await this.history.close();
    expect(this.history.lostTrust(systemClock.now())).toEqual([]);
    const processes = this.#members.reduce((sum, { actors }) => sum + actors.length, 0);
    expect(unlikeOnce(this.world, (place) => this.history.writes(place), processes)).toEqual([]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.history.close();
    for (const { actors, direct } of this.#members) {
      for (const actor of [...actors, direct]) await actor[Symbol.asyncDispose]();
    }
    await this.link?.[Symbol.asyncDispose]();
    await this.proxy.close();
  }
}

const namesFor = (resolved: Resolved, { connection }: Actor) =>
  asksForNames(resolved) ? { namesInApi: (signal: AbortSignal) => readNamesInApi(connection, signal) } : {};
