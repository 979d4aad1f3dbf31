import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { kubeletIdentity } from '../../lib/worker/kubelet-files.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'renew-'));
});
afterAll(() => rm(directory, { recursive: true }));

const identityIn = async (user: object) => {
  const file = join(directory, 'kubelet.conf');
  await writeFile(file, kubeconfigOf({ server: 'https://10.0.0.1:6443' }, user));
  return kubeletIdentity(file);
};

describe('kubeletIdentity()', () => {
  it('follows kubelet.conf to the file of certificate and key', async () => {
    const file = '/var/lib/kubelet/pki/kubelet-client-current.pem';
    const location = await identityIn({ 'client-certificate': file, 'client-key': file });
    expect(location).toEqual({ kind: 'combinedPem', file });
  });

  it('follows it to two files, also relative ones', async () => {
    const location = await identityIn({ 'client-certificate': 'a.crt', 'client-key': '/keys/a.key' });
    expect(location).toEqual({ kind: 'pemPair', certFile: join(directory, 'a.crt'), keyFile: '/keys/a.key' });
  });

  it('knows certificate and key that are one file by other names', async () => {
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
      const location = await identityIn({ 'client-certificate': current, 'client-key': key });
      expect(location, key).toEqual({ kind: 'combinedPem', file: current });
    }
  });

  it.each([
    [
      'has the certificate in itself',
      { 'client-certificate-data': 'AA==', 'client-key-data': 'AA==' },
      'put them into',
    ],
    ['has a token', { token: 'secret' }, 'is not that of a kubelet with a certificate'],
  ])('refuses one that %s, and says what to do', async (_name, user, message) => {
    await expect(identityIn(user)).rejects.toThrow(message);
    await expect(identityIn(user)).rejects.not.toThrow('secret');
  });

  it('refuses one that is absent or no kubeconfig', async () => {
    await expect(kubeletIdentity(join(directory, 'absent'))).rejects.toThrow(/^Cannot read kubeconfig "\S+absent"/);
    await writeFile(join(directory, 'torn'), 'apiVersion: v1\n');
    await expect(kubeletIdentity(join(directory, 'torn'))).rejects.toThrow('cannot be used, it has no current-context');
  });
});
