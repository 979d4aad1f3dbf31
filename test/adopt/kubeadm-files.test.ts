// What files of kubeadm say beyond the inventory; certificates by openssl.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { requireTrustInFiles } from '../../lib/adopt/guard.ts';
import { asPresent } from '../../lib/adopt/kubeadm-files.ts';
import type { ResolvedTarget } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { Material } from '../../lib/store/store.ts';
import { toYaml } from '../../lib/yaml.ts';
import { createAuthority, createLeaf, type LeafOptions, type Pair } from '../support/certificates/certificates.ts';

const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.com'] } });
const { signal } = new AbortController();
let root: string;
let authority: Pair;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'adopt-present-'));
  authority = await createAuthority(join(root, 'ca'), { commonName: 'kubernetes' });
});
afterEach(() => rm(root, { recursive: true, force: true }));

async function targetNow(name: string): Promise<ResolvedTarget | undefined> {
  const { artefacts } = await asPresent(resolved, { kubernetesDir: root, pkiDir: join(root, 'pki') }, signal);
  return artefacts.find((one): one is ResolvedTarget => one.kind === 'target' && one.name === name);
}

async function adminConf(leaf: LeafOptions): Promise<void> {
  const { cert, key } = await createLeaf(join(root, 'admin'), authority, leaf);
  const [certificate, privateKey] = await Promise.all([readFile(cert, 'base64'), readFile(key, 'base64')]);
  const user = { 'client-certificate-data': certificate, 'client-key-data': privateKey };
  const named = { cluster: 'c', user: 'u' };
  await writeFile(
    join(root, 'admin.conf'),
    toYaml({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: 'https://192.0.2.10:6443' } }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'x', context: named }],
      'current-context': 'x',
    }),
  );
}

test('asPresent() adds the names of the serving certificate on disk to those declared', async () => {
  await mkdir(join(root, 'pki'));
  const names = { dnsNames: ['node1', 'by-hand.example.com'], ipAddresses: ['2001:db8::10'] };
  const leaf = await createLeaf(join(root, 'serving'), authority, { commonName: 'kube-apiserver', ...names });
  await writeFile(join(root, 'pki/apiserver.crt'), await readFile(leaf.cert));
  const { hostnames = [] } = (await targetNow('kube-apiserver-serving')) ?? {};
  expect(hostnames).toEqual(
    expect.arrayContaining(['2001:db8::10', 'api.example.com', 'by-hand.example.com', 'kubernetes', 'node1']),
  );
});

test.each([
  ['valid', {}],
  ['expired', { notBefore: new Date('2020-01-01'), notAfter: new Date('2021-01-01') }],
])('asPresent() gives the administrator the rights that a certificate has that is %s', async (_, dates) => {
  await adminConf({ commonName: 'kubernetes-admin', organization: 'kubeadm:cluster-admins', ...dates });
  expect(await targetNow('admin-client')).toMatchObject({ organizations: ['kubeadm:cluster-admins'] });
});

test('asPresent() leaves declarations as they are where there is nothing, but for the rights of the administrator', async () => {
  const present = await asPresent(resolved, { kubernetesDir: root, pkiDir: root }, signal);
  const different = present.artefacts.filter((artefact, at) => !isDeepStrictEqual(artefact, resolved.artefacts[at]));
  expect(different).toMatchObject([{ name: 'admin-client', organizations: ['kubeadm:cluster-admins'] }]);
});

test('requireTrustInFiles() refuses a way back that a replaced CA would cut off, and says by whom', async () => {
  const other = await createAuthority(join(root, 'other'), { commonName: 'kubernetes-2' });
  const gone = { notBefore: new Date('2020-01-01'), notAfter: new Date('2021-01-01') };
  const former = await createAuthority(join(root, 'former'), { commonName: 'kubernetes-0', ...gone });
  const [own, new_, old] = await Promise.all([authority, other, former].map(({ cert }) => readFile(cert)));
  if (own === undefined || new_ === undefined || old === undefined) throw new Error('no CA');
  const bundleOf = (...pems: Buffer[]): Material => ({
    entries: { 'ca-bundle.crt': Buffer.concat(pems) },
    annotations: {},
  });
  const files = new Map([['ca.crt', own]]);
  const now = new Date();
  const material = new Map([
    ['client-ca', bundleOf(old, own)],
    ['kube-apiserver-serving-ca', bundleOf(own)],
  ]);
  requireTrustInFiles(resolved, material, files, now);
  for (const artefact of ['client-ca', 'kube-apiserver-serving-ca']) {
    expect(() =>
      requireTrustInFiles(resolved, new Map(material).set(artefact, bundleOf(own, new_)), files, now),
    ).toThrow(
      /"ca\.crt" lacks "CN=kubernetes-2" \(until .*\), whom the cluster trusts now .*Leave this machine adopted, or/,
    );
  }
  // Nothing is known of a cluster whose objects are gone.
  requireTrustInFiles(resolved, new Map(), files, now);
});
