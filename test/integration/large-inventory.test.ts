// Others may keep a megabyte in each object of the inventory, as much as the API takes. Everything has expired, and heals
// in a process whose heap has room for a fraction of that.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { runRegen } from '../../lib/regen/run.ts';
import type { Entries } from '../../lib/store/store.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { expire } from '../support/cluster/expire.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';
import { problems } from '../support/stories/soundness.ts';
import { Actor, regenOptions } from './regen-world.ts';

const run = promisify(execFile);
const child = fileURLToPath(new URL('../support/faults/regen-child.ts', import.meta.url));
const namespace = 'large-inventory';
const day = 24 * 3_600_000;
const chains = 20;
/** The API allows 1 MiB in an object, of all entries together. */
const foreign = 'x'.repeat((1 << 20) - 24 * 1024);

const algorithm = { name: 'ECDSA', curve: 'P-256' } as const;
const keys = { keyPool: createKeyPool({ algorithm, size: 32 }), keyAlgorithm: algorithm };

/** A signer, its bundle and a certificate each. */
const resolved: Resolved = {
  name: 'large',
  artefacts: Array.from({ length: chains }, (_, at): ResolvedArtefact[] => {
    const secret = (name: string) => ({ kind: 'secret', namespace, name: `${name}-${at}` }) as const;
    const lives = { readers: [], validity: 60 * day, refresh: 30 * day };
    return [
      { kind: 'signer', name: `signer-${at}`, location: secret('signer'), ...lives },
      {
        kind: 'caBundle',
        name: `bundle-${at}`,
        location: { kind: 'configMap', namespace, name: `bundle-${at}` },
        readers: [],
        signers: [`signer-${at}`],
      },
      {
        kind: 'target',
        name: `target-${at}`,
        location: secret('target'),
        ...lives,
        issuer: `signer-${at}`,
        usage: 'serving',
        organizations: [],
        hostnames: ['localhost'],
      },
    ];
  }).flat(),
};

let controlPlane: ControlPlane;
let scratch: string;
let actor: Actor;

beforeAll(async () => {
  controlPlane = await startControlPlane();
  scratch = await mkdtemp(join(tmpdir(), 'large-inventory-'));
  await writeFile(join(scratch, 'inventory.json'), JSON.stringify(resolved));
  await controlPlane.admin('/api/v1/namespaces', { method: 'POST', body: { metadata: { name: namespace } } });
  actor = await Actor.start(controlPlane, resolved);
  const memory = new MemoryStore();
  await runRegen(regenOptions({ resolved, store: memory, ...keys }));
  const ended = await expire({ resolved, store: memory, now: systemClock.now() });
  for (const { name, location } of resolved.artefacts) {
    const { entries = {}, annotations = {} } = ended.get(name) ?? {};
    const large = { entries: { ...entries, foreign: Buffer.from(foreign) }, annotations };
    await actor.store.write(location, large, 'absent', AbortSignal.timeout(60_000));
  }
});
afterAll(async () => {
  await actor?.[Symbol.asyncDispose]();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

interface Outcome {
  readonly converged: boolean;
  readonly writes: number;
  readonly left: readonly object[];
  readonly peakMb: number;
}

/** Rejects when the process ends in any other way than by itself. */
async function heal(): Promise<Outcome> {
  const args = ['--max-old-space-size=64', child, controlPlane.recoveryKubeconfig, join(scratch, 'inventory.json')];
  const { stdout } = await run(process.execPath, args);
  return JSON.parse(stdout) as Outcome;
}

async function contents(): Promise<ReadonlyMap<string, Entries>> {
  const all = new Map<string, Entries>();
  for (const { name, location } of resolved.artefacts) {
    const found = await actor.store.read(location, AbortSignal.timeout(60_000));
    if (found !== undefined) all.set(name, found.entries);
  }
  return all;
}

it('runRegen() heals sixty objects with a megabyte of somebody else in each, in a heap of 64 MB', async () => {
  const outcome = await heal();
  expect(outcome).toMatchObject({ converged: true, left: [], writes: resolved.artefacts.length });
  const after = await contents();
  for (const [name, entries] of after) expect(entries['foreign']?.length, name).toBe(foreign.length);
  const texts = [...after].map(([name, entries]) => {
    const text = ([key, bytes]: [string, Uint8Array]) => [key, Buffer.from(bytes).toString()] as const;
    return [name, Object.fromEntries(Object.entries(entries).map(text))] as const;
  });
  expect(problems(resolved, new Map(texts), systemClock.now())).toEqual([]);
});

it('runRegen() names the entry that is too large itself, and no other is concerned', async () => {
  const location = { namespace, name: 'target-3' };
  const data = { 'tls.crt': Buffer.from(foreign.slice(0, 700_000)).toString('base64'), foreign: null };
  const path = `/api/v1/namespaces/${location.namespace}/secrets/${location.name}`;
  expect(await controlPlane.admin(path, { method: 'PATCH', body: { data } })).toMatchObject({ status: 200 });
  const { left } = await heal();
  expect(left).toEqual([
    {
      artefact: 'target-3',
      message: expect.stringContaining(
        'Cannot use Secret "large-inventory/target-3": its entry "tls.crt" has 700000 bytes, 524288 at most are read',
      ) as string,
    },
  ]);
});
