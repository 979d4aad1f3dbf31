// A wrong CA in the file that a connection knows its server by: the former one stays in use until the file is right.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { Trust } from '../../lib/kube/trust.ts';
import { createLog } from '../../lib/log.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';

const signal = new AbortController().signal;
let directory: string;
let right: Pair;
let wrong: Pair;
/** Of the server, by each of the two. */
let leaf: Pair;
let otherLeaf: Pair;
let server: Server;
let connection: KubeConnection;
let events: string[];

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'trust-'));
  right = await createAuthority(join(directory, 'right'), { commonName: 'kubernetes' });
  wrong = await createAuthority(join(directory, 'wrong'), { commonName: 'kubernetes' });
  const names = { commonName: 'kube-apiserver', ipAddresses: ['127.0.0.1'], usages: ['serverAuth'] } as const;
  leaf = await createLeaf(join(directory, 'leaf'), right, names);
  otherLeaf = await createLeaf(join(directory, 'other-leaf'), wrong, names);
});
afterAll(() => rmSync(directory, { recursive: true }));

const file = (name: string): string => join(directory, name);
const trustIn = (pair: Pair): void => writeFileSync(file('ca.crt'), readFileSync(pair.cert));

beforeEach(async () => {
  server = createServer({ cert: readFileSync(leaf.cert), key: readFileSync(leaf.key) }, (_, response) => {
    response.end(JSON.stringify({ kind: 'Secret', apiVersion: 'v1', metadata: { name: 'a', namespace: 'n' } }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const config = {
    clusters: [{ name: 'c', cluster: { server: `https://127.0.0.1:${port}`, 'certificate-authority': 'ca.crt' } }],
    users: [{ name: 'u', user: { token: 'token' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  writeFileSync(file('kubeconfig'), JSON.stringify(config));
  trustIn(right);
  events = [];
  const log = createLog({ write: (line) => events.push((JSON.parse(line) as { event: string }).event) });
  connection = await openConnection({
    kubeconfigFile: file('kubeconfig'),
    userAgent: 'test',
    clock: systemClock,
    log,
  });
});
afterEach(async () => {
  await connection.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const ask = (): Promise<string> =>
  connection.request({ method: 'GET', path: '/api/v1/namespaces/n/secrets/a', signal }).then(
    () => 'answered',
    (err: { readonly details: { readonly untrusted?: boolean } }) =>
      err.details.untrusted === true ? 'untrusted' : 'away',
  );
/** Until it is told by an attempt of its own, and not by what another has met. */
async function askTwice(): Promise<string> {
  await ask();
  return ask();
}

it('stays with the CA by which its server has answered, when the one in the file does not know the server', async () => {
  expect(await ask()).toBe('answered');
  trustIn(wrong);
  expect(await connection.reload()).toBe('changed');
  expect(await ask()).toBe('untrusted');
  expect(await ask()).toBe('answered');
  expect(await connection.reload()).toBe('unchanged');
  expect(await ask()).toBe('answered');
  trustIn(right);
  await connection.reload();
  expect(await ask()).toBe('answered');
  expect(events).toEqual(['connection.changed', 'connection.kept']);
});

it('follows the file when the server does', async () => {
  expect(await ask()).toBe('answered');
  trustIn(wrong);
  await connection.reload();
  expect(await askTwice()).toBe('answered');
  server.setSecureContext({ cert: readFileSync(otherLeaf.cert), key: readFileSync(otherLeaf.key) });
  server.closeAllConnections();
  expect(await askTwice()).not.toBe('answered');
  await connection.reload();
  expect(await askTwice()).toBe('answered');
});

it('trusts nobody that the first file does not know', async () => {
  trustIn(wrong);
  await connection.reload();
  expect(await askTwice()).toBe('untrusted');
  expect(await askTwice()).toBe('untrusted');
  expect(events).toEqual(['connection.changed']);
});

it('does not go back and forth when the server is known by neither', () => {
  const [one, two] = [Buffer.from('one'), Buffer.from('two')];
  const trust = new Trust();
  expect(trust.use(one)).toBe(one);
  trust.worked();
  expect(trust.use(two)).toBe(two);
  expect(trust.failed()).toBe(one);
  expect(trust.use(two)).toBe(one);
  expect(trust.failed()).toBeUndefined();
  expect(trust.use(two)).toBe(two);
  expect(trust.failed()).toBeUndefined();
  expect(trust.use(two)).toBe(two);
});
