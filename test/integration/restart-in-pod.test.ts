// Mode syncer as in a static pod, as the program runs it: a real API server, a PID namespace that it shares with a process
// named as a component, and a loop that starts that again, as a kubelet does.
import { type ChildProcess, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { restartLease } from '../../lib/restart/machine-lease.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const { namespace } = restartLease;
const secrets = `/api/v1/namespaces/${namespace}/secrets`;
const main = join(import.meta.dirname, '..', '..', 'dist', 'app', 'main.mjs');

let directory: string;
let controlPlane: ControlPlane;
let pod: ChildProcess | undefined;
const lines: Record<string, unknown>[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'pod-'));
  controlPlane = await startControlPlane();
  const body = { metadata: { name: namespace } };
  expect((await controlPlane.admin('/api/v1/namespaces', { method: 'POST', body })).status).toBe(201);
});
afterAll(async () => {
  if (pod?.exitCode === null) {
    const ended = new Promise((resolve) => void pod?.once('exit', resolve));
    pod.kill('SIGKILL'); // and with it all of its namespace
    await ended;
  }
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const keys = (name: string): object => {
  const pair = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  return { metadata: { name }, stringData: { 'sa.key': pair.privateKey, 'sa.pub': pair.publicKey } };
};
const reader = 'readers: [{ component: kube-apiserver, needs: restart }]';
const row = (name: string): string =>
  `{ kind: keyPair, name: ${name}, location: { secret: ${name} }, privateKey: sa.key, publicKey: sa.pub, published: required, ${reader} }`;

async function startPod(): Promise<void> {
  const config = join(directory, 'config.yaml');
  await writeFile(
    config,
    `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
modes: [syncer]
namespace: ${namespace}
inventory:
  artefacts:
    - ${row('one')}
    - ${row('two')}
kubeconfig: ${controlPlane.recoveryKubeconfig}
syncer: { destinationDir: ${join(directory, 'certs')}, restart: react, shortBackOff: true }
`,
  );
  const component = `exec -a kube-apiserver sh -c 'echo started >>${join(directory, 'starts')}; while :; do sleep 0.1; done'`;
  const kubelet = `while :; do (${component}); sleep 0.3; done`;
  const script = `(${kubelet}) </dev/null >/dev/null 2>&1 & ${process.execPath} ${main} --config=${config}`;
  const unshare = [...asRoot, '--mount', ...unseen, 'bash', '-c', script];
  pod = spawn('unshare', unshare, { stdio: ['ignore', 'ignore', 'pipe'] });
  let rest = '';
  pod.stderr?.on('data', (chunk: Buffer) => {
    const parts = `${rest}${chunk.toString()}`.split('\n');
    rest = parts.pop() ?? '';
    for (const part of parts) if (part.startsWith('{')) lines.push(JSON.parse(part) as Record<string, unknown>);
  });
}

const starts = async (): Promise<number> =>
  (await readFile(join(directory, 'starts'), 'utf8').catch(() => '')).split('\n').length - 1;
const done = (): Record<string, unknown>[] => lines.filter(({ event }) => event === 'restart.done');
const soon = <T>(read: () => T | Promise<T>) => expect.poll(read, { interval: 100, timeout: 240_000 });

it('ends the component that shares its PID namespace once for each recovery, in its turn', async () => {
  for (const name of ['one', 'two']) {
    expect((await controlPlane.admin(secrets, { method: 'POST', body: keys(name) })).status).toBe(201);
  }
  await startPod();
  await soon(() => done().length).toBe(1); // it was there before the files
  await soon(starts).toBe(2);
  const lease = async (): Promise<unknown> =>
    (await controlPlane.admin(`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${restartLease.name}`)).body;
  await soon(lease).toMatchObject({ spec: { holderIdentity: '', leaseTransitions: 0 } });

  const changed = ['one', 'two'].map(async (name) => {
    const { metadata, ...entries } = keys(name) as { metadata: object };
    const contentType = 'application/merge-patch+json';
    const { status } = await controlPlane.admin(`${secrets}/${name}`, { method: 'PATCH', contentType, body: entries });
    expect(status, JSON.stringify(metadata)).toBe(200);
  });
  await Promise.all(changed);
  await soon(() => done().length).toBe(2);
  await delay(4_000);
  expect(await starts()).toBe(3);
  expect(await lease()).toMatchObject({ spec: { holderIdentity: '', leaseTransitions: 1 } });
  expect(lines.filter(({ event }) => event === 'reaction.failed')).toEqual([]);
  expect(done()[1]?.['message']).toMatch(/^SIGTERM to process \d+, which ran \d+ s; \d+ runs$/);
}, 600_000);
