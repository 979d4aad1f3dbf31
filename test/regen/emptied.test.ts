// What others take away: a bundle of theirs that was emptied takes nothing valid with it, and is named; a CA that they
// brought comes back from where it still is.
import { expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { caBundleKey } from '../../lib/inventory/content.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { regenOptions } from '../integration/regen-world.ts';
import { authority } from '../pki/authority.ts';
import { both, bundle, signer, target, theirs } from '../support/facts.ts';
import { algorithm } from '../support/faults/interleaving.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';

const copy = {
  kind: 'copy',
  name: 'copy-of-theirs',
  location: { kind: 'configMap', namespace: 'theirs', name: 'copy' },
  readers: [],
  of: theirs.name,
} satisfies ResolvedArtefact;
const given: Resolved = { name: 'given', artefacts: [theirs, signer, bundle, both, copy, target] };

const run = (store: MemoryStore, resolved = given): Promise<RegenReport> =>
  runRegen(
    regenOptions({
      resolved,
      store,
      keyPool: createKeyPool({ algorithm, size: 0 }),
      keyAlgorithm: algorithm,
      policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 0 },
    }),
  );

const textOf = (store: MemoryStore, { location }: ResolvedArtefact): string =>
  Buffer.from(store.peek(location)?.entries[caBundleKey] ?? []).toString();

it.each([
  { name: 'to ""', entries: { [caBundleKey]: Buffer.from('') }, says: 'its entry "ca-bundle.crt" is empty' },
  {
    name: 'of its entry',
    entries: { 'ca.crt': Buffer.from('x') },
    says: 'it has no entry "ca-bundle.crt", only "ca.crt"',
  },
  { name: 'of all entries', entries: {}, says: 'it has no entry "ca-bundle.crt"' },
])('a bundle of others that was emptied $name takes nothing valid with it', async ({ entries, says }) => {
  const at = systemClock.now();
  const [notBefore, notAfter] = [-3_600_000, 3_600_000].map((ms) => new Date(at.getTime() + ms)) as [Date, Date];
  const held = (await authority({ notBefore, notAfter, at })).certificate.pem.trim();
  const store = new MemoryStore();
  store.put(theirs.location, { entries: { [caBundleKey]: Buffer.from(held) }, annotations: {} });
  expect(await run(store)).toMatchObject({ converged: true });
  for (const one of [both, copy]) expect(textOf(store, one), one.name).toContain(held);
  store.put(theirs.location, { entries, annotations: {} });
  // What is composed of it is written anew for another reason.
  store.put(signer.location, undefined);
  const { artefacts } = await run(store);
  expect(textOf(store, both).match(/BEGIN/g)).toHaveLength(3);
  for (const one of [both, copy]) expect(textOf(store, one), one.name).toContain(held);
  const told = artefacts.find(({ artefact }) => artefact === theirs.name);
  expect(told).toMatchObject({ action: 'keep', reason: 'NotOurs' });
  expect(told?.message).toContain(says);
  expect(told?.message).toContain(
    'put a CA into it, or delete the ConfigMap, so that whoever maintains it makes it again',
  );
  // Nor is a copy made of nothing.
  store.put(copy.location, undefined);
  const after = await run(store);
  expect(after.artefacts.find(({ artefact }) => artefact === copy.name)).toMatchObject({
    action: 'blocked',
    err: undefined,
  });
});

it('a CA that others brought, and whose Secret was deleted, is put back from a sibling with its key', async () => {
  const at = systemClock.now();
  const [notBefore, notAfter] = [-3_600_000, 10 * 86_400_000].map((ms) => new Date(at.getTime() + ms)) as [Date, Date];
  const { certificate, key } = await authority({ commonName: 'kubernetes', notBefore, notAfter, at });
  const entries = {
    'tls.crt': Buffer.from(certificate.pem),
    'tls.key': Buffer.from(key.export({ type: 'pkcs8', format: 'pem' })),
  };
  const secret = (name: string) => ({ kind: 'secret', namespace: 'n', name }) as const;
  const sibling = { ...signer, name: 'sibling', location: secret('sibling') } as const;
  const own: Resolved = { name: 'adopted', artefacts: [signer, sibling, bundle, target] };
  const store = new MemoryStore();
  for (const { location } of [signer, sibling]) store.put(location, { entries, annotations: {} });
  expect(await run(store, own)).toMatchObject({ converged: true });
  const leaf = store.peek(target.location)?.entries;
  store.put(signer.location, undefined);
  expect(await run(store, own)).toMatchObject({ converged: true, writes: 1 });
  expect(store.peek(signer.location)?.entries).toEqual(entries);
  expect(store.peek(target.location)?.entries).toEqual(leaf);
});
