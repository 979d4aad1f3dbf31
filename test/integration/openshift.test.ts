// The three presets of OpenShift against a real API server with its Infrastructure and Network objects: what comes of
// nothing, of truly expired objects, and of names that change, compared with what the operators' sources say. Everything
// is done by the identities that `init` makes, with no other right than theirs.
import { execFile } from 'node:child_process';
import { createPrivateKey, type X509Certificate } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { readNamesInApi } from '../../lib/inventory/discover/openshift.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { withNames } from '../../lib/inventory/names-in-api.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import type { RegenOptions } from '../../lib/regen/run.ts';
import { runStatus } from '../../lib/status/status.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { expire } from '../support/cluster/expire.ts';
import {
  expireOpenshift,
  grantRegen,
  type Preset,
  giveBundles,
  giveNames,
  prepareOpenshift,
  setStatus,
} from '../support/cluster/openshift.ts';
import {
  bundles,
  composed,
  copies,
  csrSigner,
  internalHost,
  leaves,
  nodeKubeconfigs,
  pairCopies,
  serviceNetwork,
  signers,
  openshiftPresets,
} from '../support/cluster/openshift-objects.ts';
import { executable, Tool } from '../support/cluster/recovery-world.ts';
import { certificatesIn } from '../support/stories/soundness.ts';
import { Actor } from './regen-world.ts';

const day = 24 * 3_600_000;

let controlPlane: ControlPlane;
let scratch: string;
const actors: Actor[] = [];
const kubeconfigs: string[] = [];

interface Stored {
  readonly type?: string;
  readonly metadata: {
    readonly resourceVersion: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data: Readonly<Record<string, string>>;
}

async function get(kind: 'secrets' | 'configmaps', object: string): Promise<Stored> {
  const [namespace, name] = object.split('/');
  const { status, body } = await controlPlane.admin(`/api/v1/namespaces/${namespace}/${kind}/${name}`);
  expect(status, `${kind} ${object}`).toBe(200);
  return body as Stored;
}

const pem = (stored: Stored, key: string): string => Buffer.from(stored.data[key] ?? '', 'base64').toString();

async function pair(
  object: string,
): Promise<{ stored: Stored; leaf: X509Certificate; sent: X509Certificate[]; key: string }> {
  const stored = await get('secrets', object);
  const [leaf, ...sent] = certificatesIn(pem(stored, 'tls.crt'));
  if (leaf === undefined) throw new Error(`${object} holds no certificate`);
  return { stored, leaf, sent, key: pem(stored, 'tls.key') };
}

const held = async (object: string): Promise<X509Certificate[]> =>
  certificatesIn((await get('configmaps', object)).data['ca-bundle.crt'] ?? '');
const prints = (list: readonly X509Certificate[]): string[] =>
  list.map(({ fingerprint256 }) => fingerprint256).toSorted();
const rfc3339 = (date: Date): string => date.toISOString().replace('.000Z', 'Z');

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'openshift-'));
  controlPlane = await startControlPlane();
  await prepareOpenshift(controlPlane);
  await giveNames(controlPlane);
  await giveBundles(controlPlane);
  for (const name of openshiftPresets) {
    const resolved = resolve(loadPreset(name), {});
    const recoveryKubeconfig = await grantRegen(controlPlane, { resolved, namespace: name, directory: scratch });
    kubeconfigs.push(recoveryKubeconfig);
    actors.push(await Actor.start({ recoveryKubeconfig }, resolved));
  }
});
afterAll(async () => {
  await Promise.all(actors.map((one) => one[Symbol.asyncDispose]()));
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

function actor(preset: Preset): Actor {
  const found = actors[openshiftPresets.indexOf(preset)];
  if (found === undefined) throw new Error(`${preset} has no actor`);
  return found;
}

function run(preset: Preset, more: Partial<RegenOptions> = {}): Promise<RegenReport> {
  const { connection } = actor(preset);
  return actor(preset).run({ namesInApi: (signal) => readNamesInApi(connection, signal), ...more });
}

/** One after the other until none has anything to write: they are made of each other. */
async function runAll(): Promise<number> {
  let writes = 0;
  for (const preset of [...openshiftPresets, ...openshiftPresets]) writes += (await run(preset)).writes;
  return writes;
}

async function versions(): Promise<Record<string, string>> {
  const objects = [
    ...[...signers, ...pairCopies].map(([object]) => ['secrets', object] as const),
    ...leaves.map(({ object }) => ['secrets', object] as const),
    ['secrets', 'openshift-kube-apiserver/node-kubeconfigs'] as const,
    ...[...bundles, ...composed, ...copies].map(([object]) => ['configmaps', object] as const),
  ];
  const all = await Promise.all(
    objects.map(async ([kind, object]) => [object + kind, (await get(kind, object)).metadata.resourceVersion] as const),
  );
  return Object.fromEntries(all);
}

/** Everything that the operators' sources say. */
async function expectTheirObjects(): Promise<void> {
  const now = new Date();
  const isValid = ({ validFromDate, validToDate }: X509Certificate): boolean =>
    validFromDate <= now && now < validToDate;
  const life = ({ validFromDate, validToDate }: X509Certificate): number =>
    Math.round((validToDate.getTime() - validFromDate.getTime()) / day);
  const check = async (object: string, signer: string, refreshDays: number, type: string): Promise<X509Certificate> => {
    const { stored, leaf, key } = await pair(object);
    expect(stored.type, object).toBe('kubernetes.io/tls');
    expect(Object.keys(stored.data).toSorted(), object).toEqual(['tls.crt', 'tls.key']);
    expect(leaf.checkPrivateKey(createPrivateKey(key)), object).toBe(true);
    expect(leaf.publicKey.asymmetricKeyDetails?.modulusLength, object).toBe(2048);
    expect(isValid(leaf), object).toBe(true);
    const above = signer === object ? [leaf] : [(await pair(signer)).leaf];
    expect(
      above.some((ca) => leaf.checkIssued(ca) && leaf.verify(ca.publicKey)),
      `${object} is signed by ${signer}`,
    ).toBe(true);
    expect(stored.metadata.labels, object).toEqual({ 'auth.openshift.io/managed-certificate-type': type });
    expect(stored.metadata.annotations, object).toMatchObject({
      'auth.openshift.io/certificate-not-before': rfc3339(leaf.validFromDate),
      'auth.openshift.io/certificate-not-after': rfc3339(leaf.validToDate),
      'auth.openshift.io/certificate-issuer': leaf.issuer.split('\n').at(-1)?.replace(/^CN=/, ''),
      'openshift.io/owning-component': /controller-manager/.test(signer) ? 'kube-controller-manager' : 'kube-apiserver',
      'certificates.openshift.io/refresh-period': `${refreshDays * 24}h0m0s`,
    });
    expect(stored.metadata.annotations?.['openshift.io/description'], object).toMatch(/\.$/);
    return leaf;
  };

  for (const [object, days, refreshDays] of signers) {
    const leaf = await check(object, object, refreshDays, 'signer');
    expect(life(leaf), object).toBe(days);
    expect(leaf.ca, object).toBe(true);
    expect(leaf.subject, object).toMatch(new RegExp(`^CN=${object.replace('/', '_')}@\\d{10}$`));
  }
  const intermediate = await check(csrSigner.object, csrSigner.signer, csrSigner.refreshDays, 'target');
  expect(intermediate.subject).toMatch(/^CN=kube-csr-signer_@\d{10}$/);
  expect([life(intermediate), intermediate.ca]).toEqual([csrSigner.days, true]);

  for (const { object, signer, days, refreshDays, subject, sans } of leaves) {
    const leaf = await check(object, signer, refreshDays, 'target');
    expect(life(leaf), object).toBe(days);
    expect(leaf.ca, object).toBe(false);
    expect(leaf.subject, object).toBe(subject);
    expect(leaf.keyUsage, object).toEqual([sans === undefined ? '1.3.6.1.5.5.7.3.2' : '1.3.6.1.5.5.7.3.1']);
    expect(leaf.subjectAltName?.split(', ').toSorted(), object).toEqual(sans?.toSorted());
    const { stored, sent } = await pair(object);
    expect(prints(sent), object).toEqual(sans === undefined ? [] : prints([(await pair(signer)).leaf]));
    const hostnames = stored.metadata.annotations?.['auth.openshift.io/certificate-hostnames'];
    expect(hostnames === undefined, object).toBe(sans === undefined);
    expect(hostnames?.split(',').length, object).toBe(sans?.length);
  }
  for (const [object, signer] of bundles) {
    const list = await held(object);
    expect(prints(list), object).toContain((await pair(signer)).leaf.fingerprint256);
    const { labels } = (await get('configmaps', object)).metadata;
    expect(labels, object).toEqual({ 'auth.openshift.io/managed-certificate-type': 'ca-bundle' });
  }
  for (const [object, inputs] of composed) {
    const wanted = (await Promise.all(inputs.map(held))).flat().filter(isValid);
    expect(prints(await held(object)), object).toEqual([...new Set(prints(wanted))]);
  }
  for (const [object, of] of copies) {
    expect((await get('configmaps', object)).data, object).toEqual((await get('configmaps', of)).data);
  }
  for (const [object, of] of pairCopies) {
    const [copy, original] = [await get('secrets', object), await get('secrets', of)];
    expect(copy.data, object).toEqual(original.data);
    expect(copy.metadata.annotations, object).toEqual(original.metadata.annotations);
    expect(copy.metadata.labels, object).toEqual(original.metadata.labels);
  }
  await expectNodeKubeconfigs();
}

interface Kubeconfig {
  readonly 'current-context': string;
  readonly clusters: readonly [{ readonly name: string; readonly cluster: Readonly<Record<string, string>> }];
  readonly contexts: readonly [{ readonly name: string; readonly context: Readonly<Record<string, string>> }];
  readonly users: readonly [{ readonly name: string; readonly user: Readonly<Record<string, string>> }];
}

async function expectNodeKubeconfigs(): Promise<void> {
  const { type, data, metadata } = await get('secrets', 'openshift-kube-apiserver/node-kubeconfigs');
  expect(type).toBe('Opaque');
  expect(metadata.annotations).toMatchObject({ 'openshift.io/owning-component': 'kube-apiserver' });
  expect(Object.keys(data).toSorted()).toEqual(Object.keys(nodeKubeconfigs).toSorted());
  const admin = (await get('secrets', 'openshift-kube-apiserver-operator/node-system-admin-client')).data;
  const authority = (await get('configmaps', 'openshift-kube-apiserver/kube-apiserver-server-ca')).data[
    'ca-bundle.crt'
  ];
  for (const [key, [server, tlsServerName]] of Object.entries(nodeKubeconfigs)) {
    const config = parseYaml(Buffer.from(data[key] ?? '', 'base64').toString()) as Kubeconfig;
    const cluster = key.replace('.kubeconfig', '');
    expect(config['current-context'], key).toBe('system:admin');
    expect(config.contexts, key).toEqual([{ name: 'system:admin', context: { cluster, user: 'system:admin' } }]);
    expect(config.clusters, key).toEqual([
      {
        name: cluster,
        cluster: {
          server,
          'certificate-authority-data': Buffer.from(authority ?? '').toString('base64'),
          ...(tlsServerName !== undefined && { 'tls-server-name': tlsServerName }),
        },
      },
    ]);
    const user = { 'client-certificate-data': admin['tls.crt'], 'client-key-data': admin['tls.key'] };
    expect(config.users, key).toEqual([{ name: 'system:admin', user }]);
  }
}

it('makes of nothing the objects that the operators make', async () => {
  const scheduler = await run('openshift-kube-scheduler');
  expect(scheduler.writes).toBe(0);
  expect(scheduler.artefacts.find(({ artefact }) => artefact === 'kube-scheduler-client-cert-key')).toMatchObject({
    action: 'blocked',
    reason: 'Unavailable',
    message: expect.stringContaining('exported-kube-scheduler-client-cert-key is not there') as unknown,
  });
  await runAll();
  await expectTheirObjects();
});

it('writes nothing the second time', async () => {
  const before = await versions();
  expect(await runAll()).toBe(0);
  expect(await versions()).toEqual(before);
});

/** As a person does it; null takes one away. */
async function label(
  object: string,
  metadata: Readonly<Record<string, Readonly<Record<string, string | null>>>>,
): Promise<void> {
  const [namespace, name] = object.split('/');
  const path = `/api/v1/namespaces/${namespace}/secrets/${name}`;
  expect((await controlPlane.admin(path, { method: 'PATCH', body: { metadata } })).status).toBe(200);
}

it('writes nothing for the sake of a label or an annotation', async () => {
  const object = 'openshift-kube-apiserver-operator/kube-control-plane-signer';
  const { labels = {}, annotations = {} } = (await get('secrets', object)).metadata;
  const none = (all: Readonly<Record<string, string>>): Record<string, null> =>
    Object.fromEntries(Object.keys(all).map((key) => [key, null]));
  await label(object, { labels: none(labels), annotations: none(annotations) });
  expect(await runAll()).toBe(0);
  await label(object, { labels, annotations });
});

/** As regen itself sees it. */
async function named(preset: Preset): Promise<Resolved> {
  const names = await readNamesInApi(actor(preset).connection, AbortSignal.timeout(60_000));
  return withNames(resolve(loadPreset(preset), {}), names);
}

it('brings truly expired objects back, all three presets at once', async () => {
  const now = systemClock.now();
  await expireOpenshift(async (preset) => ({ resolved: await named(preset), store: actor(preset).store }));
  const { leaf: dead } = await pair('openshift-kube-scheduler/kube-scheduler-client-cert-key');
  expect(dead.validToDate.getTime()).toBeLessThan(now.getTime());
  const recovery = await get('secrets', 'openshift-kube-apiserver/localhost-recovery-serving-certkey');

  const stop = new AbortController();
  const running = openshiftPresets.map((preset) => run(preset, { once: false, signal: stop.signal }));
  const began = performance.now();
  try {
    await eventually(expectTheirObjects, { everyMs: 200 });
    console.log(`all three: ${Math.round(performance.now() - began)} ms`);
  } finally {
    stop.abort();
  }
  const reports = await Promise.all(running);
  for (const { artefacts } of reports) expect(artefacts.filter(({ err }) => err !== undefined)).toEqual([]);
  expect(await get('secrets', 'openshift-kube-apiserver/localhost-recovery-serving-certkey')).toEqual(recovery);
  expect(await runAll()).toBe(0);
});

const rowOf = ({ artefacts }: RegenReport, name: string) => artefacts.find(({ artefact }) => artefact === name);

it('gives a certificate the name that Infrastructure has got', async () => {
  const object = 'openshift-kube-apiserver/external-loadbalancer-serving-certkey';
  const theirs = { 'openshift.io/description': 'As its operator says.', 'example.com/note': 'mine' };
  await label(object, { annotations: theirs });
  const before = await versions();
  await setStatus(controlPlane, 'infrastructures', { apiServerURL: 'https://api.other.example.com:6443' });
  const report = await run('openshift-kube-apiserver');
  expect(rowOf(report, 'external-loadbalancer-serving-certkey')).toMatchObject({ writes: 1 });
  expect(report.writes).toBe(2);
  const { leaf, stored } = await pair(object);
  expect(leaf.subjectAltName).toBe('DNS:api.other.example.com');
  expect(stored.metadata.annotations).toMatchObject(theirs);
  const changed = Object.entries(await versions()).filter(([name, version]) => before[name] !== version);
  expect(changed.map(([name]) => name)).toEqual([
    'openshift-kube-apiserver/external-loadbalancer-serving-certkeysecrets',
    'openshift-kube-apiserver/node-kubeconfigssecrets',
  ]);
});

it('says which names are not known, keeps those that are there and makes nothing without', async () => {
  await setStatus(controlPlane, 'networks', { serviceNetwork: [] });
  const name = 'service-network-serving-certkey';
  const object = `openshift-kube-apiserver/${name}`;
  const { leaf: healthy } = await pair(object);
  const told = 'Network "cluster" (config.openshift.io) status.serviceNetwork has no entry';
  const unknown = { reason: 'HostnameUnknown', message: expect.stringContaining(told) as unknown };
  expect(rowOf(await run('openshift-kube-apiserver'), name)).toMatchObject({ action: 'keep', writes: 0, ...unknown });

  const { connection, store: own } = actor('openshift-kube-apiserver');
  const { problems } = await runStatus({
    resolved: resolve(loadPreset('openshift-kube-apiserver'), {}),
    store: own,
    namesInApi: (signal) => readNamesInApi(connection, signal),
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
    clockFacts: { builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true },
    clock: systemClock,
    signal: AbortSignal.timeout(60_000),
  });
  expect(problems).toContainEqual(expect.stringContaining(told));

  const resolved = await named('openshift-kube-apiserver');
  const except = ({ name: one }: { name: string }): boolean => one !== name;
  // The names that it had when they were known.
  const hostnames = (healthy.subjectAltName ?? '').split(', ').map((san) => san.replace(/^(DNS|IP Address):/, ''));
  const known = resolved.artefacts.map((row) =>
    row.name === name && row.kind === 'target' ? { ...row, hostnames } : row,
  );
  const { store } = actor('openshift-kube-apiserver');
  const { leaf: signer } = await pair('openshift-kube-apiserver-operator/service-network-serving-signer');
  await eventually(() => expect(Date.now()).toBeGreaterThan(signer.validFromDate.getTime() + 4000));
  const past = { now: systemClock.now(), agoMs: 1000, lifeMs: 1000 };
  await expire({ resolved: { ...resolved, artefacts: known }, store, except, ...past });
  const policy = { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 1000 } as const;
  expect(rowOf(await run('openshift-kube-apiserver', { policy }), name)).toMatchObject({ writes: 1 });
  const { leaf } = await pair(object);
  expect(leaf.validToDate.getTime()).toBeGreaterThan(Date.now());
  expect(leaf.subjectAltName?.split(', ').toSorted()).toEqual(healthy.subjectAltName?.split(', ').toSorted());

  await controlPlane.admin(`/api/v1/namespaces/openshift-kube-apiserver/secrets/${name}`, { method: 'DELETE' });
  expect(rowOf(await run('openshift-kube-apiserver'), name)).toMatchObject({
    action: 'blocked',
    writes: 0,
    ...unknown,
  });
  await setStatus(controlPlane, 'networks', { serviceNetwork });
  await run('openshift-kube-apiserver');
  expect((await pair(object)).leaf.subjectAltName).toContain('IP Address:172.30.0.1');
});

it('is what the program does, too: it asks the API for names, and says which are missing', async () => {
  const line = ['--preset=openshift-kube-apiserver', `--kubeconfig=${kubeconfigs[0]}`];
  const name = 'internal-loadbalancer-serving-certkey';
  await controlPlane.admin(`/api/v1/namespaces/openshift-kube-apiserver/secrets/${name}`, { method: 'DELETE' });
  const tool = new Tool(['--mode=regen', '--once', ...line]);
  await tool.ended;
  expect(
    tool.lines.filter(({ event, fields }) => event === 'target.regenerated' && fields['artefact'] === name),
  ).toHaveLength(1);
  expect((await pair(`openshift-kube-apiserver/${name}`)).leaf.subjectAltName).toBe(`DNS:${internalHost}`);

  await setStatus(controlPlane, 'infrastructures', { apiServerInternalURI: '' });
  const { stdout } = await promisify(execFile)(executable, ['status', '--output=json', ...line]).catch(
    (err: { readonly stdout: string }) => err,
  );
  const { problems } = JSON.parse(stdout) as { readonly problems: readonly string[] };
  const told = 'Infrastructure "cluster" (config.openshift.io) has no status.apiServerInternalURI';
  expect(problems.filter((one) => one.startsWith(name))).toEqual([expect.stringContaining(told)]);
});
