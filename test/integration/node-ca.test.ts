// Files of CAs on a node that follow a ConfigMap, as the program writes them, against a real kube-apiserver. The order is
// the story of one node: each case leaves the files as it says.
import { X509Certificate } from 'node:crypto';
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { FieldLocation } from '../../lib/inventory/model.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { createApiStore } from '../../lib/store/api-store.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { type Bundle, defineControllerConfig, putControllerConfig } from '../support/cluster/controller-config.ts';
import { both, caMaker, collection, commandIn, namespace, nodeCaIn, type Publish } from '../support/cluster/node-ca.ts';
import { Worker } from '../support/cluster/worker-machine.ts';
import { startReading } from '../support/file-reader.ts';
import { authority } from '../pki/authority.ts';

let root: string;
let controlPlane: ControlPlane;
let node: Worker;
let publish: Publish;
let config: string;
/** PEM of CAs: that of the node, and others. */
let own: string;
let next: string;
let third: string;

const cli = (...argv: readonly string[]) => commandIn(root, argv);
const renew = (...more: readonly string[]) => cli('--mode=regen', '--once', `--config=${config}`, ...more);

interface Held {
  readonly clients: string;
  readonly server: string;
}
/** Logs of runs that wrote. */
const said: string[] = [];

const held = async (): Promise<Held> => ({
  clients: await readFile(node.clientAuthority, 'utf8'),
  server: await node.trust(),
});
const exactly = (...cas: readonly string[]): Held => ({ clients: cas.join(''), server: cas.join('') });

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'node-ca-'));
  controlPlane = await startControlPlane({ components: ['etcd', 'kube-apiserver'] });
  publish = await nodeCaIn(controlPlane);
  const ca = caMaker(root);
  own = await readFile(controlPlane.pki.clusterCa.cert, 'utf8');
  [next, third] = [await ca('next'), await ca('third')];
  node = await Worker.create({
    root,
    name: 'node-1',
    notAfter: new Date(Date.now() + 86_400_000),
    controlPlane,
    token: '',
    authority: own,
  });
  config = await node.nodeCaConfig(controlPlane, ', caOverlap: 1s');
});
afterAll(async () => {
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

describe('files of CAs that follow a ConfigMap', () => {
  it('get a CA that it gains, and keep their mode and owner', async () => {
    await chmod(node.clientAuthority, 0o640);
    await chown(node.clientAuthority, 65534, 65534);
    await publish(both(own, next));
    expect(await renew()).toMatchObject({ exit: 0 });
    expect(await held()).toEqual(exactly(own, next));
    expect(await stat(node.clientAuthority)).toMatchObject({ mode: 0o100640, uid: 65534, gid: 65534 });
  });

  it('are not written again', async () => {
    const { ino } = await stat(node.clientAuthority);
    expect(await renew()).toMatchObject({ exit: 0 });
    expect((await stat(node.clientAuthority)).ino).toBe(ino);
  });

  it('keep a CA that it loses', async () => {
    await publish(both(next));
    expect(await renew()).toMatchObject({ exit: 0 });
    expect(await held()).toEqual(exactly(own, next));
  });

  it.each<[string, () => Promise<unknown>, RegExp]>([
    ['is emptied', () => publish(both('')), /holds no CA that is valid now/],
    ['lacks the entry', () => publish({}), /holds no CA that is valid now/],
    ['is garbage', () => publish(both('-----BEGIN CERTIFICATE-----\nAAAA\n')), /holds no CA that is valid now/],
    ['is deleted', () => controlPlane.admin(`${collection}/node-ca`, { method: 'DELETE' }), /is absent/],
  ])('stay byte for byte where it %s, which is said', async (_, damage, message) => {
    const before = await Promise.all([node.clientAuthority, node.conf].map((path) => readFile(path)));
    await damage();
    const { exit, err } = await renew();
    expect(exit).toBe(5);
    expect(err).toMatch(message);
    expect(await Promise.all([node.clientAuthority, node.conf].map((path) => readFile(path)))).toEqual(before);
    expect((await cli('status', `--config=${config}`)).out).toMatch(message);
  });

  it('were the subject of an Event each time', async () => {
    const { body } = await controlPlane.admin(`/apis/events.k8s.io/v1/namespaces/${namespace}/events`);
    const { items } = body as { items: readonly { type: string; note: string; regarding: { name: string } }[] };
    const notes = items.filter(({ type, regarding }) => type === 'Warning' && regarding.name === 'node-ca');
    for (const what of ['holds no CA that is valid now', 'is absent'])
      expect(notes.map(({ note }) => note)).toContainEqual(expect.stringContaining(what));
  });

  it('take whole CAs beside a torn one, which is said', async () => {
    await publish(
      both(own, '-----BEGIN CERTIFICATE-----\nAAAA\n', next.trimEnd(), '\n', third.replaceAll('\n', '\r\n')),
    );
    const { exit } = await renew();
    expect(exit).toBe(5);
    const { clients } = await held();
    const names = clients.split(/(?=-----BEGIN)/).map((pem) => new X509Certificate(pem).subject);
    expect(names).toEqual([new X509Certificate(own).subject, 'CN=next', 'CN=third']);
  });

  it('of a kubeconfig is its CA alone, whoever its user is', async () => {
    const admin = join(node.root, 'etc/admin.conf');
    const cluster = { server: controlPlane.url, 'certificate-authority-data': Buffer.from(own).toString('base64') };
    await writeFile(admin, kubeconfigOf(cluster, { token: 'of-others' }), { mode: 0o600 });
    await publish(both(own, next, third));
    const { exit, err } = await renew('--v=4');
    expect(exit).toBe(0);
    expect(err).toContain('admin.conf');
    said.push(err);
    const text = await readFile(admin, 'utf8');
    expect(text).toContain(Buffer.from(own + next + third).toString('base64'));
    expect(text).toContain('of-others');
  });

  it('print nothing of a credential', async () => {
    const [status, dryRun] = [await cli('status', `--config=${config}`, '-o', 'json'), await renew('--dry-run')];
    const key = /-----BEGIN (?:RSA |EC )?PRIVATE KEY-----\n(\S{20})/.exec(await node.pem())?.[1];
    for (const text of [...said, status.out, status.err, dryRun.out, dryRun.err]) {
      expect(text).not.toContain('of-others');
      expect(text).not.toContain(key);
    }
  });

  it('lose a CA that was named, after the overlap, while it is offered no more', async () => {
    const retired = new X509Certificate(third).fingerprint256;
    await publish(both(own, next), { 'kube-cert-recovery/retired-cas': `SHA256:${retired}` });
    await new Promise((done) => setTimeout(done, 1100));
    expect(await renew()).toMatchObject({ exit: 0 });
    expect(await held()).toEqual(exactly(own, next));
  });

  it('keep a CA that was named while the API server and the kubelet show what it has signed, which is said', async () => {
    const retired = new X509Certificate(own).fingerprint256;
    await publish(both(next), { 'kube-cert-recovery/retired-cas': `SHA256:${retired}` });
    await new Promise((done) => setTimeout(done, 1100));
    const { exit, err } = await renew();
    expect(exit).toBe(0);
    expect(await held()).toEqual(exactly(own, next));
    const { host } = new URL(controlPlane.url);
    const wanted = `stays while it verifies the certificate of ${host}, the client certificate of ${node.conf}`;
    expect(err).toContain(wanted);
    expect((await cli('status', `--config=${config}`)).out).toMatch(/kubelet-client-ca .* StillUsed/);
    expect((await cli('status', `--config=${config}`, '-o', 'json')).out).toContain(wanted);
  });
});

describe('a reader that opens the file all the time', () => {
  const updates = 200;

  it('always has it, and whole, from the take-over to the last of two hundred updates', async () => {
    // As somebody else wrote it.
    await writeFile(node.clientAuthority, own);
    const added = await Promise.all(
      Array.from({ length: updates }, async (_, at) => (await authority({ commonName: `ca-${at}` })).certificate.pem),
    );
    const contents = new Set([own, ...added.map((_, at) => own + added.slice(0, at + 1).join(''))]);
    const reading = startReading(node.clientAuthority);
    for (let count = 1; count <= updates; count += 1) {
      await publish({ ...both(own), 'client-ca.crt': own + added.slice(0, count).join('') });
      expect(await renew()).toMatchObject({ exit: 0 });
    }
    const { reads, failures, seen } = await reading.stop();
    expect(failures).toEqual([]);
    expect(seen.filter((text) => !contents.has(text))).toEqual([]);
    expect(seen.length).toBeGreaterThan(1);
    expect(reads).toBeGreaterThan(updates);
    expect(await readFile(node.clientAuthority, 'utf8')).toBe(own + added.join(''));
  });
});

describe('a bundle in a field of an object without a namespace', () => {
  const path = '/apis/apiregistration.k8s.io/v1/apiservices';
  const location = {
    kind: 'field',
    apiVersion: 'apiregistration.k8s.io/v1',
    resource: 'apiservices',
    name: 'v1.example.com',
    path: 'spec.caBundle',
  } as const;
  const read = async (at: FieldLocation) => {
    const { recoveryKubeconfig: kubeconfigFile } = controlPlane;
    const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
    const store = createApiStore({ connection, fieldManager: 'test' });
    const found = await store.read(at, AbortSignal.timeout(10_000));
    await connection.close();
    return found;
  };

  it('is read from base64, and absent with its object', async () => {
    expect(await read(location)).toBeUndefined();
    const body = {
      metadata: { name: location.name },
      spec: {
        group: 'example.com',
        version: 'v1',
        groupPriorityMinimum: 1000,
        versionPriority: 10,
        service: { namespace, name: 'none' },
        caBundle: Buffer.from(next).toString('base64'),
      },
    };
    expect(await controlPlane.admin(path, { method: 'POST', body })).toMatchObject({ status: 201 });
    const found = await read(location);
    expect(Buffer.from(found?.entries['ca-bundle.crt'] ?? []).toString()).toBe(next);
  });

  it.each([
    ['spec.nothing', {}],
    ['spec.caBundle.deeper', {}],
    ['constructor.name', {}],
  ])('has no entry in %s', async (field, entries) => {
    expect(await read({ ...location, path: field })).toMatchObject({ entries });
  });

  it('is not used where it is no text', async () => {
    expect(await read({ ...location, path: 'spec.versionPriority' })).toMatchObject({
      entries: {},
      problem: expect.stringContaining(
        'apiservices.apiregistration.k8s.io/v1.example.com spec.versionPriority',
      ) as string,
    });
  });
});

describe('files of a node of OpenShift', () => {
  const host = 'registry.example.com';
  const secret = (password: string): string =>
    JSON.stringify({ auths: { [host]: { auth: Buffer.from(`puller:${password}`).toString('base64') } } });
  const cas = (file: string, ...data: readonly string[]): Bundle => ({ file, data: data.join('') });
  const [first, second] = [secret('first-word'), secret('second-word')];
  let openshift: string;
  let settings: string;
  /** Paths below its directories, with their content. */
  const files = async (): Promise<Readonly<Record<string, string>>> => {
    const all = await readdir(openshift, { recursive: true, withFileTypes: true });
    const found = all.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
    const read = found.map(async (file) => [file.slice(openshift.length + 1), await readFile(file, 'utf8')] as const);
    return Object.fromEntries((await Promise.all(read)).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  };
  const put = (registries: readonly Bundle[], pullSecret?: string): Promise<void> =>
    putControllerConfig(controlPlane, {
      kubeAPIServerServingCAData: own,
      imageRegistryBundleData: registries,
      imageRegistryBundleUserData: [],
      ...(pullSecret !== undefined && { internalRegistryPullSecret: pullSecret }),
    });
  const outputs: string[] = [];
  const ran = async () => {
    const [done, status] = [
      await cli('--mode=regen', '--once', `--config=${settings}`, '--v=4'),
      await cli('status', `--config=${settings}`),
    ];
    outputs.push(done.out, done.err, status.out, status.err);
    return { exit: done.exit, log: done.err, status: status.out };
  };
  const pullSecretFile = 'mco/internal-registry-pull-secret.json';

  beforeAll(async () => {
    openshift = join(root, 'openshift');
    settings = join(root, 'openshift.yaml');
    for (const each of ['etc', 'kubelet', 'certs.d', 'mco', 'etc/static-pod-resources/configmaps/cloud-config'])
      await mkdir(join(openshift, each), { recursive: true });
    const cluster = { server: controlPlane.url, 'certificate-authority-data': Buffer.from(own).toString('base64') };
    for (const each of ['etc', 'kubelet'])
      await writeFile(join(openshift, each, 'kubeconfig'), kubeconfigOf(cluster, { token: 'of-others' }));
    await controlPlane.kubectl('create', 'namespace', 'openshift-machine-config-operator');
    const path = '/api/v1/namespaces/openshift-machine-config-operator/configmaps';
    const body = { metadata: { name: 'kubeconfig-data' }, data: { 'ca-bundle.crt': own } };
    expect(await controlPlane.admin(path, { method: 'POST', body })).toMatchObject({ status: 201 });
    await defineControllerConfig(controlPlane);
    await writeFile(
      settings,
      `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: openshift-node-ca
kubeconfig: ${controlPlane.recoveryKubeconfig}
directories:
  { kubernetesDir: ${openshift}/etc, kubeletDir: ${openshift}/kubelet, registriesDir: ${openshift}/certs.d, daemonDir: ${openshift}/mco }
regen: { backupDir: ${root}/backups, lockDir: ${root}/lock, caOverlap: 1s, clockSynchronised: true }
`,
    );
  });

  it('get the CAs of a registry, with its port, and the pull secret', async () => {
    await put([cas(`${host}..5000`, next), cas('other.example.com', own, third)], first);
    expect(await ran()).toMatchObject({ exit: 0 });
    expect(await files()).toMatchObject({
      [`certs.d/${host}:5000/ca.crt`]: next,
      'certs.d/other.example.com/ca.crt': own + third,
      'etc/kubelet-ca.crt': own,
      [pullSecretFile]: first,
    });
    expect(await stat(join(openshift, pullSecretFile))).toMatchObject({ mode: 0o100600 });
    expect(await stat(join(openshift, `certs.d/${host}:5000/ca.crt`))).toMatchObject({ mode: 0o100644 });
  });

  it('are left alone while nothing changes, with the line break of the daemon', async () => {
    await writeFile(join(openshift, pullSecretFile), `${first}\n`);
    const before = await files();
    expect(await ran()).toMatchObject({ exit: 0 });
    expect(await files()).toEqual(before);
  });

  it('keep the CAs of a registry that is named no more, which is said', async () => {
    const before = await files();
    await put([cas('other.example.com', own, third)], first);
    const { exit, log, status } = await ran();
    expect(exit).toBe(0);
    expect(log).toContain(`no source has ${host}:5000`);
    expect(status).toMatch(/registries .* NotOffered/);
    expect(await files()).toEqual(before);
  });

  it('take the CAs of other registries beside one that cannot be used, which is said', async () => {
    const before = await files();
    const names = ['../../outside', '..', '.', '', '/etc/outside', 'a/b', 'a..b..c', '-x', 'a'.repeat(260)];
    await put(
      [
        ...names.map((name) => cas(name, next)),
        cas('other.example.com', '-----BEGIN CERTIFICATE-----\nAAAA\n'),
        cas('third.example.com', third),
      ],
      first,
    );
    const { exit, log, status } = await ran();
    expect(exit).toBe(5);
    for (const text of [log, status]) {
      expect(text).toContain('other.example.com');
      for (const name of ['../../outside', '/etc/outside']) expect(text).toContain(name);
    }
    expect(await files()).toEqual({ ...before, 'certs.d/third.example.com/ca.crt': third });
    const outside = await readdir(root);
    expect(outside).not.toContain('outside');
  });

  it('get a pull secret that was rotated, and stay private', async () => {
    await put([cas('third.example.com', third)], second);
    expect(await ran()).toMatchObject({ exit: 0 });
    expect((await files())[pullSecretFile]).toBe(second);
    expect(await stat(join(openshift, pullSecretFile))).toMatchObject({ mode: 0o100600 });
  });

  it.each([
    ['is absent', undefined],
    ['is empty', ' '],
    ['is no JSON', first.slice(0, -20)],
    ['has no auths', JSON.stringify({ other: second })],
    ['has no credentials left', '{"auths":{}}'],
    ['is a list', '[]'],
  ])('keep the pull secret byte for byte where it %s, which is said', async (_, damaged) => {
    const before = await files();
    await put([cas('third.example.com', third)], damaged);
    const { exit, log, status } = await ran();
    expect(exit).toBe(5);
    for (const text of [log, status]) expect(text).toContain('its original pull-secret is not there or not usable');
    expect(await files()).toEqual(before);
  });

  it('keep all of it where the object is gone, which is said', async () => {
    const before = await files();
    await controlPlane.kubectl('delete', 'controllerconfigs.machineconfiguration.openshift.io', '--all');
    const { exit, log, status } = await ran();
    expect(exit).toBe(5);
    for (const text of [log, status]) expect(text).toMatch(/spec\.kubeAPIServerServingCAData\\?" is absent/);
    expect(await files()).toEqual(before);
  });

  it('appear in no output', () => {
    const words = ['first-word', 'second-word'].map((word) => Buffer.from(`puller:${word}`).toString('base64'));
    for (const text of outputs)
      for (const word of [...words, 'puller', 'of-others']) expect(text).not.toContain(word.slice(0, 12));
  });
});
