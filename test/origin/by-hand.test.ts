import { X509Certificate } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parsePrivateKey } from '../../lib/pki/key.ts';
import { lifeProblem, makeNodeCertificate, readSigningAuthority } from '../../lib/origin/by-hand.ts';
import { authority } from '../pki/authority.ts';
import { nodeAuthority } from './node-pair.ts';

const now = new Date('2026-06-01T00:00:00Z');
const ago = (minutes: number): string => new Date(now.getTime() - minutes * 60_000).toISOString();
const node = (lastHeartbeatTime: string) => ({ status: { conditions: [{ type: 'Ready', lastHeartbeatTime }] } });
const lease = (renewTime: string) => ({ spec: { renewTime } });

describe('lifeProblem()', () => {
  it.each([
    ['there is no Node', undefined, undefined, /^there is no Node of that name; .*kubeadm join/],
    ['its Lease is fresh', {}, lease(ago(4)), /^its kubelet was heard at 2026-05-31T23:56/],
    ['its status is fresh', node(ago(4)), lease(ago(60)), /^its kubelet was heard/],
    ['its clock is ahead', {}, lease(ago(-60)), /still to come.*kubectl -n kube-node-lease delete lease worker-1\./],
  ])('says that %s', (_name, object, renewed, message) => {
    expect(lifeProblem({ name: 'worker-1', object, lease: renewed, now })).toMatch(message);
  });

  it.each([
    ['a node that is silent', node(ago(6)), lease(ago(5))],
    ['a node that never spoke', {}, undefined],
    ['a node whose last report is still to come', node(ago(-60)), undefined],
    ['a Lease without a time', {}, { spec: { renewTime: null } }],
  ])('lets %s have one', (_name, object, renewed) => {
    expect(lifeProblem({ name: 'worker-1', object, lease: renewed, now })).toBeUndefined();
  });
});

describe('makeNodeCertificate()', () => {
  it('makes certificate and key in one file, for a year', async () => {
    const { certificate, key } = await nodeAuthority();
    const pem = await makeNodeCertificate('tiger', { certificate, key: key.key }, now);
    const made = new X509Certificate(pem);
    expect(made.subject).toBe('O=system:nodes\nCN=system:node:tiger');
    expect(made.checkPrivateKey(parsePrivateKey(Buffer.from(pem), 'test'))).toBe(true);
    expect(made.keyUsage).toEqual(['1.3.6.1.5.5.7.3.2']);
    expect(new Date(made.validTo)).toEqual(new Date('2027-06-01T00:00:00Z'));
    expect(new Date(made.validFrom)).toEqual(new Date('2026-05-31T23:55:00Z'));
  });
});

describe('readSigningAuthority()', () => {
  it('takes the CA of the key, whatever stands before it', async () => {
    const [former, own] = [await authority(), await nodeAuthority()];
    const directory = await mkdtemp(join(tmpdir(), 'by-hand-'));
    try {
      const [certFile, keyFile] = [join(directory, 'ca.crt'), join(directory, 'ca.key')];
      await writeFile(certFile, former.certificate.pem + own.certificate.pem);
      await writeFile(keyFile, own.key.pem, { mode: 0o600 });
      const { certificate } = await readSigningAuthority(certFile, keyFile);
      expect(certificate.pem).toBe(own.certificate.pem);
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
