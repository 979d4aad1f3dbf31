// Proofs against real components: what kube-apiserver serves, what kube-controller-manager renews and signs, what an
// aggregated API answers.
import { execFile } from 'node:child_process';
import { readFile, rename } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { runFileObserver } from '../../lib/fileobserver/run.ts';
import type { Proof, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { createProver, type Prove, type ProverOptions } from '../../lib/proof/prove.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { startControlPlane, type ControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { registerSampleApi } from '../support/cluster/sample-api.ts';

const run = promisify(execFile);

let controlPlane: ControlPlane;
let connection: KubeConnection;
let prove: Prove;

const proverWith = (options: Partial<ProverOptions> = {}): Prove =>
  createProver({
    connection,
    apiServer: { host: '127.0.0.1', port: controlPlane.port },
    destinationDir: controlPlane.directory,
    clock: systemClock,
    signal: new AbortController().signal,
    ...options,
  });

beforeAll(async () => {
  controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', 'kube-controller-manager', 'sample-apiserver'],
  });
  const kubeconfigFile = controlPlane.recoveryKubeconfig;
  connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
  prove = proverWith();
});
afterAll(async () => {
  await connection?.close();
  await controlPlane?.[Symbol.asyncDispose]();
});

/** An artefact on disk with one reader. */
const artefact = ({ cert, key }: Pair, proof: Proof): ResolvedArtefact => ({
  kind: 'opaque',
  name: 'under-test',
  location: { kind: 'pemPair', certFile: cert, keyFile: key },
  readers: [{ component: 'component', needs: 'nothing', proof }],
});
const served = (pair: Pair, serverName: string) => prove(artefact(pair, { kind: 'served', serverName }), new Date());

test('served: each name is answered with its own certificate, unknown names and addresses with the default one', async () => {
  const { serving, localhostRecovery } = controlPlane.pki;
  expect(await served(serving, 'localhost')).toMatchObject({ state: 'proven' });
  expect(await served(serving, 'kubernetes')).toMatchObject({ state: 'proven' });
  expect(await served(serving, 'unknown.example')).toMatchObject({ state: 'proven' });
  expect(await served(serving, '127.0.0.1')).toMatchObject({ state: 'proven' });
  expect(await served(localhostRecovery, 'localhost-recovery')).toMatchObject({ state: 'proven' });
  expect(await served(localhostRecovery, 'localhost')).toMatchObject({ state: 'unproven' });
  expect(await served({ cert: '/absent', key: '/absent' }, 'localhost')).toMatchObject({
    state: 'unproven',
    message: 'component: Cannot prove use of "under-test": file "/absent": ENOENT',
  });
});

test('runFileObserver() proves three successive generations of the serving pair in use', async () => {
  const { serving, clusterCa } = controlPlane.pki;
  const stop = new AbortController();
  const lines: Record<string, unknown>[] = [];
  const given = () => lines.filter(({ event }) => event === 'proof.succeeded');
  const running = runFileObserver({
    resolved: { name: 'test', artefacts: [artefact(serving, { kind: 'served', serverName: 'localhost' })] },
    destinationDir: controlPlane.directory,
    prove,
    clock: systemClock,
    log: createLog({ write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) }),
    signal: stop.signal,
  });
  await eventually(() => expect(given()).toHaveLength(1));
  for (let generation = 1; generation <= 3; generation += 1) {
    const next = await createLeaf(join(controlPlane.directory, `serving-${generation}`), clusterCa, {
      commonName: 'kube-apiserver',
      usages: ['serverAuth'],
      dnsNames: ['localhost', 'kubernetes'],
      ipAddresses: ['127.0.0.1'],
    });
    const wanted = await readFile(next.cert);
    await rename(next.cert, serving.cert);
    await rename(next.key, serving.key);
    await eventually(() => expect(given()).toHaveLength(1 + generation));
    expect(await readFile(serving.cert)).toEqual(wanted);
    expect(await served(serving, 'localhost')).toMatchObject({ state: 'proven' });
  }
  expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
  stop.abort();
  await running;
});

test('lease: kube-controller-manager has renewed since its files were published, or not yet', async () => {
  const kcm: Proof = { kind: 'lease', namespace: 'kube-system', name: 'kube-controller-manager' };
  const client = artefact(controlPlane.pki.controllerManagerClient, kcm);
  const publishedAt = new Date();
  await eventually(async () => expect(await prove(client, publishedAt)).toMatchObject({ state: 'proven' }));
  expect(await prove(client, new Date(Date.now() + 3_600_000))).toMatchObject({ state: 'unproven' });
  const here = proverWith({ hostName: hostname() });
  expect(await here(client, publishedAt)).toMatchObject({ state: 'proven' });
  const elsewhere = proverWith({ hostName: 'another-node' });
  expect(await elsewhere(client, publishedAt)).toMatchObject({ state: 'notApplicable' });
  // On since long before: what was renewed before the boot proves nothing.
  const later: Clock = {
    ...systemClock,
    now: () => new Date('2120-01-01T00:00:00Z'),
    uptimeSeconds: () => undefined,
  };
  expect(await proverWith({ clock: later })(client, publishedAt)).toMatchObject({
    state: 'unproven',
    message: expect.stringMatching(/^The certificate on disk expired at \S+Z; component: .* renewed the Lease at /),
  });
  const absent: Proof = { kind: 'lease', namespace: 'kube-system', name: 'absent' };
  expect(await prove(artefact(controlPlane.pki.serving, absent), publishedAt)).toMatchObject({
    state: 'unproven',
    message: expect.stringContaining('kube-system/absent'),
  });
});

test('signsCsr: a CSR that kube-controller-manager signed with the present signer is proof, another signer is not', async () => {
  const signer = artefact(controlPlane.pki.clusterCa, { kind: 'signsCsr' });
  expect(await prove(signer, new Date())).toMatchObject({ state: 'unproven' });
  const scratch = join(controlPlane.directory, 'csr.pem');
  const key = join(controlPlane.directory, 'csr.key');
  const subject = ['-subj', '/CN=somebody', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  await run('openssl', ['req', '-new', ...subject, '-keyout', key, '-out', scratch]);
  await controlPlane.apply(
    JSON.stringify({
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name: 'for-proof' },
      spec: {
        request: (await readFile(scratch)).toString('base64'),
        signerName: 'kubernetes.io/kube-apiserver-client',
        usages: ['client auth', 'digital signature'],
      },
    }),
  );
  expect(await prove(signer, new Date())).toMatchObject({ state: 'unproven' });
  await controlPlane.kubectl('certificate', 'approve', 'for-proof');
  await eventually(async () => {
    const proof = await prove(signer, new Date());
    expect(proof).toMatchObject({ state: 'proven', message: expect.stringContaining('"for-proof"') });
  });
  const other = await createAuthority(join(controlPlane.directory, 'other'), { commonName: 'test-cluster-ca' });
  expect(await prove(artefact(other, { kind: 'signsCsr' }), new Date())).toMatchObject({ state: 'unproven' });
});

test('proxied: not applicable without an aggregated API, unproven while none answers, proven when one does', async () => {
  const proxy = artefact(controlPlane.pki.aggregatorClient, { kind: 'proxied' });
  expect(await prove(proxy, new Date())).toMatchObject({ state: 'notApplicable' });
  await registerSampleApi(controlPlane);
  await eventually(async () => expect(await prove(proxy, new Date())).toMatchObject({ state: 'proven' }));
  await controlPlane.stopComponent('sample-apiserver');
  await eventually(async () => expect(await prove(proxy, new Date())).toMatchObject({ state: 'unproven' }));
});

test('a prover whose API server is away says so and does not reject', async () => {
  await controlPlane.stop();
  const { serving } = controlPlane.pki;
  const proofs: Proof[] = [
    { kind: 'served', serverName: 'localhost' },
    { kind: 'lease', namespace: 'kube-system', name: 'kube-controller-manager' },
    { kind: 'signsCsr' },
    { kind: 'proxied' },
  ];
  for (const proof of proofs) {
    expect(await prove(artefact(serving, proof), new Date()), proof.kind).toMatchObject({ state: 'unproven' });
  }
  expect(await prove(artefact(serving, { kind: 'none' }), new Date())).toMatchObject({ state: 'notApplicable' });
});
