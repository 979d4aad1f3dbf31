// Where the parts of a new certificate come from.
import { expect, test } from 'vitest';
import type { Resolved, ResolvedTarget } from '../../lib/inventory/model.ts';
import { make } from '../../lib/issue/issue.ts';
import { generateKey } from '../../lib/pki/key.ts';
import type { Material } from '../../lib/store/store.ts';
import { bundle, chain, signer, target } from '../support/facts.ts';

const now = new Date('2026-06-01T00:00:00Z');
const takeKey = () => generateKey({ name: 'ECDSA', curve: 'P-256' });
const resolved: Resolved = { name: 'm', artefacts: [signer, bundle, target] };

async function made(): Promise<Map<string, Material>> {
  const material = new Map<string, Material>();
  for (const artefact of resolved.artefacts) {
    material.set(artefact.name, await make(artefact, { resolved, material, takeKey, now }));
  }
  return material;
}

const renamed = (...hostnames: readonly string[]): ResolvedTarget => ({ ...target, hostnames });

test('make() keeps the names of the serving certificate that is there, so that two machines agree in the end', async () => {
  const material = await made();
  for (const artefact of [renamed('node-a', 'localhost'), renamed('node-b', 'localhost')]) {
    material.set('target', await make(artefact, { resolved, material, takeKey, now }));
  }
  const { certificates } = await make(renamed('node-a', 'localhost'), { resolved, material, takeKey, now });
  expect(certificates[0]?.facts.hostnames).toEqual(['127.0.0.1', 'localhost', 'node-a', 'node-b']);
});

test('make() takes the declared names alone when what is there cannot be read', async () => {
  const material = await made();
  material.set('target', { entries: { 'tls.crt': Buffer.from('garbage') }, annotations: {} });
  const { certificates } = await make(target, { resolved, material, takeKey, now });
  expect(certificates[0]?.facts.hostnames).toEqual(
    chain.artefacts.flatMap((row) => (row.kind === 'target' ? row.hostnames : [])),
  );
});

test('make() keeps every whole certificate of a bundle in which one block is torn', async () => {
  const material = await made();
  const former = (await make(signer, { resolved, material, takeKey, now })).certificates[0]?.pem ?? '';
  const held = String(Buffer.from(material.get('bundle')?.entries['ca-bundle.crt'] ?? []));
  const torn = `${held}${former}${former.split('\n').slice(0, 4).join('\n')}\n`;
  material.set('bundle', { entries: { 'ca-bundle.crt': Buffer.from(torn) }, annotations: {} });
  const { certificates } = await make(bundle, { resolved, material, takeKey, now });
  expect(certificates.length).toBe(2);
  expect(certificates.map(({ pem }) => pem.trim())).toContain(former.trim());
});

test('make() gives a client that keeps its subject the rights of the one that is there, and else those declared', async () => {
  const material = await made();
  const client: ResolvedTarget = {
    ...target,
    usage: 'client',
    commonName: 'kubernetes-admin',
    organizations: ['system:masters'],
    hostnames: [],
  };
  const there = { ...client, commonName: 'somebody', organizations: ['kubeadm:cluster-admins'] };
  const subjectOf = async (artefact: ResolvedTarget): Promise<string | undefined> =>
    (await make(artefact, { resolved, material, takeKey, now })).certificates[0]?.fields.subject.text;
  const declared = await subjectOf(client);
  material.set('target', await make(there, { resolved, material, takeKey, now }));
  const kept = await subjectOf({ ...client, keepsSubject: true });
  expect([declared, kept]).toEqual(['CN=kubernetes-admin,O=system:masters', 'CN=somebody,O=kubeadm:cluster-admins']);
  expect(await subjectOf(client)).toBe(declared);
  material.set('target', { entries: { 'tls.crt': Buffer.from('garbage') }, annotations: {} });
  expect(await subjectOf({ ...client, keepsSubject: true })).toBe(declared);
});
