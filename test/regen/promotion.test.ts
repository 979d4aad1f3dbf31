// A signer and its promoted copy, with real keys and certificates: what is read of a copy, and that bytes follow when
// the plan says so. The store is in memory; the machine's clock plays no part.
import { beforeEach, describe, expect, it } from 'vitest';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { type Gathered, gather } from '../../lib/plan/gather.ts';
import { plan } from '../../lib/plan/plan.ts';
import { execute } from '../../lib/regen/execute.ts';
import type { Entries, Material } from '../../lib/store/store.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';

const minute = 60_000;
const p256 = { name: 'ECDSA', curve: 'P-256' } as const;
const start = new Date('2026-06-01T12:00:00Z');
const later = (ms: number): Date => new Date(start.getTime() + ms);

const preset = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: [] } });
const names = ['csr-signer-signer', 'csr-controller-signer-ca', 'next-csr-signer', 'csr-signer-ca', 'csr-signer'];
const resolved = { name: 'csr', artefacts: preset.artefacts.filter(({ name }) => names.includes(name)) };

let store: MemoryStore;
beforeEach(async () => {
  store = new MemoryStore();
  expect(await pass(start)).toEqual(names);
});

const look = (now: Date): Promise<Gathered> =>
  gather({ resolved, store, signal: AbortSignal.timeout(5000), now, previous: new Map() });

/** One look and what follows from it; the names of what was written, in that order. */
async function pass(now: Date): Promise<string[]> {
  const gathered = await look(now);
  const written: string[] = [];
  await execute({
    resolved,
    plan: plan({
      resolved,
      facts: gathered.facts,
      policy: { kind: 'BeforeExpiry', graceMs: minute, settleMs: 0 },
      clock: { builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: true },
      now,
    }),
    gathered,
    store,
    keys: createKeyPool({ algorithm: p256, size: 1 }),
    keyAlgorithm: p256,
    now,
    signal: AbortSignal.timeout(5000),
    onStep: ({ artefact, outcome }) => written.push(outcome === 'written' ? artefact.name : outcome),
  });
  return written;
}

function row(name: string): ResolvedArtefact {
  const found = resolved.artefacts.find((one) => one.name === name);
  return found ?? expect.fail(`no row ${name}`);
}
const bytes = (name: string): Entries => store.peek(row(name).location)?.entries ?? expect.fail(`no ${name}`);
const put = (name: string, material: Material | undefined): void => store.put(row(name).location, material);
const material = (entries: Entries): Material => ({ entries, annotations: {} });

describe('a CSR signer that is promoted', () => {
  it('is made with its original, in the order of the plan', () => {
    expect(bytes('csr-signer')).toEqual(bytes('next-csr-signer'));
  });

  it('stays while a new one is young, and follows it after five minutes', async () => {
    const first = bytes('csr-signer');
    put('next-csr-signer', undefined);
    expect(await pass(start)).toEqual(['next-csr-signer', 'csr-signer-ca']);
    expect(await pass(later(5 * minute - 1))).toEqual([]);
    expect(bytes('csr-signer')).toEqual(first);
    expect(await pass(later(5 * minute))).toEqual(['csr-signer']);
    expect(bytes('csr-signer')).toEqual(bytes('next-csr-signer'));
    expect(bytes('csr-signer')).not.toEqual(first);
    expect(await pass(later(6 * minute))).toEqual([]);
  });

  it('follows at once when all has expired', async () => {
    const year = later(365 * 24 * 60 * minute);
    expect(await pass(year)).toEqual(names);
    expect(bytes('csr-signer')).toEqual(bytes('next-csr-signer'));
    expect(await pass(year)).toEqual([]);
  });

  it('follows at once where its key is that of another', async () => {
    const { 'tls.key': key = Buffer.of() } = bytes('csr-signer-signer');
    put('csr-signer', material({ ...bytes('csr-signer'), 'tls.key': key }));
    expect((await look(start)).facts.get('csr-signer')).toMatchObject({ state: 'broken', problem: 'mismatchedPair' });
    expect(await pass(start)).toEqual(['csr-signer']);
  });

  it('follows at once where it is torn', async () => {
    const { 'tls.crt': cert = Buffer.of(), ...rest } = bytes('csr-signer');
    put('csr-signer', material({ ...rest, 'tls.crt': cert.subarray(0, cert.length / 2) }));
    expect((await look(start)).facts.get('csr-signer')).toMatchObject({ state: 'broken', problem: 'unreadable' });
    expect(await pass(start)).toEqual(['csr-signer']);
  });

  it('is known by its certificate and who has signed it', async () => {
    const { facts } = await look(start);
    const [copy, original, root] = ['csr-signer', 'next-csr-signer', 'csr-signer-signer'].map((name) => {
      const fact = facts.get(name);
      return fact?.state === 'present' ? fact.certificates[0] : undefined;
    });
    expect(copy).toMatchObject({ isCa: true, signedBy: [root?.fingerprint] });
    expect(copy).toEqual(original);
  });
});
