// What TLS servers of this machine show, held against what lies on disk. The servers are real, one of them as strict with
// strangers as etcd.
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type TlsOptions } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { Facts } from '../../lib/plan/facts.ts';
import { askServers, type LocalServer, localServers } from '../../lib/status/local-servers.ts';
import type { Found } from '../../lib/store/store.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { certificate, present } from '../support/facts.ts';
import { machine } from './node.ts';

const places = (resolved: ReturnType<typeof machine>): string[] =>
  localServers(resolved).map(({ component, host, port }) => `${component} ${host} ${port}`);

describe('localServers()', () => {
  it('meets the API server where its manifest says, etcd and the kubelet on their ports', () => {
    expect(places(machine({ endpoints: { local: 'https://10.0.0.1:6444' } }))).toEqual([
      'kube-apiserver 10.0.0.1 6444',
      'etcd 127.0.0.1 2379',
      'etcd 10.0.0.1 2380',
      'kubelet 127.0.0.1 10250',
    ]);
    expect(places(machine({ endpoints: { local: 'https://[fd00::1]' } }))).toContain('kube-apiserver fd00::1 443');
  });

  it('takes the ports of kubeadm where nothing is known, and no etcd that runs elsewhere', () => {
    expect(places(machine({ etcd: 'external' }))).toEqual(['kube-apiserver 127.0.0.1 6443', 'kubelet 127.0.0.1 10250']);
  });
});

const path = mkdtempSync(join(tmpdir(), 'local-servers-'));
const servers: Server[] = [];
const signal = new AbortController().signal;
let ca: Pair;
let served: Pair;
let client: Pair;
let open: number;
let strict: number;
let welcomed = 0;

async function listen(options: TlsOptions): Promise<number> {
  const server = createServer(options);
  servers.push(server);
  server.on('secureConnection', () => (welcomed += 1));
  await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1' }, resolve));
  return (server.address() as AddressInfo).port;
}

const content = ({ cert, key }: Pair) => ({ cert: readFileSync(cert), key: readFileSync(key) });
const printOf = ({ cert }: Pair): string =>
  new X509Certificate(readFileSync(cert)).fingerprint256.replaceAll(':', '').toLowerCase();
const factOf = (fingerprint: string) => present(certificate(fingerprint, [-1, 1]));

beforeAll(async () => {
  ca = await createAuthority(join(path, 'ca'), { commonName: 'ca' });
  served = await createLeaf(join(path, 'served'), ca, { commonName: 'served', dnsNames: ['localhost'] });
  client = await createLeaf(join(path, 'client'), ca, { commonName: 'client', usages: ['clientAuth'] });
  open = await listen(content(served));
  strict = await listen({ ...content(served), requestCert: true, rejectUnauthorized: true, ca: readFileSync(ca.cert) });
});
afterAll(() => {
  for (const server of servers) server.close();
  rmSync(path, { recursive: true, force: true });
});

const ask = (server: Partial<LocalServer>, facts: Facts) => {
  const { cert, key } = content(client);
  const found: Found = { entries: { 'tls.crt': cert, 'tls.key': key }, annotations: {}, version: '1' };
  return askServers(
    [{ component: 'x', host: '127.0.0.1', port: open, artefacts: ['leaf'], remedy: 'restart x', ...server }],
    { facts, found: new Map([['client', found]]), clock: systemClock, signal },
  );
};

describe('askServers()', () => {
  it('finds the certificate on disk served', async () => {
    const sights = await ask({}, new Map([['leaf', factOf(printOf(served))]]));
    expect(sights).toMatchObject([{ component: 'x', address: `127.0.0.1:${open}`, artefact: 'leaf', state: 'same' }]);
    expect(sights[0]?.notAfter).toBeInstanceOf(Date);
  });

  it('says what to restart where another one is served', async () => {
    const [sight] = await ask({}, new Map([['leaf', factOf('0'.repeat(64))]]));
    expect(sight).toMatchObject({ state: 'different', message: expect.stringMatching(/has not read.*: restart x$/) });
  });

  it('takes whichever of its files a server uses', async () => {
    const facts = new Map([
      ['first', factOf('0'.repeat(64))],
      ['second', factOf(printOf(served))],
    ]);
    const [sight] = await ask({ artefacts: ['first', 'second'] }, facts);
    expect(sight).toMatchObject({ artefact: 'second', state: 'same' });
  });

  it('leaves out a server of which nothing readable is on disk', async () => {
    expect(await ask({}, new Map([['leaf', { state: 'absent' }]]))).toEqual([]);
  });

  it('says that nobody answers', async () => {
    const closed = await listen(content(served));
    await new Promise((resolve) => servers.pop()?.close(resolve));
    const [sight] = await ask({ port: closed }, new Map([['leaf', factOf('0')]]));
    expect(sight).toMatchObject({ state: 'unreachable', message: expect.stringMatching(/ECONNREFUSED/) });
    expect(sight).not.toHaveProperty('notAfter');
  });

  it('does not ask somebody else who has an address that this machine no longer has', async () => {
    const [sight] = await ask({ host: '192.0.2.1' }, new Map([['leaf', factOf('0')]]));
    expect(sight).toMatchObject({ state: 'unreachable', message: '192.0.2.1 is no address of this machine' });
  });

  it('asks with a pair where strangers are refused', async () => {
    const facts = new Map([
      ['leaf', factOf(printOf(served))],
      ['client', factOf('client')],
    ]);
    const before = welcomed;
    const [sight] = await ask({ port: strict, client: 'client' }, facts);
    expect(sight).toMatchObject({ state: 'same' });
    await expect.poll(() => welcomed).toBe(before + 1);
  });

  it('sees the certificate also when it is refused itself', async () => {
    const [sight] = await ask({ port: strict }, new Map([['leaf', factOf(printOf(served))]]));
    expect(sight).toMatchObject({ state: 'same' });
  });
});
