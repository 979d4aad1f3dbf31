// What discovery makes of the manifests and the CAs of an adopted machine.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containerName } from '../../lib/install/own-container.ts';
import { type KubeletTrust, readByAdopted, signingProblem } from '../../lib/inventory/discover/adopted.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { toYaml } from '../../lib/yaml.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';

const pki = '/etc/kubernetes/pki';
const own = '/etc/kubernetes/kube-cert-recovery/kube-apiserver/certs';
const pod = (...containers: readonly (readonly string[])[]): string =>
  toYaml({ spec: { containers: containers.map(([name = '', ...args]) => ({ name, command: [name, ...args] })) } });
const component = [
  'kube-apiserver',
  `--tls-cert-file=${pki}/apiserver.crt`,
  `--etcd-certfile=${pki}/apiserver-etcd-client.crt`,
  `--tls-cert-file=${own}/secrets/serving/tls.crt`,
];

describe('readByAdopted()', () => {
  it('takes the last value of each flag, wherever our container stands', () => {
    for (const containers of [
      [component, [containerName]],
      [[containerName], component],
    ]) {
      expect(readByAdopted({ 'kube-apiserver': pod(...containers) })).toEqual({
        'kube-apiserver': [`${own}/secrets/serving/tls.crt`, `${pki}/apiserver-etcd-client.crt`],
      });
    }
  });

  it.each([
    ['absent', undefined],
    ['as kubeadm wrote it', pod(component)],
    ['garbage', `\0${containerName}: [`],
    ['one that only speaks of us', `# ${containerName}\n${pod(component)}`],
  ])('knows nothing of a manifest that is %s', (_, text) => {
    expect(readByAdopted({ 'kube-apiserver': text })).toEqual({});
  });
});

describe('resolve() on an adopted machine', () => {
  const parameters = { nodeName: ['node-1'] };
  const readers = (reads: Readonly<Record<string, readonly string[]>>) =>
    Object.fromEntries(
      resolve(loadPreset('kubeadm'), { parameters, reads }).artefacts.map((row) => [
        row.name,
        row.readers.map((reader) => reader.component),
      ]),
    );

  it('leaves no reader to what no flag names, and every row where it was', () => {
    const before = readers({});
    const after = readers(readByAdopted({ 'kube-apiserver': pod(component, [containerName]) }));
    expect(Object.keys(after)).toEqual(Object.keys(before));
    expect(before['apiserver']).toEqual(['kube-apiserver']);
    expect(after['apiserver']).toEqual([]);
    expect(after['apiserver-etcd-client']).toEqual(['kube-apiserver']);
    // Components whose manifest is kubeadm's, and those that are no static pods, read as ever.
    for (const name of ['controller-manager.conf', 'etcd-server', 'kubelet.conf'])
      expect(after[name]).toEqual(before[name]);
    expect(after['ca']).toEqual(['kube-controller-manager', 'kubelet']);
  });

  it('has no row for the kubelet where its CA is not trusted', () => {
    const names = (lacks: readonly 'trustedAuthority'[]): readonly string[] =>
      resolve(loadPreset('kubeadm'), { parameters, lacks }).artefacts.map(({ name }) => name);
    expect(names([])).toContain('kubelet.conf');
    expect(names(['trustedAuthority'])).toEqual(names([]).filter((name) => name !== 'kubelet.conf'));
  });
});

describe('signingProblem()', () => {
  let scratch: string;
  let same: KubeletTrust;
  let other: string;
  let servedByOther: string;
  const kubeconfig = (cluster: object): string =>
    JSON.stringify({
      clusters: [{ name: 'c', cluster: { server: 'https://10.0.0.1:6443', ...cluster } }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    });
  const embedding = (pem = ''): string =>
    kubeconfig({ 'certificate-authority-data': Buffer.from(pem).toString('base64') });

  beforeAll(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'trust-'));
    const make = async (name: string): Promise<{ ca: string; leaf: string }> => {
      const ca = await createAuthority(await mkdtemp(join(scratch, 'ca-')), { commonName: 'kubernetes' });
      const leaf = await createLeaf(await mkdtemp(join(scratch, 'leaf-')), ca, {
        commonName: name,
        dnsNames: [name],
        notBefore: new Date('2025-01-01T00:00:00Z'),
        notAfter: new Date('2025-02-01T00:00:00Z'),
      });
      return { ca: await readFile(ca.cert, 'utf8'), leaf: await readFile(leaf.cert, 'utf8') };
    };
    const [one, two] = [await make('one'), await make('two')];
    other = two.ca;
    servedByOther = two.leaf;
    same = {
      authority: one.ca,
      clientAuthorities: two.ca + one.ca,
      served: one.leaf,
      kubeletKubeconfig: embedding(one.ca),
      kubeconfigFile: '/etc/kubernetes/kubelet.conf',
      endpoints: {},
    };
  });
  afterAll(() => rm(scratch, { recursive: true, force: true }));

  it('has nothing against the CA that both sides know, whatever has expired', () => {
    expect(signingProblem(same)).toBeUndefined();
  });

  it('is against a CA of the same name whose clients the API server does not know', () => {
    expect(signingProblem({ ...same, clientAuthorities: other })).toContain('trusts no client of that CA any more');
  });

  it('is against a kubelet that would not know its API server', () => {
    expect(signingProblem({ ...same, served: servedByOther })).toContain('has not signed what it serves');
    // One that has to be written from nothing holds that CA, too.
    expect(signingProblem({ ...same, served: servedByOther, kubeletKubeconfig: undefined })).toBeDefined();
    expect(signingProblem({ ...same, served: servedByOther, kubeletKubeconfig: embedding(other) })).toBeUndefined();
  });

  it('leaves a CA file that the kubeconfig names to whoever writes it', () => {
    const kubeletKubeconfig = kubeconfig({ 'certificate-authority': `${own}/configmaps/a/ca-bundle.crt` });
    expect(signingProblem({ ...same, served: servedByOther, kubeletKubeconfig })).toBeUndefined();
  });

  it('takes what cannot be read for no evidence', () => {
    const nothing = { authority: undefined, clientAuthorities: undefined, served: undefined };
    expect(signingProblem({ ...same, ...nothing })).toBeUndefined();
    expect(signingProblem({ ...same, clientAuthorities: 'garbage', served: '' })).toBeUndefined();
  });
});
