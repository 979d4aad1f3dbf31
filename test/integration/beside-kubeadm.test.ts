// The real `kubeadm certs renew` and runs of ours on the same files, before, after and at the same time: nobody takes back
// what the other has done, and both come to rest. kubeadm works in a PID namespace of its own, so a run does not see it: the
// worst case, but for the last test, in which it does.
import { spawn } from 'node:child_process';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, afterEach, describe, expect, it } from 'vitest';
import { dated } from '../support/certificates/dated.ts';
import { type Line, RunningMachine } from '../support/cluster/running-machine.ts';
import { kubeadmCertificates, kubeadmKubeconfigs, kubeadmPairs } from '../support/kubeadm-names.ts';
import { unseen } from '../support/cluster/namespaces.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const day = 86_400_000;
const fileOf = (name: string): string => `pki/${name.replace(/^etcd-/, 'etcd/')}`;

let running: RunningMachine;
const path = (...names: readonly string[]): string => running.machine.path(...names);
const read = (name: string): Promise<string> => readFile(path(name), 'utf8');

/** Every file that both write, with what is in it. */
async function files(): Promise<Readonly<Record<string, string>>> {
  const names = [
    ...kubeadmPairs.flatMap((name) => [`${fileOf(name)}.crt`, `${fileOf(name)}.key`]),
    ...kubeadmKubeconfigs,
  ];
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await read(name)] as const)));
}
const changed = (one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): string[] =>
  Object.keys(one).filter((name) => one[name] !== other[name]);

async function ours(): Promise<readonly string[]> {
  const { lines, code, stderr } = await running.run();
  expect(code, stderr).toBe(0);
  return lines.flatMap(({ event, artefact = '' }) => (/^(target\.|signer\.)/.test(event) ? [artefact] : []));
}

/** A run of ours, whose log can be looked at before it ends. */
function started(): { readonly lines: Promise<readonly string[]>; readonly seen: (text: string) => boolean } {
  const args = [...running.machine.inNetwork, process.execPath, program, '--mode=regen', '--once'];
  const child = spawn('nsenter', [...args, `--config=${running.config}`], { stdio: ['ignore', 'ignore', 'pipe'] });
  let told = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (told += text));
  const lines = new Promise<readonly string[]>((resolve) => child.once('close', () => resolve(told.split('\n'))));
  return { lines, seen: (text) => told.includes(text) || child.exitCode !== null };
}

const theirs = (...names: readonly string[]): Promise<string> =>
  running.machine.kubeadmDone('certs', 'renew', ...names);

/** After both: kubeadm finds all valid, and neither a run of ours nor its own next look changes anything. */
async function isAtRest(): Promise<void> {
  const before = await files();
  expect(await ours()).toEqual([]);
  const told = await running.machine.kubeadmDone('certs', 'check-expiration', '-o', 'json');
  const { certificates } = JSON.parse(told) as {
    readonly certificates: readonly {
      readonly name: string;
      readonly residualTime: number;
      readonly missing: boolean;
    }[];
  };
  expect(certificates.map(({ name }) => name).toSorted()).toEqual(kubeadmCertificates);
  for (const { name, residualTime, missing } of certificates) {
    expect(missing, name).toBe(false);
    expect(residualTime, name).toBeGreaterThan(300 * 86_400);
  }
  for (const name of kubeadmPairs) {
    const certificate = new X509Certificate(before[`${fileOf(name)}.crt`] ?? '');
    expect(certificate.checkPrivateKey(createPrivateKey(before[`${fileOf(name)}.key`] ?? '')), name).toBe(true);
  }
  expect(changed(before, await files())).toEqual([]);
}

describe('a machine whose leaves have a year', () => {
  beforeAll(async () => {
    running = await RunningMachine.prepare();
  });
  afterAll(() => running?.[Symbol.asyncDispose]());

  it('is at rest after kubeadm has renewed all of them', async () => {
    const before = await files();
    await theirs('all');
    expect(changed(before, await files())).toHaveLength(Object.keys(before).length);
    await isAtRest();
  });

  it('leaves a pair alone of which kubeadm has written the key, and not yet the certificate', async () => {
    const pair = ['pki/apiserver.crt', 'pki/apiserver.key'] as const;
    const kept = join(running.machine.root, 'tmp');
    for (const [at, name] of pair.entries()) await copyFile(path(name), join(kept, String(at)));
    await theirs('apiserver');
    const [certificate] = await Promise.all(pair.map(read));
    // Its key is new, its certificate the former one: kubeadm is at work for as long as that is written again and again.
    const former = await readFile(join(kept, '0'));
    await running.configure({ log: { level: 'debug' } });
    const { lines, seen } = started();
    for (; !seen('"reason":"Settling"'); await delay(100)) await writeFile(path(pair[0]), former);
    await writeFile(path(pair[0]), certificate ?? '');
    expect((await lines).filter((line) => line.includes('"target.regenerated"'))).toEqual([]);
    await running.configure({});
    expect(await read(pair[0])).toBe(certificate);
    await isAtRest();
  });

  it('gets a pair of its own where kubeadm was killed in between', async () => {
    await copyFile(path('pki/etcd/peer.key'), path('pki/etcd/server.key'));
    expect(await ours()).toEqual(['etcd-server']);
    await isAtRest();
  });

  it('takes over from a CA that was renewed with its own key: kubeadm embeds it, and nothing is left to do', async () => {
    const dates = [-3550, 100].map((days) => new Date(Math.floor(Date.now() / 1000) * 1000 + days * day));
    const former = dated(await read('pki/ca.crt'), await read('pki/ca.key'), ...(dates as [Date, Date]));
    await writeFile(path('pki/ca.crt'), former);
    for (const name of kubeadmKubeconfigs)
      await writeFile(
        path(name),
        (await read(name)).replace(/(certificate-authority-data: )\S+/, `$1${encoded(former)}`),
      );
    await theirs('all');
    expect(await ours()).toContain('ca');
    const renewed = await read('pki/ca.crt');
    expect(renewed).not.toBe(former);
    await theirs('all');
    for (const name of kubeadmKubeconfigs) expect(await read(name), name).toContain(encoded(renewed));
    await isAtRest();
  });
});

/** A kubeadm that is at work until somebody gives it its configuration, and runs of ours in its PID namespace. */
const inTurn = `
  mkfifo "$root/config.fifo"
  "$kubeadm" certs renew all --config=/config.fifo --rootfs="$root" >/dev/null 2>&1 & kubeadm_pid=$!
  until [ "$(cat /proc/$kubeadm_pid/comm)" = kubeadm ]; do sleep 0.05; done
  run() { "$node" "$program" --mode=regen --once --config="$root/recovery.yaml" 2>&1; echo "$1 $?"; }
  run beside
  cat "$root/config.yaml" >"$root/config.fifo"
  wait $kubeadm_pid; echo "kubeadm $?"
  run after
`;

describe('a kubeadm that a run of ours sees', () => {
  beforeAll(async () => {
    running = await RunningMachine.prepare();
  });
  afterAll(() => running?.[Symbol.asyncDispose]());

  it('keeps it from writing what it has found broken, until it has ended', async () => {
    await writeFile(path('pki/apiserver-kubelet-client.crt'), '');
    const values = { root: running.machine.root, kubeadm: running.kubeadmFile, node: process.execPath, program };
    const given = Object.entries(values).map(([name, value]) => `${name}=${value}`);
    const { stdout } = await running.inNetwork('unshare', ...unseen, 'env', ...given, 'sh', '-c', inTurn);
    // kubeadm itself stops at a certificate that it cannot read.
    expect(stdout).toMatch(/AlreadyRunning[^]*^beside 1$[^]*^kubeadm 1$[^]*^after 0$/m);
    expect(await read('pki/apiserver-kubelet-client.crt')).toContain('BEGIN CERTIFICATE');
    await isAtRest();
  });
});

const encoded = (pem: string): string => Buffer.from(pem).toString('base64');

describe('a machine whose leaves are due for both', () => {
  beforeEach(async () => {
    running = await RunningMachine.prepare('certificateValidityPeriod: 480h');
  });
  afterEach(() => running?.[Symbol.asyncDispose]());

  it('comes to rest when both renew them again and again at the same time', async () => {
    const over = new AbortController();
    const written: Line[] = [];
    const runs = (async () => {
      while (!over.signal.aborted) {
        const { lines } = await running.run();
        written.push(...lines.filter(({ event }) => event === 'target.regenerated'));
      }
    })();
    for (let round = 0; round < 4; round += 1) await theirs('all');
    over.abort();
    await runs;
    // What kubeadm has written last has its twenty days. Runs that lost every race have written nothing before.
    const last = await ours();
    expect(written.length + last.length).toBeGreaterThan(0);
    await isAtRest();
  });
});
