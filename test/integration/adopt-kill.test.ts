// `init adopt` is killed (SIGKILL) before each of its writes in turn: rights, objects, files. After every death each
// manifest is there and whole, with the former or the new content, and nothing else lies beside them that a kubelet would
// run; no key and no token lies in a file that others can read; and the next run completes the adoption.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type PodManifest, removeFrom } from '../../lib/adopt/static-pods.ts';
import { parseYaml } from '../../lib/yaml.ts';
import type { Sort } from '../support/faults/adopt-child.ts';
import { asAdoptable } from '../support/cluster/adopt-world.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { FakeKubelet } from '../support/cluster/fake-kubelet.ts';

const child = fileURLToPath(new URL('../support/faults/adopt-child.ts', import.meta.url));
const objects = ['secrets', 'configmaps'].map((kind) => `/api/v1/namespaces/kube-cert-recovery/${kind}`);

let compiled: string;
let plane: ControlPlane;
let pristine: KubeadmMachine;
beforeAll(async () => {
  compiled = await mkdtemp(join(tmpdir(), 'adopt-kill-'));
  // Node writes what it has compiled when it ends, and those that are killed do not: this one ends by itself.
  spawnSync(process.execPath, [child, compiled, compiled], { env: { ...process.env, NODE_COMPILE_CACHE: compiled } });
  plane = await startControlPlane({ components: ['etcd', 'kube-apiserver', 'kube-controller-manager'] });
  pristine = await KubeadmMachine.create();
});
afterAll(async () => {
  await pristine?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
  await rm(compiled, { recursive: true, force: true });
});

interface Run {
  readonly killed: boolean;
  readonly output: string;
}

async function adoptUntil(machine: KubeadmMachine, sort: Sort, nth: number): Promise<Run> {
  const running = spawn(process.execPath, [child, machine.root, plane.recoveryKubeconfig, sort, String(nth)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_COMPILE_CACHE: compiled },
  });
  let output = '';
  running.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  await once(running, 'close');
  const killed = running.signalCode === 'SIGKILL';
  expect(killed || output.includes('"files"'), `neither killed nor done: ${output}`).toBe(true);
  return { killed, output };
}

type Manifests = ReadonlyMap<string, PodManifest>;

/** Without what is ours. */
async function bare(machine: KubeadmMachine): Promise<Manifests> {
  const names = (await readdir(machine.path('manifests'))).filter((name) => !name.startsWith('.'));
  const read = names.map(async (name) => {
    const text = await readFile(machine.path('manifests', name), 'utf8');
    return [name, removeFrom(parseYaml(text) as PodManifest)] as const;
  });
  return new Map(await Promise.all(read));
}

/** What is there at any moment. Returns how many files a killed run has left. */
async function look(machine: KubeadmMachine, before: Manifests, at: string): Promise<number> {
  expect(await bare(machine), at).toEqual(before);
  const entries = await readdir(machine.path(), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  for (const file of files) {
    const text = await readFile(file, 'utf8');
    const isSecret = text.includes('PRIVATE KEY') || /(^|token: )eyJ/m.test(text);
    if (isSecret) expect((await stat(file)).mode & 0o077, `${at}, ${file}`).toBe(0);
  }
  return files.filter((file) => file.includes('.kube-cert-recovery-')).length;
}

/** Runs until one is not killed. */
async function everyKill(sort: Sort, run: (nth: number) => Promise<boolean>): Promise<void> {
  let nth = 0;
  while (await run(nth)) nth += 1;
  console.log(`killed before ${nth} ${sort}`);
  expect(nth, sort).toBeGreaterThan(20);
}

async function forgetObjects(): Promise<void> {
  for (const path of objects) await plane.admin(path, { method: 'DELETE' });
}

/** With a kubelet that runs whatever the manifests say. */
async function onMachine(run: (machine: KubeadmMachine, before: Manifests) => Promise<void>): Promise<void> {
  await using machine = await asAdoptable(await pristine.copy());
  const before = await bare(machine);
  await using _ = new FakeKubelet(plane, { manifestsDir: machine.path('manifests'), nodeName: 'node1' });
  await run(machine, before);
}

test(
  'an adoption that is killed before any of its grants is completed by the next',
  () =>
    onMachine(async (machine, before) => {
      // They are applied again each time, so each death comes one further.
      await everyKill('rights', async (nth) => (await adoptUntil(machine, 'rights', nth)).killed);
      expect(await look(machine, before, 'completed')).toBe(0);
    }),
  900_000,
);

test('an adoption that is killed before any of its objects is completed by the next', async () => {
  await forgetObjects();
  await onMachine(async (machine, before) => {
    expect((await adoptUntil(machine, 'objects', 0)).killed).toBe(true);
    // One that is there is not made again: each run makes one, and dies before the next.
    await everyKill('objects', async () => (await adoptUntil(machine, 'objects', 1)).killed);
    expect(await look(machine, before, 'completed')).toBe(0);
  });
}, 900_000);

test('an adoption that is killed before any of its files takes its place is completed by the next', async () => {
  let residues = 0;
  await onMachine(async (machine, before) => {
    expect((await adoptUntil(machine, 'files', 0)).killed).toBe(true);
    // A file that is right is left alone: each run puts one in its place, and dies before the next.
    await everyKill('files', async (nth) => {
      const { killed } = await adoptUntil(machine, 'files', 1);
      residues += await look(machine, before, `killed after file ${nth}`);
      return killed;
    });
    expect(await look(machine, before, 'completed')).toBe(0);
  });
  expect(residues).toBeGreaterThan(20); // otherwise no death came in the middle of anything
}, 900_000);
