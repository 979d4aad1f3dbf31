// Renewal ahead of time beside the real etcd, API server and scheduler of a machine that the real kubeadm made, whose leaves
// live for twenty days: one control-plane node after the other, by a Lease, and the next one only after proof.
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { X509Certificate } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expiryAnnotation } from '../../lib/run/machine-expiry.ts';
import { RunState } from '../../lib/host/state.ts';
import { parseYaml, toYaml } from '../../lib/yaml.ts';
import { blocks, page } from '../docs/markdown.ts';
import { clusterApiCrd } from '../support/cluster/cluster-api-crds.ts';
import type { KubeadmMachine, Outcome } from '../support/cluster/kubeadm-machine.ts';
import { RunningMachine } from '../support/cluster/running-machine.ts';
import { eventually } from '../support/eventually.ts';
import { inOrder } from './in-order.ts';
import { hostAsks } from './host-asks.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const renewed = ['pki/apiserver.crt', 'pki/etcd/server.crt', 'pki/etcd/peer.crt', 'pki/front-proxy-client.crt'];
const day = 86_400_000;

let running: RunningMachine;
let machine: KubeadmMachine;
beforeAll(async () => {
  running = await RunningMachine.create('certificateValidityPeriod: 480h');
  machine = running.machine;
});
afterAll(() => running?.[Symbol.asyncDispose]());
inOrder(() => running.explain());

const asAdmin = (...args: readonly string[]) => running.asAdmin(...args);
const run = (...flags: readonly string[]) => running.run(...flags);
const state = (): RunState => new RunState(join(machine.root, 'lock'));

const notAfter = async (path: string): Promise<number> =>
  new X509Certificate(await readFile(machine.path(path))).validToDate.getTime();
const ends = (): Promise<number[]> => Promise.all(renewed.map(notAfter));

interface Lease {
  readonly spec: { readonly holderIdentity?: string };
}
const lease = ['-n', 'kube-cert-recovery', 'lease/control-plane-renewal'];
const holder = async (): Promise<string | undefined> => {
  const { stdout } = await asAdmin('get', ...lease, '-o', 'json');
  return (JSON.parse(stdout) as Lease).spec.holderIdentity;
};

it('waits while the right to the Lease is not granted, and says how that is done', async () => {
  const before = await ends();
  const { code, stderr } = await run('--restart');
  expect(code, stderr).toBe(0);
  expect(stderr).toContain(String.raw`grant it with \"kube-cert-recovery init host\" on a control-plane node`);
  expect(await ends()).toEqual(before);
});

const status = async (): Promise<string> =>
  (await running.inNetwork(process.execPath, program, 'status', `--config=${running.config}`, '--renew-before=1d'))
    .stdout;

it('is told by status, with who lacks it', async () => {
  const said = await status();
  expect(said).toContain('this host (user kube-cert-recovery:host:node1, group kube-cert-recovery:hosts) lacks rights');
  expect(said).toContain('get, create, patch, update leases "kube-cert-recovery/control-plane-renewal"');
  expect(said).toContain('get, update leases "kube-system/kube-scheduler"');
  expect(said).toContain('get configmaps "kube-system/kubeadm-config"');
});

it('says once what else it may not do, and goes on', async () => {
  await Promise.all([rm(join(machine.root, 'lock/leases')), rm(join(machine.root, 'lock/certificate-validity'))]);
  const [first, second] = [await run('--restart'), await run('--restart')];
  const said = ({ lines }: typeof first) =>
    lines.flatMap(({ event, level, lease: of = '', message = '' }) => {
      if (level !== 'warn' || event === 'renewal.waiting') return [];
      // Names that cannot be found here are told in the same words.
      return event !== 'discovery.partial' || message.includes('kubeadm-config') ? [`${event} ${of}`] : [];
    });
  expect(said(first).toSorted()).toEqual([
    'discovery.partial ',
    'lease.skipped kube-controller-manager',
    'lease.skipped kube-scheduler',
  ]);
  expect(said(second)).toEqual([]);
  expect([first.code, second.code]).toEqual([0, 0]);
});

it('is granted by the first run that may do it as the administrator of this machine', async () => {
  const group = 'kubeadm:cluster-admins';
  const bound = await asAdmin('create', 'clusterrolebinding', group, '--clusterrole=cluster-admin', `--group=${group}`);
  expect(bound.code, bound.stderr).toBe(0);
  await rm(join(machine.root, 'lock/rights'));
  const { lines, stderr } = await run('--restart');
  expect(
    lines.map(({ event }) => event),
    stderr,
  ).toContain('rights.granted');
  expect(await running.mayRenew()).toContain('yes');
  expect(await status()).not.toContain('lacks rights');
});

it('waits while another node renews', async () => {
  await running.grant();
  const spec = { holderIdentity: 'node2', leaseDurationSeconds: 360 };
  const metadata = { namespace: 'kube-cert-recovery', name: 'control-plane-renewal' };
  await running.apply({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec });
  const before = await ends();
  const { code, lines, stderr } = await run('--restart');
  expect(code, stderr).toBe(0);
  expect(lines.filter(({ event }) => event.startsWith('rights.'))).toEqual([]);
  expect(stderr).toContain('is held by \\"node2\\"');
  expect(await ends()).toEqual(before);
  expect(await holder()).toBe('node2');
});

it('repairs what is broken all the same', async () => {
  const file = machine.path('pki/apiserver-kubelet-client.crt');
  await writeFile(file, '');
  const { code, stderr } = await run('--restart');
  expect(code, stderr).toBe(0);
  expect(await readFile(file, 'utf8')).toContain('BEGIN CERTIFICATE');
  expect(await holder()).toBe('node2');
});

it('renews when the Lease is free, keeps it until the scheduler has been restarted, and gives it back then', async () => {
  expect((await asAdmin('patch', ...lease, '--type=merge', '-p', '{"spec":{"holderIdentity":""}}')).code).toBe(0);
  const before = await ends();
  // No kubelet runs that would start the scheduler again.
  const first = await run('--restart');
  expect(first.code, first.stderr).not.toBe(0);
  expect(first.stderr).toContain('while no kubelet runs');
  expect((await ends()).every((end, at) => end > (before[at] ?? 0) + 300 * day)).toBe(true);
  // Two machines may have one host name, never the name of one Node.
  expect(await holder()).toBe('node1');

  // As an earlier run has left it, for which the Node had another name.
  await state().set('renewing', hostname());
  const taken = `{"spec":{"holderIdentity":"${hostname()}"}}`;
  expect((await asAdmin('patch', ...lease, '--type=merge', '-p', taken)).code).toBe(0);
  expect((await run('--restart')).stderr).toContain('while no kubelet runs');
  expect(await holder()).toBe(hostname());

  running.startKubelet();
  const after = await ends();
  await eventually(async () => {
    const next = await run('--restart');
    expect(await holder(), next.stderr).toBeFalsy();
  });
  for (const name of ['kube-controller-manager', 'kube-scheduler'])
    expect(running.processes.get(name)?.restarted, name).toBe(1);
  expect(await ends()).toEqual(after);
});

it('gives the Lease back later where the API server has refused that', async () => {
  await state().set('renewing', 'node1');
  expect((await asAdmin('patch', ...lease, '--type=merge', '-p', '{"spec":{"holderIdentity":"node1"}}')).code).toBe(0);
  // As one that has just started, and does not know yet who may do what.
  expect((await asAdmin('delete', 'rolebinding', '-n', 'kube-cert-recovery', '--all')).code).toBe(0);
  await eventually(async () => expect(await running.mayRenew()).toContain('no'));
  const refused = await run('--restart');
  expect(refused.lines.map(({ event }) => event)).toContain('renewal.unproven');
  expect(refused.lines.map(({ event }) => event)).not.toContain('renewal.finished');
  expect(await holder()).toBe('node1');
  await running.grant();
  const { lines, stderr } = await run('--restart');
  expect(
    lines.map(({ event }) => event),
    stderr,
  ).toContain('renewal.finished');
  expect(await holder()).toBeFalsy();
});

describe('regen.machine', () => {
  const machines = '/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines';
  const withMachine = async (name: string, kubeconfig = machine.path('super-admin.conf')): Promise<Outcome> => {
    await running.configure({ regen: { machine: { kubeconfig, namespace: 'default', name } } });
    const outcome = await run('--restart');
    await running.configure({});
    return outcome;
  };
  const machineObject = async (): Promise<{ metadata: { annotations?: object; resourceVersion: string } }> =>
    JSON.parse((await asAdmin('get', '--raw', `${machines}/node1`)).stdout) as Awaited<
      ReturnType<typeof machineObject>
    >;

  it('keeps the annotation of Cluster API at the end of what is served, and writes it once', async () => {
    const file = join(machine.root, 'crd.yaml');
    await writeFile(file, await clusterApiCrd('Machine'));
    const made = await asAdmin('apply', '--server-side', '-f', file);
    expect(made.code, made.stderr).toBe(0);
    const metadata = { namespace: 'default', name: 'node1', annotations: { other: 'stays' } };
    const spec = {
      clusterName: 'cluster1',
      bootstrap: { dataSecretName: 'node1' },
      infrastructureRef: { apiGroup: 'infrastructure.cluster.x-k8s.io', kind: 'DockerMachine', name: 'node1' },
    };
    await writeFile(file, toYaml({ apiVersion: 'cluster.x-k8s.io/v1beta2', kind: 'Machine', metadata, spec }));
    await eventually(async () => expect((await asAdmin('apply', '-f', file)).code).toBe(0));

    const first = await withMachine('node1');
    expect(first.code, first.stderr).toBe(0);
    const served = new Date(await notAfter('pki/apiserver.crt')).toISOString().replace('.000Z', 'Z');
    const written = (await machineObject()).metadata;
    expect(written.annotations).toEqual(
      expect.objectContaining({ other: 'stays', 'machine.cluster.x-k8s.io/certificates-expiry': served }),
    );
    const second = await withMachine('node1');
    expect(second.stderr).not.toContain('machine.annotated');
    expect((await machineObject()).metadata.resourceVersion).toBe(written.resourceVersion);
  });

  it('stands beside fields of KubeadmControlPlane as docs/cluster-api.md has them', async () => {
    interface Schema {
      readonly properties?: Readonly<Record<string, Schema>>;
      readonly type?: string;
    }
    const { spec } = parseYaml(await clusterApiCrd('KubeadmControlPlane'), 'ours') as {
      readonly spec: { readonly versions: readonly { name: string; schema: { openAPIV3Schema: Schema } }[] };
    };
    /** Every key of an object is one of the schema. */
    const unknown = (value: unknown, schema: Schema | undefined, at: string): readonly string[] => {
      if (schema === undefined) return [at];
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
      return Object.entries(value).flatMap(([key, inner]) => unknown(inner, schema.properties?.[key], `${at}.${key}`));
    };
    const objects = blocks(page('docs/cluster-api.md')).flatMap(({ language, text }) => {
      const object =
        language === 'yaml' ? (parseYaml(text) as { kind: string; apiVersion: string; spec: object }) : undefined;
      return object?.kind === 'KubeadmControlPlane' ? [object] : [];
    });
    expect(objects).toHaveLength(3);
    for (const object of objects) {
      const version = spec.versions.find(({ name }) => object.apiVersion.endsWith(`/${name}`));
      expect(unknown(object.spec, version?.schema.openAPIV3Schema.properties?.['spec'], 'spec')).toEqual([]);
    }
  });

  it('is kept through v1beta1 where Cluster API serves no later version', async () => {
    const crd = 'crd/machines.cluster.x-k8s.io';
    const { stdout } = await asAdmin('get', crd, '-o', 'json');
    const { spec } = JSON.parse(stdout) as {
      readonly spec: { readonly versions: readonly { readonly name: string }[] };
    };
    const isLater = ({ name }: { readonly name: string }): boolean => name === 'v1beta2';
    const later = spec.versions.findIndex(isLater);
    const former = spec.versions.findIndex((one) => one.name === 'v1beta1');
    const serve = (isServed: boolean): string =>
      JSON.stringify([{ op: 'replace', path: `/spec/versions/${later}/served`, value: isServed }]);
    expect(former).toBeGreaterThan(-1);
    await asAdmin(
      'annotate',
      '--overwrite',
      'machines.cluster.x-k8s.io/node1',
      `${expiryAnnotation}=2020-01-01T00:00:00Z`,
    );
    expect((await asAdmin('patch', crd, '--type=json', '-p', serve(false))).code).toBe(0);
    await eventually(async () => expect((await asAdmin('get', '--raw', `${machines}/node1`)).code).not.toBe(0));
    await rm(join(machine.root, 'lock/machine-expiry'), { force: true });
    const { code, stderr } = await withMachine('node1');
    expect(code, stderr).toBe(0);
    expect(stderr).toContain('machine.annotated');
    expect((await asAdmin('patch', crd, '--type=json', '-p', serve(true))).code).toBe(0);
    const served = new Date(await notAfter('pki/apiserver.crt')).toISOString().replace('.000Z', 'Z');
    await eventually(async () =>
      expect((await machineObject()).metadata.annotations).toHaveProperty([expiryAnnotation], served),
    );
  });

  it.each([
    ['is absent', 'node9', undefined, '404'],
    ['is in a cluster that is away', 'node1', '/nowhere/management.conf', '/nowhere/management.conf'],
  ])('is no fault of this machine where the Machine %s', async (_, name, kubeconfig, told) => {
    await rm(join(machine.root, 'lock/machine-expiry'), { force: true });
    const { code, stderr } = await withMachine(name, kubeconfig);
    expect(code, stderr).toBe(0);
    const line = stderr.split('\n').find((each) => each.includes('"machine.failed"'));
    expect(line).toContain(`default/${name}`);
    expect(line).toContain(told);
  });
});

hostAsks(() => running);

it('leaves no credential of the host behind, and no note that it has the Lease', async () => {
  const notes = await readdir(join(machine.root, 'lock'));
  expect(notes).not.toContain('renewing');
  for (const name of notes) expect(await readFile(join(machine.root, 'lock', name), 'utf8'), name).not.toContain('key');
});
