// The files of a kubelet without the key of the CA, as kubelet.conf and its configuration name them.
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { discoverEnvironment } from '../../lib/inventory/discover/discover.ts';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';

const inventory = loadPreset('kubeadm-worker');
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'kubelet-'));
});
afterAll(() => rm(directory, { recursive: true }));

async function artefactsIn(): Promise<readonly ResolvedArtefact[]> {
  const given = { directories: { kubernetesDir: directory, kubeletDir: directory } };
  const { environment } = await discoverEnvironment(inventory, given);
  return resolve(inventory, environment).artefacts;
}

async function artefactsOf(user: object, cluster: object = {}): Promise<readonly ResolvedArtefact[]> {
  const file = join(directory, 'kubelet.conf');
  await writeFile(file, kubeconfigOf({ server: 'https://10.0.0.1:6443', ...cluster }, user));
  return artefactsIn();
}

const places = (artefacts: readonly ResolvedArtefact[]): Record<string, unknown> =>
  Object.fromEntries(artefacts.map(({ name, location }) => [name, location]));

describe('the client certificate of the kubelet', () => {
  it('is in the one file that kubelet.conf names for certificate and key', async () => {
    const file = '/var/lib/kubelet/pki/kubelet-client-current.pem';
    const found = places(await artefactsOf({ 'client-certificate': file, 'client-key': file }));
    expect(found).toMatchObject({ 'kubelet-client': { kind: 'combinedPem', file } });
    expect(Object.keys(found)).toEqual(['kubelet.conf', 'kubelet-client-ca', 'kubelet-client']);
  });

  it('is in two files, also relative ones', async () => {
    const found = places(await artefactsOf({ 'client-certificate': 'a.crt', 'client-key': '/keys/a.key' }));
    expect(found['kubelet-client-pair']).toEqual({
      kind: 'pemPair',
      certFile: join(directory, 'a.crt'),
      keyFile: '/keys/a.key',
    });
  });

  it('is one file where certificate and key are one by other names', async () => {
    const pki = join(directory, 'kubelet', 'pki');
    await mkdir(pki, { recursive: true });
    const [dated, current, other] = ['2025.pem', 'current.pem', 'key.pem'].map((name) => join(pki, name)) as [
      string,
      string,
      string,
    ];
    await writeFile(dated, '');
    for (const link of [current, other]) await symlink(dated, link);
    await symlink(join(directory, 'kubelet'), join(directory, 'linked'));
    for (const key of [dated, other, join(directory, 'linked/pki/current.pem')]) {
      const found = places(await artefactsOf({ 'client-certificate': current, 'client-key': key }));
      expect(found['kubelet-client'], key).toEqual({ kind: 'combinedPem', file: current });
    }
  });

  const settingsOf = (artefacts: readonly ResolvedArtefact[]): string | undefined => {
    const settings = artefacts.find(({ name }) => name === 'kubelet-settings');
    return settings?.kind === 'external' ? settings.unread : undefined;
  };

  it.each([
    [
      'has the certificate in itself',
      { 'client-certificate-data': 'AA==', 'client-key-data': 'AA==' },
      'put them into',
    ],
    ['has a token', { token: 'secret' }, 'is not that of a kubelet with a certificate'],
  ])('is nowhere where kubelet.conf %s, and its entry says what to do', async (_name, user, message) => {
    const artefacts = await artefactsOf(user);
    expect(artefacts.map(({ kind }) => kind)).not.toContain('target');
    expect(settingsOf(artefacts)).toContain(message);
    expect(settingsOf(artefacts)).not.toContain('secret');
  });

  it('is nowhere without a kubeconfig, or with a torn one', async () => {
    await rm(join(directory, 'kubelet.conf'), { force: true });
    expect(settingsOf(await artefactsIn())).toMatch(/kubeconfig "\S+kubelet.conf" is absent or cannot be read; run/);
    await writeFile(join(directory, 'kubelet.conf'), 'apiVersion: v1\n');
    expect(settingsOf(await artefactsIn())).toContain('cannot be used, it has no current-context');
  });
});

describe('the CAs of the kubelet', () => {
  const user = { 'client-certificate': '/a.pem', 'client-key': '/a.pem' };

  it('are in the files that kubelet.conf and the configuration of the kubelet name', async () => {
    const configuration = { kind: 'KubeletConfiguration', authentication: { x509: { clientCAFile: 'clients.crt' } } };
    await writeFile(join(directory, 'config.yaml'), JSON.stringify(configuration));
    const found = places(await artefactsOf(user, { 'certificate-authority': 'server.crt' }));
    expect(found).toMatchObject({
      'kubelet-server-ca': { kind: 'pemFile', file: join(directory, 'server.crt') },
      'kubelet-client-ca': { kind: 'pemFile', file: join(directory, 'clients.crt') },
    });
  });

  it('are one entry where both name one file: it verifies the API server', async () => {
    const file = join(directory, 'clients.crt');
    const found = await artefactsOf(user, { 'certificate-authority': file });
    expect(found.map(({ name }) => name)).toEqual(['kubelet.conf', 'kubelet-server-ca', 'kubelet-client']);
  });

  it('are in the usual file where the configuration cannot be read', async () => {
    await rm(join(directory, 'config.yaml'), { force: true });
    const found = places(await artefactsOf(user));
    expect(found['kubelet-client-ca']).toEqual({ kind: 'pemFile', file: join(directory, 'pki/ca.crt') });
  });
});
