// Whose credential it is that asks. What the API server answers is in test/integration/node-ca-units.test.ts.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { createLog } from '../../lib/log.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { signLeaf } from '../../lib/pki/sign.ts';
import { asKubelet, credentialOfKubelet, isReadySince } from '../../lib/run/as-kubelet.ts';
import { authority, p256 } from '../pki/authority.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'as-kubelet-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const running = { clock: systemClock, log: createLog({ write: () => undefined }), signal: AbortSignal.timeout(30_000) };

interface User {
  readonly commonName?: string;
  readonly organizations?: readonly string[];
}

const worker: User = { commonName: 'system:node:worker-7' };

/** A kubeconfig of a user with that name, or with a token. */
async function conf({ commonName, organizations = ['system:nodes'] }: User = {}): Promise<string> {
  const now = systemClock.now();
  const dates = { notBefore: new Date(now.getTime() - 3_600_000), notAfter: new Date(now.getTime() + 3_600_000) };
  const issuer = await authority({ at: now, ...dates });
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const cluster = { server: 'https://127.0.0.1:1', 'certificate-authority-data': base64(issuer.certificate.pem) };
  let user: object = { token: 'of-a-service-account' };
  if (commonName !== undefined) {
    const { key } = await generateKey(p256);
    const leaf = await signLeaf({
      issuer,
      key,
      commonName,
      organizations,
      hostnames: [],
      usage: 'client',
      now,
      ...dates,
    });
    const pem = String(key.export({ type: 'pkcs8', format: 'pem' }));
    user = { 'client-certificate-data': base64(leaf.pem), 'client-key-data': base64(pem) };
  }
  const path = join(directory, 'kubelet.conf');
  await writeFile(path, kubeconfigOf(cluster, user));
  return path;
}

describe('asKubelet()', () => {
  it('works with the name of the Node that its certificate has', async () => {
    const path = await conf(worker);
    expect(await asKubelet(path, running, (_, node) => Promise.resolve(node))).toBe('worker-7');
  });

  it.each<[string, User]>([
    ['a token', {}],
    ['the certificate of another user', { commonName: 'kubernetes-admin' }],
    ['the name of a node outside the group of nodes', { ...worker, organizations: ['others'] }],
  ])('asks nothing with %s', async (_, user) => {
    const path = await conf(user);
    const work = (): Promise<never> => Promise.reject(new Error('it worked'));
    await expect(asKubelet(path, running, work)).rejects.toMatchObject({ code: 'ConfigInvalid' });
  });
});

describe('credentialOfKubelet()', () => {
  it('is the kubeconfig of the kubelet, and none where no kubelet is known', () => {
    const of = (preset: 'node-ca' | 'etcdadm') => credentialOfKubelet({ resolved: resolve(loadPreset(preset), {}) });
    expect(of('node-ca')).toBe('/etc/kubernetes/kubelet.conf');
    expect(of('etcdadm')).toBeUndefined();
  });
});

it('isReadySince() is false while no API server answers', async () => {
  expect(await isReadySince(new Date(0), await conf(worker), running)).toBe(false);
});
