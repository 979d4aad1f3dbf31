// Which key a new certificate gets, and that a target is made after its newest backup where nothing else is left. Real
// keys and certificates; the store is in memory and keeps one backup of each location.
import { beforeAll, describe, expect, test } from 'vitest';
import type { Location, Resolved, ResolvedTarget, Signer } from '../../lib/inventory/model.ts';
import { make } from '../../lib/issue/issue.ts';
import type { CertificateFacts } from '../../lib/pki/certificate.ts';
import type { KeyAlgorithm } from '../../lib/pki/key.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { gather } from '../../lib/plan/gather.ts';
import { plan } from '../../lib/plan/plan.ts';
import { execute } from '../../lib/regen/execute.ts';
import type { Found, Material } from '../../lib/store/store.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';

const now = new Date('2026-06-01T12:00:00Z');
const day = 86_400_000;
const p256: KeyAlgorithm = { name: 'ECDSA', curve: 'P-256' };
const p384: KeyAlgorithm = { name: 'ECDSA', curve: 'P-384' };
const p521: KeyAlgorithm = { name: 'ECDSA', curve: 'P-521' };
const rsa: KeyAlgorithm = { name: 'RSA', bits: 2048 };

const ca: Signer = {
  kind: 'signer',
  name: 'ca',
  owned: false,
  location: { kind: 'pemPair', certFile: '/pki/ca.crt', keyFile: '/pki/ca.key' },
  readers: [],
  validity: 100 * day,
  refresh: 80 * day,
};
const present: ResolvedTarget = {
  kind: 'target',
  name: 'client',
  location: { kind: 'pemPair', certFile: '/pki/client.crt', keyFile: '/pki/client.key' },
  readers: [],
  issuer: 'ca',
  template: 'present',
  usage: 'client',
  commonName: 'declared',
  organizations: [],
  hostnames: [],
  validity: 30 * day,
  refresh: 15 * day,
};
const { template: _, ...declared } = present;

class KeptStore extends MemoryStore {
  kept: Found | undefined;

  backup(location: Location): Promise<Found | undefined> {
    return Promise.resolve(location === present.location ? this.kept : undefined);
  }
}

let authority: Material;
/** A client certificate that has expired, with a key of P-384. */
let old: Material;
beforeAll(async () => {
  const material = new Map<string, Material>();
  const resolved: Resolved = { name: 'm', artefacts: [ca, present] };
  authority = await make(ca, { resolved, material, takeKey: () => generateKey(p256), now: new Date(+now - 60 * day) });
  material.set('ca', authority);
  const named = { ...present, commonName: 'old' };
  old = await make(named, { resolved, material, takeKey: () => generateKey(p384), now: new Date(+now - 50 * day) });
});

interface Given {
  readonly target?: ResolvedTarget;
  readonly there?: Material;
  readonly kept?: Material;
  readonly keyAlgorithm?: KeyAlgorithm;
}

async function renewed({ target = present, there, kept, keyAlgorithm }: Given): Promise<CertificateFacts | undefined> {
  const store = new KeptStore();
  store.put(ca.location, authority);
  store.put(target.location, there);
  store.kept = kept && { ...kept, version: 'kept' };
  const resolved: Resolved = { name: 'm', artefacts: [ca, target] };
  const signal = AbortSignal.timeout(5000);
  const gathered = await gather({ resolved, store, signal, now });
  const policy = { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 0 } as const;
  const clock = { builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: true };
  const made = await execute({
    resolved,
    plan: plan({ resolved, facts: gathered.facts, policy, clock, now }),
    gathered,
    store,
    keys: createKeyPool({ algorithm: rsa, size: 1 }),
    ...(keyAlgorithm !== undefined && { keyAlgorithm }),
    now,
    signal,
  });
  expect(made.map(({ artefact, outcome }) => [artefact.name, outcome])).toEqual([['client', 'written']]);
  return made[0]?.certificates?.[0]?.facts;
}

describe('execute() takes a key', () => {
  const garbage: Material = { entries: { 'tls.crt': Buffer.from('garbage') }, annotations: {} };
  const torn = (): Material => ({ ...old, entries: { ...old.entries, 'tls.key': Buffer.from('garbage') } });
  test.each<[string, () => Given, Partial<CertificateFacts>]>([
    ['as it is configured', () => ({ there: old, keyAlgorithm: p521 }), { key: p521, commonName: 'old' }],
    ['like that of what is replaced', () => ({ there: old }), { key: p384, commonName: 'old' }],
    ['also when that has lost its own', () => ({ there: torn() }), { key: p384, commonName: 'old' }],
    ['like that of the newest backup', () => ({ there: garbage, kept: old }), { key: p384, commonName: 'old' }],
    ['also when nothing is there', () => ({ kept: old }), { key: p384, commonName: 'old' }],
    ['like that of its issuer', () => ({}), { key: p256, commonName: 'declared' }],
    ['of RSA-2048 for what is declared', () => ({ target: declared }), { key: rsa, commonName: 'declared' }],
  ])('%s', async (_name, given, wanted) => {
    expect(await renewed(given())).toMatchObject(wanted);
  });
});
