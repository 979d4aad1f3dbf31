// What is made of what others maintain, what OpenShift calls its signers, and what is said about objects in its registry.
import { expect, test } from 'vitest';
import type { Resolved, ResolvedArtefact, Signer } from '../../lib/inventory/model.ts';
import { make } from '../../lib/issue/issue.ts';
import { generateKey } from '../../lib/pki/key.ts';
import type { Material } from '../../lib/store/store.ts';
import { both, bundle, signer, target, theirs } from '../support/facts.ts';

const day = 24 * 3_600_000;
const now = new Date('2026-06-01T00:00:00Z');
const takeKey = () => generateKey({ name: 'ECDSA', curve: 'P-256' });
const place = (name: string) => ({ kind: 'configMap', namespace: 'theirs', name }) as const;
const copy = {
  kind: 'copy',
  name: 'copy',
  location: { kind: 'secret', namespace: 'n', name: 'copy' },
  readers: [],
  of: 'signer',
} satisfies ResolvedArtefact;
const resolved: Resolved = { name: 'm', artefacts: [theirs, signer, bundle, both, copy, target] };

const bundleOf = (...pems: readonly string[]): Material => ({
  entries: { 'ca-bundle.crt': Buffer.from(pems.join('')) },
  annotations: {},
});

async function made(): Promise<Map<string, Material>> {
  const material = new Map<string, Material>();
  for (const row of [signer, bundle, target])
    material.set(row.name, await make(row, { resolved, material, takeKey, now }));
  return material;
}

async function authority(at: Date): Promise<string> {
  const { certificates } = await make(signer, { resolved, material: new Map(), takeKey, now: at });
  return certificates[0]?.pem ?? '';
}

test('a composed bundle has what is given, each certificate once and no expired one', async () => {
  const material = await made();
  const [good, old] = [await authority(now), await authority(new Date(now.getTime() - 100 * day))];
  const own = String(Buffer.from(material.get('bundle')?.entries['ca-bundle.crt'] ?? []));
  material.set('theirs', bundleOf(good, old, good, own));
  const { certificates } = await make(both, { resolved, material, takeKey, now });
  expect(certificates.map(({ pem }) => pem).toSorted()).toEqual([good, own].toSorted());
});

test('a composed bundle does without what is given and absent, empty or broken', async () => {
  const material = await made();
  const own = (await make(both, { resolved, material, takeKey, now, lost: (name) => name === 'theirs' })).certificates;
  expect(own).toHaveLength(1);
  for (const text of ['', 'garbage', `${(await authority(now)).slice(0, 100)}\n`]) {
    material.set('theirs', bundleOf(text));
    const { certificates } = await make(both, { resolved, material, takeKey, now });
    expect(certificates.map(({ pem }) => pem)).toEqual(own.map(({ pem }) => pem));
  }
});

test('a composed bundle keeps what it has of what is given and broken now, and not of what is gone', async () => {
  const material = await made();
  const other = await authority(now);
  const lost = (name: string): boolean => name === 'theirs';
  const own = String(Buffer.from(material.get('bundle')?.entries['ca-bundle.crt'] ?? []));
  material.set('both', bundleOf(own, other));
  expect((await make(both, { resolved, material, takeKey, now, lost })).certificates).toHaveLength(1);
  material.set('theirs', bundleOf('garbage'));
  expect((await make(both, { resolved, material, takeKey, now, lost })).certificates).toHaveLength(2);
});

test('a copy of a signer holds its first certificate only', async () => {
  const material = await made();
  const entries = material.get('signer')?.entries ?? {};
  const [first, second] = [String(Buffer.from(entries['tls.crt'] ?? [])), await authority(now)];
  material.set('signer', { entries: { ...entries, 'tls.crt': Buffer.from(first + second) }, annotations: {} });
  const { entries: copied } = await make(copy, { resolved, material, takeKey, now });
  expect(String(Buffer.from(copied['tls.crt'] ?? []))).toBe(first);
  expect(copied['tls.key']).toEqual(entries['tls.key']);
});

test('a signer has the name that it is given, and names may be longer than 64 characters', async () => {
  const issued = await make(
    { ...signer, commonName: 'kube-csr-signer' },
    { resolved, material: new Map(), takeKey, now },
  );
  expect(issued.certificates[0]?.facts.commonName).toBe(`kube-csr-signer_@${now.getTime() / 1000}`);

  const long: Signer = {
    ...signer,
    location: {
      kind: 'secret',
      namespace: 'openshift-kube-apiserver-operator',
      name: 'kube-apiserver-to-kubelet-signer',
    },
  };
  const rows: Resolved = { name: 'long', artefacts: [long, bundle, target] };
  const material = new Map<string, Material>();
  for (const row of rows.artefacts) material.set(row.name, await make(row, { resolved: rows, material, takeKey, now }));
  const leaf = await make(target, { resolved: rows, material, takeKey, now });
  const name = `openshift-kube-apiserver-operator_kube-apiserver-to-kubelet-signer@${now.getTime() / 1000}`;
  expect(name.length).toBeGreaterThan(64);
  expect(leaf.annotations['auth.openshift.io/certificate-issuer']).toBe(name);
});

test('objects are known in the registry by type, owner, purpose and refresh time', async () => {
  const tlsRegistry = { owningComponent: 'kube-apiserver', autoRegenerateAfterOfflineExpiry: 'https://example.com/1' };
  const described = { ...target, description: 'For a test.' };
  const rows: Resolved = { name: 'registry', tlsRegistry, artefacts: [theirs, signer, bundle, both, copy, described] };
  const material = await made();
  const metadata = async (row: ResolvedArtefact): Promise<Material['metadata']> =>
    (await make(row, { resolved: rows, material, takeKey, now })).metadata;
  const label = (type: string): Record<string, string> => ({ 'auth.openshift.io/managed-certificate-type': type });
  const owner = { 'openshift.io/owning-component': 'kube-apiserver' };
  const offline = { 'certificates.openshift.io/auto-regenerate-after-offline-expiry': 'https://example.com/1' };
  expect(await metadata(signer)).toEqual({
    labels: label('signer'),
    annotations: { ...owner, ...offline, 'certificates.openshift.io/refresh-period': '720h0m0s' },
  });
  expect(await metadata(bundle)).toEqual({ labels: label('ca-bundle'), annotations: { ...owner, ...offline } });
  expect(await metadata(both)).toEqual({ labels: {}, annotations: owner });
  expect(await metadata(copy)).toEqual(await metadata(signer));
  expect(await metadata(described)).toMatchObject({
    labels: label('target'),
    annotations: { 'openshift.io/description': 'For a test.', 'certificates.openshift.io/refresh-period': '360h0m0s' },
  });
});

test('a copy of a copy that has just been made says whose it is, as the original of others does', async () => {
  const copyOf = (name: string, of: string) =>
    ({ kind: 'copy', name, location: place(name), readers: [], of }) satisfies ResolvedArtefact;
  const [first, second] = [copyOf('first', 'theirs'), copyOf('second', 'first')];
  const tlsRegistry = { owningComponent: 'kube-apiserver' };
  const rows: Resolved = { name: 'registry', tlsRegistry, artefacts: [theirs, first, second] };
  const owner = { 'openshift.io/owning-component': 'kube-controller-manager' };
  const given = { ...bundleOf(await authority(now)), annotations: { ...owner, other: 'not said' } };
  const material = new Map<string, Material>([['theirs', given]]);
  for (const row of [first, second]) {
    material.set(row.name, await make(row, { resolved: rows, material, takeKey, now }));
    expect(material.get(row.name)?.metadata?.annotations, row.name).toEqual(owner);
  }
});
