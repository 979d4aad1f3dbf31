// A small inventory in the API with every shape there is: own and shared bundles, an intermediate in a bundle of its own
// and one beside its issuer, a composed bundle, a copy.
import { makeGeneration } from '../../../lib/install/first-generation.ts';
import type { Resolved, ResolvedArtefact, ResolvedTarget } from '../../../lib/inventory/model.ts';
import { topologicalOrder } from '../../../lib/inventory/order.ts';
import { MemoryStore } from '../stories/memory-store.ts';

const day = 24 * 3_600_000;
const secret = (name: string) => ({ kind: 'secret', namespace: 'ns', name }) as const;
const configMap = (name: string) => ({ kind: 'configMap', namespace: 'ns', name }) as const;

function signer(name: string, days: number, issuer?: string): ResolvedArtefact {
  const lives = { validity: days * day, refresh: (days * day) / 2 };
  return {
    kind: 'signer',
    name,
    location: secret(name),
    readers: [],
    ...lives,
    ...(issuer !== undefined && { issuer }),
  };
}

function bundle(name: string, ...signers: readonly string[]): ResolvedArtefact {
  return { kind: 'caBundle', name, location: configMap(name), readers: [], signers };
}

function target(name: string, issuer: string, usage: ResolvedTarget['usage']): ResolvedArtefact {
  const hostnames = usage === 'client' ? [] : ['localhost'];
  const row = { kind: 'target', name, location: secret(name), readers: [], issuer, usage } as const;
  return { ...row, commonName: name, organizations: [], hostnames, validity: 30 * day, refresh: 15 * day };
}

const { ordered } = topologicalOrder<ResolvedArtefact>([
  signer('root', 60),
  bundle('root-ca', 'root'),
  signer('middle', 45, 'root'),
  bundle('middle-ca', 'middle'),
  signer('top', 90),
  signer('sub', 40, 'top'),
  bundle('both-ca', 'top', 'sub'),
  signer('long', 365),
  bundle('long-ca', 'long', 'root'),
  {
    kind: 'composedBundle',
    name: 'all-ca',
    location: configMap('all-ca'),
    readers: [],
    inputs: ['root-ca', 'middle-ca', 'long-ca'],
  },
  { kind: 'copy', name: 'all-ca-copy', location: configMap('all-ca-copy'), readers: [], of: 'all-ca' },
  target('serving', 'root', 'serving'),
  target('middle-client', 'middle', 'client'),
  target('sub-serving', 'sub', 'serving'),
  target('long-peer', 'long', 'peer'),
]);

export const shared: Resolved = { name: 'shared', artefacts: ordered };

/** Everything made at `now`. */
export async function sharedGeneration(now: Date): Promise<MemoryStore> {
  const store = new MemoryStore();
  const made = makeGeneration({ resolved: shared, now, keyAlgorithm: { name: 'ECDSA', curve: 'P-256' } });
  for await (const { artefact, material } of made) store.put(artefact.location, material);
  return store;
}
