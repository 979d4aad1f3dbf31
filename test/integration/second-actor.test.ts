// OnlyWhenExpired keeps its hands off what works. Beside an actor that rotates by library-go's rules, with lives of
// seconds, it makes no write in more than two minutes, although it looks at every moment of the other's work; and the
// program, in both modes on a healthy control plane, changes no object and touches no file. Both at the same time.
import { readdir } from 'node:fs/promises';
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../lib/clock.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { createApiStore } from '../../lib/store/api-store.ts';
import type { Store } from '../../lib/store/store.ts';
import { eventually } from '../support/eventually.ts';
import { RecoveryWorld } from '../support/cluster/recovery-world.ts';
import { contentsInApi, problems } from '../support/stories/soundness.ts';
import { Actor, Generations } from './regen-world.ts';

const besideMs = 150_000;
const healthyMs = 60_000;
const namespace = 'rotated';
const second = 1000;

let world: RecoveryWorld;

beforeAll(async () => {
  // The controller manager fills the tokens of our own service accounts.
  world = await RecoveryWorld.create({ components: ['etcd', 'kube-apiserver', 'kube-controller-manager'] });
  await world.controlPlane.admin('/api/v1/namespaces', { method: 'POST', body: { metadata: { name: namespace } } });
});
afterAll(() => world?.[Symbol.asyncDispose]());

/** The objects of the preset with lives of seconds: signers last 80 s, all else 48 s; renewed after half of it. */
function shortLived(): Resolved {
  const { name, artefacts } = resolve(loadPreset('kubernetes', { namespace }), {
    parameters: { apiServerHostnames: ['127.0.0.1'] },
  });
  // localhost-recovery is renewed ahead by either policy (renewAhead); here all of it belongs to the other actor.
  const hurried = (row: ResolvedArtefact): ResolvedArtefact => {
    if (row.kind === 'copy' && row.promoteAfter !== undefined) return { ...row, promoteAfter: 3 * second };
    if (row.kind !== 'signer' && row.kind !== 'target') return row;
    const isRoot = row.kind === 'signer' && row.issuer === undefined;
    const life = isRoot ? 80 * second : 48 * second;
    return { ...row, renewAhead: false, validity: life, refresh: life / 2 };
  };
  const isOurs = ({ location, kind }: ResolvedArtefact): boolean => 'namespace' in location && kind !== 'keyPair';
  return { name, artefacts: artefacts.filter(isOurs).map(hurried) };
}

/** Writes under its own name, and takes its time between two writes: others see it half done. */
function unhurriedStore(actor: Actor, betweenMs: number): Store {
  const store = createApiStore({ connection: actor.connection, fieldManager: 'rotator' });
  return {
    read: (...args) => store.read(...args),
    write: async (...args) => {
      await delay(betweenMs);
      return store.write(...args);
    },
  };
}

interface Stored {
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion: string;
    readonly managedFields: readonly { readonly manager: string }[];
  };
}

async function objectsIn(space: string): Promise<Stored[]> {
  const items = await Promise.all(
    ['secrets', 'configmaps'].map(async (resource) => {
      const { body } = await world.controlPlane.admin(`/api/v1/namespaces/${space}/${resource}`);
      return (body as { readonly items: readonly Stored[] }).items;
    }),
  );
  return items.flat();
}

it.concurrent('OnlyWhenExpired makes no write beside an actor that rotates', { timeout: 600_000 }, async () => {
  const resolved = shortLived();
  await using rotator = await Actor.start(world.controlPlane, resolved);
  await using ours = await Actor.start(world.controlPlane, resolved);
  const algorithm = { name: 'ECDSA', curve: 'P-256' } as const;
  const stop = new AbortController();
  const common = {
    signal: stop.signal,
    once: false,
    keyAlgorithm: algorithm,
    keyPool: createKeyPool({ algorithm, size: 32 }),
  };
  const rotating = rotator.run({
    ...common,
    policy: { kind: 'BeforeExpiry', graceMs: 0, settleMs: 1000 },
    store: unhurriedStore(rotator, 80),
  });
  const isWhole = async (): Promise<void> =>
    expect(problems(resolved, await contentsInApi(world.controlPlane, resolved), systemClock.now())).toEqual([]);
  await eventually(isWhole);

  // Little grace: what the rotator let expire we would renew soon; when a copy is to be promoted, it may be in the middle
  // of a pass, with one slow write after the other. A sleep that ends early makes it look all the time.
  const clock: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 150), signal) };
  let reads = 0;
  const store: Store = {
    read: (...args) => {
      reads += 1;
      return ours.store.read(...args);
    },
    write: (...args) => ours.store.write(...args),
  };
  const looking = ours.run({
    ...common,
    clock,
    store,
    policy: { kind: 'OnlyWhenExpired', graceMs: 10 * second, settleMs: 1000 },
  });
  const generations = await Generations.start(rotator, namespace);
  await delay(besideMs);
  // At any moment the rotator may stand between two of its writes.
  await eventually(isWhole);
  await generations.close();
  stop.abort();
  const [theirs, report] = await Promise.all([rotating, looking]);

  expect(ours.lines.filter(({ event }) => /regenerated|updated|conflicted|failed|started/.test(event))).toEqual([]);
  expect(report.writes).toBe(0);
  const managers = (await objectsIn(namespace))
    .filter(({ metadata }) =>
      resolved.artefacts.some(({ location }) => 'namespace' in location && location.name === metadata.name),
    )
    .flatMap(({ metadata }) => metadata.managedFields.map(({ manager }) => manager));
  expect([...new Set(managers)]).toEqual(['rotator']);
  // Otherwise nothing was to be seen: each pair was renewed several times by the other, under our eyes.
  const looks = reads / resolved.artefacts.length;
  expect(looks).toBeGreaterThan(75);
  const pairs = resolved.artefacts.filter(({ kind }) => kind === 'signer' || kind === 'target');
  expect(theirs.writes).toBeGreaterThan(4 * pairs.length);
  const rotated = [...pairs.map(({ name }) => name), 'csr-signer'];
  for (const name of rotated) expect(generations.seen.get(name)?.length, name).toBeGreaterThanOrEqual(2);
  console.log(`the rotator wrote ${theirs.writes} times; we looked ${Math.round(looks)} times`);
});

/** Every file and link below, with what a write would change. */
async function filesBelow(directory: string): Promise<Record<string, string>> {
  // The lock that a syncer holds on its destination is no file that anybody reads.
  const names = (await readdir(directory, { recursive: true })).filter((name) => name.split('/')[0] !== '.lock');
  return Object.fromEntries(
    names.toSorted().map((name) => {
      const { ino, mtimeMs, ctimeMs, mode, size } = lstatSync(join(directory, name));
      return [name, [ino, mtimeMs, ctimeMs, mode, size].join(' ')];
    }),
  );
}

it.concurrent('the program in both modes leaves a healthy control plane alone', async () => {
  const inventory = async (): Promise<Record<string, string>> => {
    const names = new Set(
      world.resolved.artefacts.flatMap(({ location }) => ('namespace' in location ? [location.name] : [])),
    );
    const objects = (await objectsIn('kube-cert-recovery')).filter(({ metadata }) => names.has(metadata.name));
    expect(objects).toHaveLength(names.size);
    return Object.fromEntries(objects.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
  };
  const pki = join(world.root, 'pki');
  const before = { objects: await inventory(), files: await filesBelow(world.certs), pki: await filesBelow(pki) };
  expect(Object.keys(before.files).length).toBeGreaterThan(50);
  expect(Object.keys(before.pki).length).toBeGreaterThan(5);

  const tool = world.startTool(['--mode=regen,syncer']);
  await eventually(() => expect(tool.lines.map(({ event }) => event)).toContain('api.answered'));
  await delay(healthyMs);
  expect({ objects: await inventory(), files: await filesBelow(world.certs), pki: await filesBelow(pki) }).toEqual(
    before,
  );
  expect(await tool.stop()).toBe(0);
  const deeds = tool.lines.filter(({ event }) => /regenerated|updated|written|removed|failed|rejected/.test(event));
  expect(deeds).toEqual([]);
});
