// Whatever lies in the place of a file that the preset names on a machine of the real kubeadm whose leaves have all expired: 200
// kinds of content that are none of a damaged file of the role (test/support/faults/contents-of-others.ts), and what is no file.
// Not a byte of it changes, each is named, and no run says that all is well.
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { resolveHere } from '../../cmd/read-config.ts';
import { systemClock } from '../../lib/clock.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { EtcdMembers } from '../support/cluster/etcd-members.ts';
import { expire } from '../support/cluster/expire.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';
import type { OtherCluster } from '../support/faults/contents-of-others.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const child = fileURLToPath(new URL('../support/faults/others-child.ts', import.meta.url));

let machine: KubeadmMachine;
let other: KubeadmMachine;
let cluster: OtherCluster;
beforeAll(async () => {
  [machine, other] = await Promise.all([KubeadmMachine.create(), KubeadmMachine.create()]);
  const text = (path: string): Promise<string> => readFile(other.path(path), 'utf8');
  const elsewhere = async (): Promise<string> =>
    (await text('admin.conf')).replace(/server: .*/, 'server: https://api.example.com:6443');
  const sound = { kubeconfig: await elsewhere(), certificate: await text('pki/ca.crt'), key: await text('pki/ca.key') };
  await Promise.all([expireLeaves(machine), expireLeaves(other)]);
  cluster = { ...sound, expired: await elsewhere() };
});
afterAll(() => Promise.all([machine?.[Symbol.asyncDispose](), other?.[Symbol.asyncDispose]()]));

async function expireLeaves({ directories }: KubeadmMachine): Promise<void> {
  const environment = { directories };
  const resolved = await resolveHere({ inventory: loadPreset('kubeadm'), environment });
  const store = createDiskStore();
  const found = await Promise.all(
    resolved.artefacts.map(({ location }) => store.read(location, AbortSignal.timeout(60_000))),
  );
  const artefacts = resolved.artefacts.filter((_, at) => found[at] !== undefined);
  const except = ({ kind }: { readonly kind: string }): boolean => kind !== 'target';
  const span = { now: systemClock.now(), agoMs: 30_000, lifeMs: 60_000 };
  await expire({ resolved: { ...resolved, artefacts }, store, except, ...span });
}

interface Outcome {
  readonly kinds: number;
  readonly places: number;
  readonly violations: readonly string[];
}

const apart = (...own: readonly string[]): Promise<{ readonly stdout: string }> =>
  promisify(execFile)('unshare', [...asRoot, '--net', ...unseen, process.execPath, ...own], { maxBuffer: 1 << 26 });

async function tried(preset: string, root: string, directories: Readonly<Record<string, string>>): Promise<Outcome> {
  const { stdout } = await apart(child, preset, root, JSON.stringify(directories), JSON.stringify(cluster));
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as Outcome;
}

it('no byte changes of what is no damaged file of its role, and each is named', async () => {
  const { kinds, places, violations } = await tried('kubeadm', machine.root, machine.directories);
  expect(violations).toEqual([]);
  expect(kinds).toBeGreaterThanOrEqual(200);
  expect(places).toBeGreaterThanOrEqual(25);
}, 300_000);

it('neither does one on a machine of etcdadm', async () => {
  const day = 86_400_000;
  const now = systemClock.now().getTime();
  const dates = { notBefore: new Date(now - 400 * day), notAfter: new Date(now - 35 * day) };
  await using etcd = await EtcdMembers.create(dates);
  const [member] = etcd.members;
  if (member === undefined) throw new Error('no member');
  const { places, violations } = await tried('etcdadm', member.root, { etcdPkiDir: member.pki });
  expect(violations).toEqual([]);
  expect(places).toBeGreaterThanOrEqual(10);
}, 300_000);

async function recovered(at: KubeadmMachine, ...flags: readonly string[]): Promise<string> {
  const config = join(at.root, 'recovery.yaml');
  const regen = JSON.stringify({ backupDir: join(at.root, 'backups'), lockDir: join(at.root, 'lock') });
  await writeFile(
    config,
    `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n` +
      `directories: ${JSON.stringify(at.directories)}\nregen: ${regen}\n`,
  );
  return (await apart(program, ...flags, `--config=${config}`)).stdout;
}

const leaves = [
  ...['apiserver', 'apiserver-etcd-client', 'etcd/peer', 'front-proxy-client'].flatMap((name) => [
    `pki/${name}.crt`,
    `pki/${name}.key`,
  ]),
  ...['admin', 'controller-manager', 'scheduler', 'kubelet'].map((name) => `${name}.conf`),
];

/** Of a leaf, or of the certificate that a kubeconfig embeds or names. */
async function notAfter(path: string): Promise<Date> {
  const text = await readFile(path, 'utf8');
  const file = /client-certificate: (\S+)/.exec(text)?.[1];
  if (file !== undefined) return notAfter(file);
  const data = /client-certificate-data: (\S+)/.exec(text)?.[1];
  return new X509Certificate(data === undefined ? text : Buffer.from(data, 'base64')).validToDate;
}

const allAreValid = async (at: KubeadmMachine): Promise<void> => {
  const ends = await Promise.all(
    leaves.filter((name) => !name.endsWith('.key')).map((name) => notAfter(at.path(name))),
  );
  for (const end of ends) expect(end.getTime()).toBeGreaterThan(systemClock.now().getTime());
};

it.each<[string, (bytes: Buffer) => Buffer]>([
  ['empty', () => Buffer.alloc(0)],
  ['zeros', (bytes) => Buffer.alloc(bytes.length)],
  ['half', (bytes) => bytes.subarray(0, bytes.length / 2)],
  ['a first line', (bytes) => bytes.subarray(0, 12)],
  ['zeros behind a first part', (bytes) => Buffer.from(bytes).fill(0, 512)],
  ['zeros before a last part', (bytes) => Buffer.from(bytes).fill(0, 0, 100)],
])('what a power loss has left is repaired: %s', async (_title, damage) => {
  await using copy = await machine.copy();
  for (const name of leaves) await writeFile(copy.path(name), damage(await readFile(copy.path(name))));
  await recovered(copy, '--mode=regen', '--once');
  await allAreValid(copy);
});

it("renews a component's kubeconfig with names of its own and a server that no other file names", async () => {
  await using copy = await machine.copy();
  const path = copy.path('controller-manager.conf');
  const renamed = (await readFile(path, 'utf8'))
    .replace(/server: .*/, 'server: https://lb.example.com:16443')
    .replaceAll(/\bkubernetes\b/g, 'prod')
    .replaceAll('system:kube-controller-manager', 'kcm');
  await writeFile(path, renamed);
  await recovered(copy, '--mode=regen', '--once');
  await allAreValid(copy);
  const now = await readFile(path, 'utf8');
  const withoutData = (text: string): string => text.replaceAll(/(-data: ).*/g, '$1');
  expect(withoutData(now)).toBe(withoutData(renamed));
});
