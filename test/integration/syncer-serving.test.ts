// The reader against the writer: a real kube-apiserver that reads the syncer's files. Each generation is picked up
// at once (0.2 s on an idle machine; the times are printed), and while thousands pass it never loads a mismatched pair.
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { X509Certificate } from 'node:crypto';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { publish } from '../../lib/publish/writer.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { startControlPlane, type ControlPlane } from '../support/cluster/control-plane.ts';
import type { HandshakeReport, HandshakeTask } from '../support/certificates/handshake-worker.ts';
import { eventually } from '../support/eventually.ts';
import { opaque, pairContent, putObject, startSyncing, type Syncing } from '../support/cluster/syncing.ts';

const updates = Number(process.env['SERVING_UPDATES'] ?? 3000);
const directory = mkdtempSync(join(tmpdir(), 'syncer-serving-'));
const destinationDir = join(directory, 'certs');
const serving = { kind: 'secret', namespace: 'default', name: 'serving' } as const;
const clientCa = { kind: 'configMap', namespace: 'default', name: 'client-ca' } as const;
const bundleKey = 'ca-bundle.crt';

let controlPlane: ControlPlane;
let syncing: Syncing;
let authority: Pair;
const servingGenerations: Pair[] = [];

async function newServing(index: number): Promise<Pair> {
  const names = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] };
  const options = { commonName: `serving-${index}`, usages: ['serverAuth'] as const, ...names };
  return createLeaf(join(directory, `serving-${index}`), authority, options);
}

const bundleOf = (...authorities: Pair[]) => ({
  [bundleKey]: Buffer.concat(authorities.map(({ cert }) => readFileSync(cert))),
});

beforeAll(async () => {
  authority = await createAuthority(join(directory, 'ca'), { commonName: 'serving-ca' });
  for (let index = 0; index < 4; index += 1) servingGenerations.push(await newServing(index));
  const [first] = servingGenerations;
  if (first === undefined) throw new Error('no pair');
  // The first generation lies there before the API server starts, as `init render` leaves it.
  const content = {
    directory: join(destinationDir, 'secrets/serving'),
    what: 'Secret "default/serving"',
    mode: 0o600,
  } as const;
  await publish({
    ...content,
    entries: Object.fromEntries(Object.entries(pairContent(first)).map(([key, value]) => [key, Buffer.from(value)])),
  });
  await publish({
    directory: join(destinationDir, 'configmaps/client-ca'),
    what: 'ConfigMap "default/client-ca"',
    mode: 0o644,
    entries: bundleOf(authority),
  });
  controlPlane = await startControlPlane({
    flags: {
      'kube-apiserver': {
        'tls-cert-file': join(destinationDir, 'secrets/serving/tls.crt'),
        'tls-private-key-file': join(destinationDir, 'secrets/serving/tls.key'),
        'client-ca-file': join(destinationDir, 'configmaps/client-ca', bundleKey),
      },
    },
  });
  await putObject(controlPlane, serving, pairContent(first));
  await putObject(controlPlane, clientCa, bundleOf(authority));
  syncing = await startSyncing({ controlPlane, destinationDir, artefacts: [opaque(serving), opaque(clientCa)] });
  await eventually(() => expect(syncing.health().ok).toBe(true));
});

afterAll(async () => {
  await syncing?.stop();
  await controlPlane?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

/** The certificate that a new connection is served; rejects when the handshake fails. */
function servedCertificate(): Promise<X509Certificate> {
  return new Promise((resolve, reject) => {
    const ca = readFileSync(authority.cert);
    const socket = connect({ host: '127.0.0.1', port: controlPlane.port, servername: 'localhost', ca }, () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      if (certificate === undefined) reject(new Error('no certificate'));
      else resolve(certificate);
    });
    socket.on('error', reject);
  });
}

/** The status of a request that proves itself with a client certificate: 403 when it is believed, else 401. */
function statusAs({ cert, key }: Pair): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: '127.0.0.1',
        port: controlPlane.port,
        path: '/api/v1/secrets',
        servername: 'localhost-recovery',
        ca: readFileSync(controlPlane.recoveryCa),
        cert: readFileSync(cert),
        key: readFileSync(key),
        agent: false,
      },
      (response) => {
        response.resume();
        response.on('end', () => resolve(response.statusCode ?? 0));
      },
    );
    sent.on('error', reject);
    sent.end();
  });
}

/** What kube-apiserver does not notice at once it does not notice for 90 s and more; a busy machine is merely slower. */
const atOnce = { withinMs: 60_000, everyMs: 10 };

const serverLog = (): string => readFileSync(controlPlane.logFile('kube-apiserver'), 'utf8');

test('three successive generations of the serving pair are each served at once after the API update', async () => {
  for (const pair of servingGenerations.slice(1)) {
    const { fingerprint256 } = new X509Certificate(readFileSync(pair.cert));
    await putObject(controlPlane, serving, pairContent(pair));
    await eventually(async () => expect((await servedCertificate()).fingerprint256).toBe(fingerprint256), atOnce);
  }
});

test('three successive generations of the client CA are each believed at once after the API update', async () => {
  for (let generation = 1; generation <= 3; generation += 1) {
    const ca = await createAuthority(join(directory, `client-ca-${generation}`), {
      commonName: `client-ca-${generation}`,
    });
    const client = await createLeaf(join(directory, `client-${generation}`), ca, { commonName: 'somebody' });
    expect(await statusAs(client)).toBe(401);
    await putObject(controlPlane, clientCa, bundleOf(authority, ca));
    await eventually(async () => expect(await statusAs(client)).toBe(403), atOnce);
  }
});

/** Probes the serving certificate on another thread while `action` runs. */
async function whileProbing(action: () => Promise<void>): Promise<HandshakeReport> {
  const stop = new SharedArrayBuffer(4);
  const task: HandshakeTask = { port: controlPlane.port, ca: readFileSync(authority.cert, 'utf8'), stop };
  const worker = new Worker(new URL('../support/certificates/handshake-worker.ts', import.meta.url), {
    workerData: task,
  });
  const report = once(worker, 'message') as Promise<[HandshakeReport]>;
  await action().finally(() => Atomics.store(new Int32Array(stop), 0, 1));
  return (await report)[0];
}

test(`${updates} updates: no handshake fails and no mismatched pair is ever loaded`, { timeout: 600_000 }, async () => {
  const known = servingGenerations.map(({ cert }) => new X509Certificate(readFileSync(cert)).fingerprint256);
  const written = (): number => syncing.log.filter(({ event }) => event === 'sync.written').length;
  const before = written();
  const contents = servingGenerations.map(pairContent);
  const { handshakes, fingerprints, failures } = await whileProbing(async () => {
    for (let update = 0; update < updates; update += 1) {
      await putObject(controlPlane, serving, contents[update % contents.length] ?? {});
    }
  });
  const last = known[(updates - 1) % known.length];
  await eventually(async () => expect((await servedCertificate()).fingerprint256).toBe(last));
  console.log(`${updates} updates, ${written() - before} generations on disk, ${handshakes} handshakes`);
  expect(failures).toEqual([]);
  expect(fingerprints.filter((fingerprint) => !known.includes(fingerprint))).toEqual([]);
  expect(fingerprints.length).toBeGreaterThan(1);
  expect(written() - before).toBeGreaterThan(updates / 10);
  expect(serverLog()).not.toMatch(/does not match|mismatch/i);
  expect(syncing.log.filter(({ event }) => event === 'sync.failed' || event === 'sync.refused')).toEqual([]);
});
