// `status` of a kubeadm machine held against the real `kubeadm certs check-expiration` on the same files, and against
// the certificates that a real etcd and kube-apiserver serve.
import { copyFile, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import { createLeaf } from '../support/certificates/certificates.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { SupervisedProcess } from '../support/cluster/process.ts';
import { parseYaml } from '../../lib/yaml.ts';

let pristine: KubeadmMachine;
beforeAll(async () => {
  pristine = await KubeadmMachine.create();
});
afterAll(() => pristine?.[Symbol.asyncDispose]());

type Entry = Readonly<Record<string, unknown>>;
interface Info {
  readonly kind: string;
  readonly apiVersion: string;
  readonly certificates: readonly Entry[];
  readonly certificateAuthorities: readonly Entry[];
  readonly [own: string]: unknown;
}

/** Without what is ours alone, and without the seconds, which go on between two commands. */
function ofKubeadm({ kind, apiVersion, certificates, certificateAuthorities }: Info) {
  const keys = ['name', 'expirationDate', 'externallyManaged', 'caName', 'missing'];
  const only = (entry: Entry) => Object.fromEntries(Object.entries(entry).filter(([key]) => keys.includes(key)));
  return {
    kind,
    apiVersion,
    certificates: certificates.map(only),
    certificateAuthorities: certificateAuthorities.map(only),
  };
}

const residuals = ({ certificates, certificateAuthorities }: Info): number[] =>
  [...certificates, ...certificateAuthorities].map((entry) => Number(entry['residualTime']));

async function agrees(machine: KubeadmMachine): Promise<Outcome> {
  const theirs = await machine.kubeadmDone('certs', 'check-expiration');
  const ours = await machine.status();
  expect(theirs).toMatch(/\n\nCERTIFICATE AUTHORITY +EXPIRES/);
  expect(ours.stdout.slice(0, theirs.length + 1), ours.stderr).toBe(`${theirs}\n`);

  const theirJson = JSON.parse(await machine.kubeadmDone('certs', 'check-expiration', '-o', 'json')) as Info;
  const ourJson = JSON.parse((await machine.status('-o', 'json')).stdout) as Info;
  expect(ofKubeadm(ourJson)).toEqual(ofKubeadm(theirJson));
  const wanted = residuals(theirJson);
  for (const [at, seconds] of residuals(ourJson).entries()) {
    expect(Math.abs(seconds - (wanted[at] ?? Number.NaN))).toBeLessThan(60);
  }
  return ours;
}

async function expire(machine: KubeadmMachine, name: string, ca: string): Promise<void> {
  const pki = (file: string) => ({ cert: machine.path('pki', `${file}.crt`), key: machine.path('pki', `${file}.key`) });
  const leaf = await createLeaf(join(machine.root, 'leaf'), pki(ca), {
    commonName: 'node1',
    dnsNames: ['node1', 'localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc'],
    notBefore: new Date('2025-01-01T00:00:00Z'),
    notAfter: new Date('2026-01-01T00:00:00Z'),
  });
  await copyFile(leaf.cert, pki(name).cert);
  await copyFile(leaf.key, pki(name).key);
}

const remove = async (machine: KubeadmMachine, ...names: readonly string[]): Promise<void> => {
  for (const name of names) await rm(machine.path(name), { recursive: true });
};

/** As kubeadm leaves a machine whose CA has its key elsewhere: kube-controller-manager signs nothing. */
async function withExternalAuthority(machine: KubeadmMachine, ...names: readonly string[]): Promise<void> {
  await remove(machine, 'pki/ca.key', ...names);
  const file = machine.path('manifests/kube-controller-manager.yaml');
  await writeFile(file, (await readFile(file, 'utf8')).replaceAll(/(--cluster-signing-(?:cert|key)-file=).*/g, '$1'));
}

const kubeconfigs = ['admin.conf', 'super-admin.conf', 'controller-manager.conf', 'scheduler.conf', 'kubelet.conf'];

describe('status agrees with `kubeadm certs check-expiration`', () => {
  it.each<readonly [string, number, (machine: KubeadmMachine) => Promise<unknown>]>([
    ['on a fresh machine', 0, async () => {}],
    ['after `kubeadm certs renew all`', 0, (machine) => machine.kubeadmDone('certs', 'renew', 'all')],
    ['with an expired leaf', 3, (machine) => expire(machine, 'etcd/peer', 'etcd/ca')],
    ['with a leaf that is gone', 3, (machine) => remove(machine, 'pki/apiserver.crt', 'pki/apiserver.key')],
    ['with a certificate that is gone and a key that is not', 3, (machine) => remove(machine, 'pki/apiserver.crt')],
    ['with a key that is gone', 3, (machine) => remove(machine, 'pki/etcd/peer.key')],
    ['with a kubeconfig that is gone', 3, (machine) => remove(machine, 'scheduler.conf')],
    ['without admin.conf', 0, (machine) => remove(machine, 'admin.conf')],
    ['without super-admin.conf', 0, (machine) => remove(machine, 'super-admin.conf')],
    ['with an external CA', 0, (machine) => withExternalAuthority(machine)],
    [
      'with an external CA and a kubeconfig that is gone',
      5,
      (machine) => withExternalAuthority(machine, 'scheduler.conf'),
    ],
    ['without the key that kube-controller-manager is to sign with', 5, (machine) => remove(machine, 'pki/ca.key')],
    ['with an external CA of the front proxy', 0, (machine) => remove(machine, 'pki/front-proxy-ca.key')],
    ['with an external CA of etcd', 0, (machine) => remove(machine, 'pki/etcd/ca.key')],
    ['with nothing but manifests', 5, (machine) => remove(machine, 'pki', ...kubeconfigs)],
  ])('%s (exit %i)', async (_, code, change) => {
    await using machine = await pristine.copy();
    await change(machine);
    const { code: exit, stdout } = await agrees(machine);
    expect(exit, stdout).toBe(code);
  });

  it('with an etcd elsewhere', async () => {
    const etcd = { endpoints: ['https://192.0.2.20:2379'], caFile: '/e/ca', certFile: '/e/crt', keyFile: '/e/key' };
    await using machine = await KubeadmMachine.create(`etcd: ${JSON.stringify({ external: etcd })}`);
    const { stdout, code } = await agrees(machine);
    // kubeadm is silent about the pair that the API server cannot start without; what its flags name is not there.
    expect(stdout).toMatch(/^!MISSING! external-etcd-client/m);
    expect(stdout).not.toMatch(/^(?:!MISSING! )?etcd-/m);
    expect(code).toBe(5);
  });

  it('in YAML', async () => {
    const theirs = parseYaml(await pristine.kubeadmDone('certs', 'check-expiration', '-o', 'yaml')) as Info;
    const ours = parseYaml((await pristine.status('-o', 'yaml')).stdout) as Info;
    expect(ofKubeadm(ours)).toEqual(ofKubeadm(theirs));
  });
});

describe('status where kubeadm gives up', () => {
  it('tells of an expired certificate whose CA is external: exit 5', async () => {
    await using machine = await pristine.copy();
    await expire(machine, 'apiserver', 'ca');
    await remove(machine, 'pki/ca.key');
    expect((await machine.kubeadm('certs', 'check-expiration')).code).toBe(1);
    const { stdout, code } = await machine.status();
    expect(stdout).toMatch(/^apiserver +Jan 01, 2026 00:00 UTC +<invalid> +ca +yes +$/m);
    expect(stdout).toMatch(/^apiserver +EXPIRED +nothing: bring a new one by hand/m);
    expect(code).toBe(5);
  });

  it('tells of a certificate that cannot be read, and of the others', async () => {
    await using machine = await pristine.copy();
    await writeFile(machine.path('pki/apiserver.crt'), '-----BEGIN CERTIFICATE-----\nhello\n');
    expect((await machine.kubeadm('certs', 'check-expiration')).code).toBe(1);
    const { stdout, code } = await machine.status();
    expect(stdout).toMatch(/^apiserver +<unreadable> +ca +no +$/m);
    expect(stdout).toMatch(/^scheduler\.conf +\w{3} \d\d, /m);
    expect(stdout).toMatch(/^apiserver +BROKEN +reissued/m);
    expect(code).toBe(3);
  });
});

describe('status --at', () => {
  it('tells whether the machine would come back by itself', async () => {
    const inTwoYears = new Date(systemClock.now().getTime() + 2 * 365 * 86_400_000).toISOString().slice(0, 10);
    const { stdout, code } = await pristine.status('--at', inTwoYears);
    // No units are installed here.
    expect(stdout).toContain(', this node would not come back by itself, because it is not armed: ');
    expect(code).toBe(3);
    await using machine = await pristine.copy();
    await remove(machine, 'pki/ca.key');
    const external = await machine.status('--at', inTwoYears);
    expect(external.stdout).toContain(', this node would not come back by itself:');
    expect(external.code).toBe(5);
  });
});

describe('what is served', () => {
  it('is compared with what lies on disk', async () => {
    await using machine = await pristine.copy();
    await machine.startNetwork();
    const binaries = await findBinaries(['etcd', 'kube-apiserver']);
    const start = async (name: 'etcd' | 'kube-apiserver'): Promise<SupervisedProcess> =>
      new SupervisedProcess({
        name,
        command: 'nsenter',
        args: [...machine.inNetwork, binaries.get(name) ?? '', ...(await machine.flagsOf(name))],
        logFile: join(machine.root, `${name}.log`),
        restarts: 5,
      });
    const served = async (): Promise<Record<string, unknown>> => {
      const { served: sights } = JSON.parse((await machine.status('-o', 'json')).stdout) as { served: Entry[] };
      return Object.fromEntries(sights.map(({ name, state }) => [String(name), state]));
    };
    expect(await served()).toEqual({
      apiserver: 'unreachable',
      'etcd-server': 'unreachable',
      'etcd-peer': 'unreachable',
    });
    const processes = [await start('etcd')];
    const look = { timeout: 240_000, interval: 500 };
    try {
      await expect.poll(served, look).toMatchObject({ 'etcd-server': 'same', 'etcd-peer': 'same' });
      // While it started it may have found connections whose client had gone.
      const refused = (): number => (processes[0]?.logTail(10_000) ?? '').split('rejected connection').length - 1;
      const refusedAtStart = refused();
      expect(processes[0]?.logTail(10_000)).toContain('ready to serve client requests');
      expect(await served()).toMatchObject({ 'etcd-server': 'same', 'etcd-peer': 'same' });
      expect(refused()).toBe(refusedAtStart);
      processes.push(await start('kube-apiserver'));
      await expect.poll(served, look).toEqual({
        apiserver: 'same',
        'etcd-server': 'same',
        'etcd-peer': 'same',
        'apiserver-loopback-client': 'inMemory',
      });
      expect((await machine.status()).code).toBe(0);
    } finally {
      for (const each of processes) await each.kill();
    }
  });
});
