// A real kube-controller-manager of a machine that the real kubeadm made, whose kubeconfig somebody else replaces while it
// runs: `status` says what it runs with, and the run that restarts restarts it where that is of no use any more.
import { execFile } from 'node:child_process';
import { chmod, readFile, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import type { ComponentName } from '../support/cluster/components.ts';
import { createLeaf } from '../support/certificates/certificates.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { SupervisedProcess } from '../support/cluster/process.ts';
import { eventually } from '../support/eventually.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const names: readonly ComponentName[] = ['etcd', 'kube-apiserver', 'kube-controller-manager'];
const manager = 'kube-controller-manager';
const kubeconfig = 'controller-manager.conf';
const hour = 3_600_000;

let machine: KubeadmMachine;
let config: string;
const processes = new Map<string, SupervisedProcess>();

beforeAll(async () => {
  machine = await KubeadmMachine.create();
  await machine.startNetwork();
  config = await machine.configuration();
  await replaceIdentity(-hour);
  const binaries = await findBinaries([...names, 'kubectl']);
  for (const name of names) start(name, [binaries.get(name) ?? '', ...(await machine.flagsOf(name))]);
  start('kubelet', machine.kubeletStub(binaries.get('kubectl') ?? ''));
  await eventually(() => expect(logOf('kubelet')).toContain('lease.coordination.k8s.io/node1'));
  await eventually(() => expect(logOf(manager)).toContain('Unauthorized'));
});
afterAll(async () => {
  for (const each of [...processes.values()].toReversed()) await each.kill();
  await machine?.[Symbol.asyncDispose]();
});

function start(name: string, command: readonly string[]): void {
  const logFile = join(machine.root, `${name}.log`);
  const again = { restarts: 5, restartDelay: 200 };
  const args = [...machine.inNetwork, ...command];
  processes.set(name, new SupervisedProcess({ name, command: 'nsenter', args, logFile, ...again }));
}

const logOf = (name: string): string => processes.get(name)?.logTail(10_000) ?? '';
const restarts = (): number => processes.get(manager)?.restarted ?? 0;
const pid = (): number => processes.get(manager)?.pid ?? 0;

/** Another credential of the same user in its kubeconfig, which ends so long after now. */
async function replaceIdentity(leftMs: number): Promise<void> {
  const ca = { cert: machine.path('pki/ca.crt'), key: machine.path('pki/ca.key') };
  const now = systemClock.now().getTime();
  const leaf = await createLeaf(join(machine.root, `identity${leftMs}`), ca, {
    commonName: `system:${manager}`,
    notBefore: new Date(now - 2 * hour),
    notAfter: new Date(now + leftMs),
  });
  let text = await readFile(machine.path(kubeconfig), 'utf8');
  for (const [field, path] of Object.entries({ certificate: leaf.cert, key: leaf.key })) {
    const data = (await readFile(path)).toString('base64');
    text = text.replace(new RegExp(`client-${field}-data: .*`), `client-${field}-data: ${data}`);
  }
  await writeFile(machine.path(kubeconfig), text);
}

function run(...args: readonly string[]): Promise<Outcome> {
  const own = [...machine.inNetwork, process.execPath, program, ...args, `--config=${config}`];
  return new Promise((resolve) => {
    execFile('nsenter', own, (err, stdout, stderr) =>
      resolve({ stdout, stderr, code: err === null ? 0 : Number(err.code) }),
    );
  });
}

interface Info {
  readonly status: string;
  readonly problems: readonly string[];
  readonly notLoaded: readonly Readonly<Record<string, unknown>>[];
}

async function status(): Promise<Info & { readonly code: number }> {
  const { stdout, stderr, code } = await run('status', '-o', 'json');
  expect(stdout, stderr).not.toBe('');
  return { ...(JSON.parse(stdout) as Info), code };
}

/** The run of the timer; the answer: who was restarted, and whose use was proven. */
async function recover(): Promise<{ readonly restarted: readonly string[]; readonly proven: readonly string[] }> {
  const { stderr, code } = await run('--mode=regen', '--once', '--restart');
  expect(code, stderr).toBe(0);
  const lines = stderr.trim().split('\n');
  const of = (event: string): readonly string[] =>
    lines.flatMap((line) => {
      const { event: logged, component = '' } = JSON.parse(line) as { event: string; component?: string };
      return logged === event ? [component] : [];
    });
  return { restarted: of('restart.done'), proven: of('proof.succeeded').toSorted() };
}

it('one that has loaded an expired credential before anybody looked is named, and restarted once', async () => {
  await machine.kubeadmDone('certs', 'renew', kubeconfig);
  const { code, problems, notLoaded } = await status();
  expect(code).toBe(3);
  expect(notLoaded).toMatchObject([{ name: kubeconfig, component: manager, process: pid(), state: 'unknown' }]);
  expect(problems).toEqual([expect.stringContaining(`Restart it: kill ${pid()}`)]);

  expect(await recover()).toEqual({ restarted: [manager], proven: ['kube-apiserver', manager] });
  expect(restarts()).toBe(1);
  expect(await recover()).toEqual({ restarted: [], proven: [] });
  expect(await status()).toMatchObject({ code: 0, notLoaded: [] });
});

it('a file that is touched, or written again with the same content, restarts nobody', async () => {
  const text = await readFile(machine.path(kubeconfig), 'utf8');
  await utimes(machine.path(kubeconfig), systemClock.now(), systemClock.now());
  await chmod(machine.path(kubeconfig), 0o640);
  await writeFile(machine.path(kubeconfig), `# a comment\n${text}`);
  await chmod(machine.path(kubeconfig), 0o600);
  expect(await status()).toMatchObject({ code: 0, notLoaded: [] });
  expect(await recover()).toEqual({ restarted: [], proven: [] });
  expect(restarts()).toBe(1);
});

it('one whose former credential is still valid is left to the administrator, and named with its end', async () => {
  await machine.kubeadmDone('certs', 'renew', kubeconfig);
  const { code, notLoaded, status: state } = await status();
  expect([code, state]).toEqual([3, 'recovering']);
  const [one = {}] = notLoaded;
  expect(one).toMatchObject({ name: kubeconfig, process: pid(), state: 'former' });
  const [ends, restart] = [one['expirationDate'], one['restartsAt']].map((text) => Date.parse(String(text)));
  expect((ends ?? 0) - (restart ?? 0)).toBe(24 * hour);
  expect(await recover()).toEqual({ restarted: [], proven: [] });
  // What an administrator does.
  process.kill(pid());
  await eventually(() => expect(restarts()).toBe(2));
  await eventually(async () => expect((await status()).code).toBe(0));
  expect(await recover()).toEqual({ restarted: [], proven: [] });
});

it('one whose credential ends within a day is restarted for the one that is there', async () => {
  await replaceIdentity(12 * hour);
  process.kill(pid());
  await eventually(() => expect(restarts()).toBe(3));
  expect(await recover()).toEqual({ restarted: [], proven: [] });
  await machine.kubeadmDone('certs', 'renew', kubeconfig);
  expect(await status()).toMatchObject({ code: 3, notLoaded: [{ state: 'former' }] });
  expect(await recover()).toEqual({ restarted: [manager], proven: ['kube-apiserver', manager] });
  expect(restarts()).toBe(4);
  expect(await recover()).toEqual({ restarted: [], proven: [] });
});
