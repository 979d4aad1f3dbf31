// The certificate of this machine's node as it lies on disk: what is evidence, and what says nothing.
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readOwnCertificate, signsOfLife } from '../../lib/approver/node-facts.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';

const dated = 'kubelet-client-2026-01-01-00-00-00.pem';
const notAfter = new Date('2026-03-01T00:00:00Z');

let root: string;
let pem: string;
let count = 0;
let directory: string;
let current: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'own-'));
  const ca = await createAuthority(join(root, 'ca'), { commonName: 'ca' });
  const names = { commonName: 'system:node:panda', organization: 'system:nodes' };
  const { cert, key } = await createLeaf(join(root, 'leaf'), ca, { ...names, notAfter });
  pem = (await readFile(cert, 'utf8')) + (await readFile(key, 'utf8'));
});
afterAll(() => rm(root, { recursive: true, force: true }));
beforeEach(async () => {
  count += 1;
  directory = join(root, `pki-${count}`);
  current = join(directory, 'kubelet-client-current.pem');
  await mkdir(directory);
});

const present = () => ({ state: 'present', path: current, commonName: 'system:node:panda', notAfter });

describe('readOwnCertificate()', () => {
  it('reads the certificate beside its key, through the link that a kubelet makes', async () => {
    await writeFile(join(directory, dated), pem);
    await symlink(join(directory, dated), current);
    expect(await readOwnCertificate(current)).toEqual(present());
  });

  it('finds it where the directory is mounted at another place than the link says', async () => {
    await writeFile(join(directory, dated), pem);
    await symlink(join('/var/lib/kubelet-of-the-host/pki', dated), current);
    expect(await readOwnCertificate(current)).toEqual(present());
  });

  it('says that it is gone where the directory is there, link or not', async () => {
    const gone = { state: 'absent', problem: `there is no certificate "${current}" on this machine` };
    expect(await readOwnCertificate(current)).toEqual(gone);
    await symlink(join(directory, dated), current);
    expect(await readOwnCertificate(current)).toEqual(gone);
  });

  it('concludes nothing where the directory is not there either: it may not be mounted', async () => {
    await rm(directory, { recursive: true });
    expect(await readOwnCertificate(current)).toMatchObject({ state: 'unknown' });
  });

  it.each(['', 'nonsense', '-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n'])(
    'says that no kubelet can use %j, and keeps the content to itself',
    async (content) => {
      await writeFile(current, content);
      const found = await readOwnCertificate(current);
      expect(found.state).toBe('broken');
      expect(JSON.stringify(found)).not.toContain('eA==');
    },
  );

  it('says that no kubelet can use a valid certificate whose key is gone, torn or of another pair', async () => {
    const [certificate = '', key = ''] = pem.split(/(?=-----BEGIN (?:EC )?PRIVATE KEY-----)/);
    const broken = key.replace(/\n(.{40})./, '\n$1!');
    const { key: other } = await createLeaf(
      join(root, `other-${count}`),
      await createAuthority(join(root, `ca-${count}`), { commonName: 'ca' }),
      { commonName: 'other' },
    );
    for (const tail of ['', key.slice(0, 60), key.slice(0, -30), broken, await readFile(other, 'utf8')]) {
      await writeFile(current, certificate + tail);
      const found = await readOwnCertificate(current);
      expect(found.state).toBe('broken');
      expect(JSON.stringify(found)).not.toContain(key.split('\n')[1]);
    }
  });

  it('says that no kubelet can use a torn file, nor a directory in its place', async () => {
    await writeFile(current, pem.slice(0, 300));
    expect(await readOwnCertificate(current)).toMatchObject({ state: 'broken' });
    await rm(current);
    await mkdir(current);
    expect(await readOwnCertificate(current)).toMatchObject({ state: 'broken' });
  });
});

describe('signsOfLife()', () => {
  const [created, reported] = ['2026-01-01T00:00:00Z', '2026-05-31T23:59:00Z'];
  const nodeWith = (reason: string) => ({
    metadata: { creationTimestamp: created },
    status: { conditions: [{ type: 'DiskPressure' }, { type: 'Ready', reason, lastHeartbeatTime: reported }] },
  });

  it('are the Lease, the status, and the registration', () => {
    const lease = { spec: { renewTime: '2026-05-31T23:59:50.123456Z' } };
    expect(signsOfLife(nodeWith('NodeStatusUnknown'), lease)).toEqual({
      node: { createdAt: new Date(created) },
      heartbeatAt: new Date(reported),
      renewedAt: new Date('2026-05-31T23:59:50.123Z'),
    });
    expect(signsOfLife(undefined, { spec: { leaseDurationSeconds: 40 } })).toEqual({ renewalMs: 10_000 });
    expect(signsOfLife(undefined, undefined)).toEqual({});
  });

  it('are not what kube-controller-manager writes of a Node that never reported', () => {
    expect(signsOfLife(nodeWith('NodeStatusNeverUpdated'), undefined)).toEqual({
      node: { createdAt: new Date(created) },
    });
  });
});
