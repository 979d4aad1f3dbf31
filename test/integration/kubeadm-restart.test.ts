// One run with --restart beside a real etcd, API server and scheduler of a machine that the real kubeadm made: what has
// been renewed is read again, once, and that it is in use is proven by those who use it.
import { readFile, writeFile } from 'node:fs/promises';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findBinaries } from '../support/cluster/binaries.ts';
import type { ComponentName } from '../support/cluster/components.ts';
import { eventually } from '../support/eventually.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { SupervisedProcess } from '../support/cluster/process.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const names: readonly ComponentName[] = ['etcd', 'kube-apiserver', 'kube-scheduler'];

let machine: KubeadmMachine;
let config: string;
const processes = new Map<string, SupervisedProcess>();

beforeAll(async () => {
  machine = await KubeadmMachine.create();
  await machine.startNetwork();
  config = await machine.configuration();
  const binaries = await findBinaries([...names, 'kubectl']);
  for (const name of names) start(name, [binaries.get(name) ?? '', ...(await machine.flagsOf(name))]);
  start('kubelet', machine.kubeletStub(binaries.get('kubectl') ?? ''));
  const scheduler = processes.get('kube-scheduler');
  await eventually(() => expect(scheduler?.logTail(10_000).toLowerCase()).toContain('successfully acquired lease'));
});
function start(name: string, command: readonly string[]): void {
  const logFile = join(machine.root, `${name}.log`);
  // As the kubelet and systemd do.
  const again = { restarts: 5, restartDelay: 200 };
  const args = [...machine.inNetwork, ...command];
  processes.set(name, new SupervisedProcess({ name, command: 'nsenter', args, logFile, ...again }));
}

afterAll(async () => {
  for (const each of [...processes.values()].toReversed()) await each.kill();
  await machine?.[Symbol.asyncDispose]();
});

interface Line {
  readonly event: string;
  readonly component?: string;
  readonly message?: string;
}

async function recover(): Promise<Outcome & { readonly lines: readonly Line[] }> {
  const own = [process.execPath, program, '--mode=regen', '--once', '--restart', `--config=${config}`];
  const { stdout, stderr, code } = await new Promise<Outcome>((resolve) => {
    execFile('nsenter', [...machine.inNetwork, ...own], (err, out, told) =>
      resolve({ stdout: out, stderr: told, code: err === null ? 0 : Number(err.code) }),
    );
  });
  return {
    stdout,
    stderr,
    code,
    lines: stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line),
  };
}

const of = (lines: readonly Line[], event: string): readonly string[] =>
  lines
    .filter((line) => line.event === event)
    .map(({ component = '' }) => component)
    .toSorted();

it('restarts the scheduler once, and proves that it and the API server use what was renewed', async () => {
  const scheduler = processes.get('kube-scheduler');
  for (const name of ['scheduler.conf', 'pki/apiserver.crt']) await writeFile(machine.path(name), '');
  const first = await recover();
  expect(first.code, first.stderr).toBe(0);
  expect(of(first.lines, 'restart.done')).toEqual(['kube-scheduler']);
  expect(of(first.lines, 'proof.succeeded')).toEqual(['kube-apiserver', 'kube-scheduler']);
  expect(scheduler?.restarted).toBe(1);
  expect(await readFile(machine.path('scheduler.conf'), 'utf8')).toContain('client-certificate-data');

  const second = await recover();
  expect(second.code, second.stderr).toBe(0);
  expect([...of(second.lines, 'restart.done'), ...of(second.lines, 'proof.succeeded')]).toEqual([]);
  expect(scheduler?.restarted).toBe(1);
});

it('restarts nobody for what is read without a restart', async () => {
  await writeFile(machine.path('pki/apiserver-kubelet-client.crt'), '');
  const { code, stderr, lines } = await recover();
  expect(code, stderr).toBe(0);
  expect(of(lines, 'restart.done')).toEqual([]);
  expect(of(lines, 'proof.succeeded')).toEqual(['kube-apiserver']);
});

it('restarts the kubelet once, and proves that its new identity renews the Lease of its node', async () => {
  const kubelet = processes.get('kubelet');
  await eventually(() => expect(kubelet?.logTail()).toContain('lease.coordination.k8s.io/node1'));
  await writeFile(machine.path('kubelet.conf'), '');
  const { code, stderr, lines } = await recover();
  expect(code, stderr).toBe(0);
  expect(of(lines, 'restart.done')).toEqual(['kubelet']);
  expect(of(lines, 'proof.succeeded')).toEqual(['kube-apiserver', 'kubelet']);
  expect(kubelet?.restarted).toBe(1);
});
