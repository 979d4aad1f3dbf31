// A small inventory in the API with every shape there is: own and shared bundles, an intermediate in a bundle of its own
// and one beside its issuer, a composed bundle, a copy. And what its readers would say of the material in a store.
import { bundlesAbove, topologicalOrder } from '../../lib/inventory/order.ts';
import type { Resolved, ResolvedArtefact, ResolvedTarget } from '../../lib/inventory/model.ts';
import { renderGeneration } from '../../lib/install/generation.ts';
import { type Certificate, parseCertificates } from '../../lib/pki/certificate.ts';
import { keyMatches, parsePrivateKey } from '../../lib/pki/key.ts';
import { verifyChain } from '../../lib/pki/verify.ts';
import { caBundleKey, certificateKey, type Found, privateKeyKey } from '../../lib/store/store.ts';
import { MemoryStore } from './memory-store.ts';

const day = 24 * 3_600_000;
const secret = (name: string) => ({ kind: 'secret', namespace: 'ns', name }) as const;
const configMap = (name: string) => ({ kind: 'configMap', namespace: 'ns', name }) as const;

function signer(name: string, days: number, issuer?: string): ResolvedArtefact {
  const lives = { validity: days * day, refresh: (days * day) / 2 };
  return { kind: 'signer', name, truth: secret(name), readers: [], ...lives, ...(issuer !== undefined && { issuer }) };
}

function bundle(name: string, ...signers: readonly string[]): ResolvedArtefact {
  return { kind: 'caBundle', name, truth: configMap(name), readers: [], signers };
}

function target(name: string, issuer: string, usage: ResolvedTarget['usage']): ResolvedArtefact {
  const hostnames = usage === 'client' ? [] : ['localhost'];
  const row = { kind: 'target', name, truth: secret(name), readers: [], issuer, usage } as const;
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
    truth: configMap('all-ca'),
    readers: [],
    inputs: ['root-ca', 'middle-ca', 'long-ca'],
  },
  { kind: 'copy', name: 'all-ca-copy', truth: configMap('all-ca-copy'), readers: [], of: 'all-ca' },
  target('serving', 'root', 'serving'),
  target('middle-client', 'middle', 'client'),
  target('sub-serving', 'sub', 'serving'),
  target('long-peer', 'long', 'peer'),
]);

export const shared: Resolved = { name: 'shared', artefacts: ordered };

/** Everything made at `now`. */
export async function sharedGeneration(now: Date): Promise<MemoryStore> {
  const store = new MemoryStore();
  const { made } = await renderGeneration({ resolved: shared, now, keyAlgorithm: { name: 'ECDSA', curve: 'P-256' } });
  for (const { artefact, material } of made) store.put(artefact.truth, material);
  return store;
}

const parsed = new WeakMap<Found, readonly Certificate[]>();

/** Nothing where it is absent or broken. */
function certificates(store: MemoryStore, { truth, name }: ResolvedArtefact): readonly Certificate[] {
  const found = store.peek(truth);
  if (found === undefined) return [];
  const known = parsed.get(found);
  if (known !== undefined) return known;
  let all: readonly Certificate[] = [];
  try {
    all = parseCertificates(found.entries[certificateKey] ?? found.entries[caBundleKey] ?? new Uint8Array(), name);
  } catch {
    // broken: readers have nothing
  }
  parsed.set(found, all);
  return all;
}

/** Every file by which a reader may check an artefact: the bundles above it, and what is composed or copied of them. */
function trustOf(artefact: ResolvedArtefact): readonly ResolvedArtefact[] {
  const row = artefact.kind === 'target' || artefact.kind === 'signer' ? artefact : undefined;
  const trust: ResolvedArtefact[] = row === undefined ? [] : [...bundlesAbove(shared.artefacts, row)];
  for (const other of shared.artefacts) {
    const of = other.kind === 'composedBundle' ? other.inputs : other.kind === 'copy' ? [other.of] : [];
    if (trust.some(({ name }) => of.includes(name))) trust.push(other);
  }
  return trust;
}

const readings = shared.artefacts.flatMap((artefact) => trustOf(artefact).map((trust) => ({ artefact, trust })));

/** By pair and file of trust, all or of the leaves and files that `touching` is: why a reader would refuse it, if so. */
export function refusals(
  store: MemoryStore,
  at: Date,
  touching?: ResolvedArtefact,
): ReadonlyMap<string, string | undefined> {
  const asked = readings.filter(
    ({ artefact, trust }) =>
      touching === undefined || (artefact.kind === 'target' && (artefact === touching || trust === touching)),
  );
  return new Map(
    asked.map(({ artefact, trust }) => {
      const [leaf, ...intermediates] = certificates(store, artefact);
      const roots = certificates(store, trust);
      const usage = artefact.kind !== 'target' ? {} : { usage: usageOf(artefact) };
      const answer = leaf && verifyChain({ leaf, intermediates, roots, at, ...usage });
      const refusal = answer === undefined ? 'it is not there' : answer.ok ? undefined : answer.reason;
      return [`${artefact.name} by ${trust.name}`, refusal];
    }),
  );
}

function usageOf({ usage }: ResolvedTarget): 'clientAuth' | 'serverAuth' {
  return usage === 'client' ? 'clientAuth' : 'serverAuth';
}

const rows = (names: readonly string[]): ResolvedArtefact[] =>
  shared.artefacts.filter(({ name }) => names.includes(name));

/** What is not as it should be at the end, by name. */
export function unsound(store: MemoryStore, at: Date): string[] {
  const refused = [...refusals(store, at)]
    .filter(([, refusal]) => refusal !== undefined)
    .map((entry) => entry.join(': '));
  const wrong = shared.artefacts.flatMap((row) => {
    const found = store.peek(row.truth);
    const [first] = certificates(store, row);
    if (found === undefined || first === undefined) return [`${row.name}: not there`];
    switch (row.kind) {
      case 'signer':
      case 'target':
        if (first.facts.notAfter <= at || at < first.facts.notBefore) return [`${row.name}: not valid`];
        return keyMatches(first, parsePrivateKey(found.entries[privateKeyKey] ?? new Uint8Array(), row.name))
          ? []
          : [`${row.name}: not its key`];
      case 'caBundle':
      case 'composedBundle': {
        const held = new Set(certificates(store, row).map(({ facts }) => facts.fingerprint));
        const wanted =
          row.kind === 'caBundle'
            ? rows(row.signers).flatMap((one) => certificates(store, one).slice(0, 1))
            : rows(row.inputs).flatMap((one) => certificates(store, one));
        return wanted.filter(({ facts }) => facts.notAfter > at).every(({ facts }) => held.has(facts.fingerprint))
          ? []
          : [`${row.name}: short`];
      }
      case 'copy': {
        const [original] = rows([row.of]);
        const bytes = original && store.peek(original.truth)?.entries[caBundleKey];
        return Buffer.from(bytes ?? []).equals(found.entries[caBundleKey] ?? Buffer.of())
          ? []
          : [`${row.name}: differs`];
      }
      case 'kubeconfigs':
      case 'keyPair':
      case 'given':
      case 'opaque':
        return [];
    }
  });
  return [...refused, ...wrong];
}
