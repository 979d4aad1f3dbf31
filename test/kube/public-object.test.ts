// One public read from a server that is known by the key of a CA that has expired: whom it believes, and that nobody else is
// sent a byte of a request.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import { type AddressInfo, createServer as createSilent } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { readPublicObject } from '../../lib/kube/public-object.ts';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import { createAuthority, createLeaf, type LeafOptions, type Pair } from '../support/certificates/certificates.ts';

const day = 86_400_000;
const ago = (days: number): Date => new Date(Date.now() - days * day);
const path = '/api/v1/namespaces/kube-public/configmaps/cluster-info';
const object = { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'cluster-info', namespace: 'kube-public' } };
const names = { commonName: 'kube-apiserver', ipAddresses: ['127.0.0.1'], usages: ['serverAuth'] } as const;
const expired = { commonName: 'kubernetes', notBefore: ago(3650), notAfter: ago(1) };

let directory: string;
let authority: Pair;
let stranger: Pair;
let server: Server | undefined;
let count = 0;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'public-'));
  authority = await createAuthority(join(directory, 'ca'), expired);
  stranger = await createAuthority(join(directory, 'stranger'), { commonName: 'kubernetes' });
});
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)));
  server = undefined;
});
afterAll(() => rmSync(directory, { recursive: true }));

const leafBy = (signer: Pair, options: Partial<LeafOptions> = {}): Promise<Pair> =>
  createLeaf(join(directory, `leaf-${(count += 1)}`), signer, { ...names, ...options });

interface Asking {
  readonly chain?: readonly Pair[];
  readonly serverName?: string;
  readonly anchor?: Pair;
  readonly body?: string;
  readonly status?: number;
}

/** What a server with this certificate was told, and what the read said of it. */
async function ask(serving: Pair, { chain = [], serverName, anchor = authority, body, status = 200 }: Asking = {}) {
  const told: string[] = [];
  const cert = [serving, ...chain].map((one) => readFileSync(one.cert, 'utf8')).join('');
  server = createServer({ cert, key: readFileSync(serving.key) }, (request, response) => {
    told.push(`${request.url} ${request.headers.authorization}`);
    response.writeHead(status).end(body ?? JSON.stringify(object));
  });
  let bytes = 0;
  server.on('secureConnection', (socket) => socket.on('data', (data: Buffer) => (bytes += data.length)));
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const anchors = parseCertificates(readFileSync(anchor.cert), 'test');
  const how = { timeoutMs: 5000, clock: systemClock, signal: new AbortController().signal };
  const url = `https://127.0.0.1:${port}`;
  const said = await readPublicObject({ server: url, serverName, anchors, path, ...how }).catch((err: unknown) => err);
  return { told, bytes, said };
}

describe('readPublicObject()', () => {
  it('reads from a server of the CA that has expired, without a credential', async () => {
    const { told, said } = await ask(await leafBy(authority));
    expect(said).toEqual(object);
    expect(told).toEqual([`${path} undefined`]);
  });

  it('and from one that sends an intermediate along', async () => {
    const issuing = await createAuthority(join(directory, 'issuing'), { commonName: 'issuing', signer: authority });
    expect((await ask(await leafBy(issuing), { chain: [issuing] })).said).toEqual(object);
  });

  it('asks by the name that the kubeconfig gives', async () => {
    const serverName = 'api.example';
    expect((await ask(await leafBy(authority, { dnsNames: [serverName] }), { serverName })).said).toEqual(object);
  });

  it.each<readonly [string, () => Promise<readonly [Pair, Asking?]>, RegExp]>([
    [
      'the CA of an attacker, by the same name',
      async () => [await leafBy(stranger)],
      /was not signed by the key of the trusted certificate "CN=kubernetes"/,
    ],
    [
      'that CA, sent along',
      async () => [await leafBy(stranger), { chain: [stranger] }],
      /was not signed by the key of the trusted certificate/,
    ],
    [
      'the CA itself and the leaf of another one',
      async () => [await leafBy(stranger), { chain: [authority] }],
      /was not signed by the key of the trusted certificate/,
    ],
    [
      'its own certificate has expired',
      async () => [await leafBy(authority, { notBefore: ago(300), notAfter: ago(2) })],
      /"CN=kube-apiserver" expired at/,
    ],
    [
      'its own certificate is not valid yet',
      async () => [await leafBy(authority, { notBefore: ago(-1), notAfter: ago(-2) })],
      /"CN=kube-apiserver" is not valid before/,
    ],
    [
      'an intermediate has expired',
      async () => {
        const issuing = await createAuthority(join(directory, 'late'), {
          ...expired,
          signer: authority,
          commonName: 'l',
        });
        return [await leafBy(issuing), { chain: [issuing] }];
      },
      /"CN=l" expired at/,
    ],
    [
      'another address',
      async () => [await leafBy(authority, { ipAddresses: ['127.0.0.2'] })],
      /not valid for "127.0.0.1"/,
    ],
    ['another name', async () => [await leafBy(authority), { serverName: 'api' }], /not valid for "api"/],
    [
      "a client's certificate",
      async () => [await leafBy(authority, { usages: ['clientAuth'] })],
      /may not be used for serverAuth/,
    ],
    [
      'a leaf for an anchor',
      async () => {
        const leaf = await leafBy(authority);
        return [await leafBy(leaf), { chain: [leaf] }];
      },
      /is not a CA/,
    ],
  ])('sends nothing to a server that shows: %s', async (_what, make, reason) => {
    const { told, bytes, said } = await ask(...(await make()));
    expect(said).toMatchObject({ code: 'KubeUnavailable', details: { untrusted: true } });
    expect(String(said)).toMatch(reason);
    expect({ told, bytes }).toEqual({ told: [], bytes: 0 });
  });

  it.each([
    [403, 'KubeForbidden'],
    [404, 'KubeNotFound'],
    [500, 'KubeUnavailable'],
    [302, 'KubeUnavailable'],
  ])('says what was answered: %i', async (status, code) => {
    expect((await ask(await leafBy(authority), { status })).said).toMatchObject({ code });
  });

  it.each([
    [
      'another object',
      JSON.stringify({ ...object, metadata: { name: 'x', namespace: 'kube-public' } }),
      'KubeWrongAnswer',
    ],
    ['no JSON', '<html>', 'KubeWrongAnswer'],
    ['too much', JSON.stringify({ ...object, data: { a: 'a'.repeat(1 << 21) } }), 'KubeUnavailable'],
  ])('refuses %s', async (_what, body, code) => {
    expect((await ask(await leafBy(authority), { body })).said).toMatchObject({ code });
  });

  it('ends in time where nobody answers', async () => {
    const silent = createSilent();
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as AddressInfo;
    const anchors = parseCertificates(readFileSync(authority.cert), 'test');
    const how = { timeoutMs: 100, clock: systemClock, signal: new AbortController().signal };
    const asked = { server: `https://127.0.0.1:${port}`, serverName: undefined, anchors, path, ...how };
    await expect(readPublicObject(asked)).rejects.toMatchObject({ code: 'KubeUnavailable' });
    silent.close();
  });
});
