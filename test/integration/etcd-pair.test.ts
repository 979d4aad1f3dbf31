// The pair by which an API server reaches an etcd elsewhere, from the side that has made it to the side that cannot: out of
// a Secret of a management cluster (a real API server), out of files, or from a command; and into that Secret. With it the API
// server starts again, and the Machine of Cluster API says when what it serves ends.
import { execFile, execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import { clusterApiCrd } from '../support/cluster/cluster-api-crds.ts';
import { startControlPlane, type ControlPlane } from '../support/cluster/control-plane.ts';
import { EtcdMembers } from '../support/cluster/etcd-members.ts';
import { keptEarlier } from '../support/cluster/kept-earlier.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { freePorts } from '../support/cluster/ports.ts';
import { SupervisedProcess } from '../support/cluster/process.ts';
import { eventually } from '../support/eventually.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const day = 86_400_000;
const expired = { notBefore: new Date(Date.now() - 400 * day), notAfter: new Date(Date.now() - 35 * day) };
const identity = { commonName: 'cluster1-kube-apiserver-etcd-client', organization: 'system:masters' };
const place = { namespace: 'default', name: 'cluster1-apiserver-etcd-client' };
const path = `/api/v1/namespaces/${place.namespace}/secrets`;

let management: ControlPlane;
let pristine: KubeadmMachine;
let signer: Pair;
let fresh: Pair;
let stranger: Pair;
beforeAll(async () => {
  management = await startControlPlane({ components: ['etcd', 'kube-apiserver'] });
  const etcd = (name: string): string => `/ETCD/${name}`;
  const external = {
    endpoints: ['https://192.0.2.20:2379'],
    caFile: etcd('ca.crt'),
    certFile: etcd('client.crt'),
    keyFile: etcd('client.key'),
  };
  pristine = await KubeadmMachine.create(`etcd: ${JSON.stringify({ external })}`);
  signer = await createAuthority(join(pristine.root, 'etcd-ca'), {
    commonName: 'etcd CA',
    notBefore: expired.notBefore,
  });
  const other = await createAuthority(join(pristine.root, 'other-ca'), { commonName: 'etcd CA' });
  fresh = await createLeaf(join(pristine.root, 'fresh'), signer, identity);
  stranger = await createLeaf(join(pristine.root, 'stranger'), other, identity);
});
afterAll(async () => {
  await management?.[Symbol.asyncDispose]();
  await pristine?.[Symbol.asyncDispose]();
});

const lineOf = (event: string, stderr: string): string =>
  stderr.split('\n').find((line) => line.includes(`"event":"${event}"`)) ?? stderr;

const base64 = async (file: string): Promise<string> => (await readFile(file)).toString('base64');

/** As the controller of etcdadm makes it. */
async function putSecret(pair: Pair): Promise<void> {
  await management.admin(`${path}/${place.name}`, { method: 'DELETE' });
  const data = { 'tls.crt': await base64(pair.cert), 'tls.key': await base64(pair.key), other: 'b3RoZXI=' };
  const body = { metadata: { name: place.name, labels: { cluster: 'one' } }, type: 'cluster.x-k8s.io/secret', data };
  const { status } = await management.admin(path, { method: 'POST', body });
  expect(status).toBe(201);
}

interface Secret {
  readonly type: string;
  readonly metadata: { readonly resourceVersion: string; readonly labels: Readonly<Record<string, string>> };
  readonly data: Readonly<Record<string, string>>;
}
const secret = async (): Promise<Secret> => (await management.admin(`${path}/${place.name}`)).body as Secret;

/** A machine whose pair for etcd has expired, and what its run says. */
async function machineWith(former: Partial<typeof expired> = expired) {
  const machine = await pristine.copy();
  const own = join(machine.root, 'ETCD');
  await mkdir(own);
  await copyFile(signer.cert, join(own, 'ca.crt'));
  const leaf = await createLeaf(join(machine.root, 'former'), signer, { ...identity, ...former });
  const client = { cert: join(own, 'client.crt'), key: join(own, 'client.key') };
  await copyFile(leaf.cert, client.cert);
  await copyFile(leaf.key, client.key);
  const manifest = machine.path('manifests/kube-apiserver.yaml');
  await writeFile(manifest, (await readFile(manifest, 'utf8')).replaceAll('/ETCD', own));
  const directories = {
    kubernetesDir: machine.path(),
    pkiDir: machine.path('pki'),
    kubeletDir: join(machine.root, 'var/lib/kubelet'),
  };
  const run = (sources: object, ...flags: readonly string[]): Promise<Outcome> =>
    recover(machine.root, 'kubeadm', directories, { sources }, flags);
  const status = (sources: object, ...flags: readonly string[]): Promise<Outcome> =>
    recover(machine.root, 'kubeadm', directories, { sources }, flags, ['status']);
  return { client, run, status, machine, directories, [Symbol.asyncDispose]: () => machine[Symbol.asyncDispose]() };
}

async function recover(
  root: string,
  preset: string,
  directories: object,
  regen: object,
  flags: readonly string[] = [],
  command: readonly string[] = ['--mode=regen', '--once'],
): Promise<Outcome> {
  const config = join(root, 'recovery.yaml');
  const own = { backupDir: join(root, 'backups'), lockDir: join(root, 'lock'), ...regen };
  await writeFile(
    config,
    `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: ${preset}\n` +
      `directories: ${JSON.stringify(directories)}\nregen: ${JSON.stringify(own)}\n`,
  );
  const words = [...unseen, process.execPath, program, ...command];
  return new Promise((resolve) => {
    execFile('unshare', [...asRoot, ...words, `--config=${config}`, ...flags], (err, stdout, stderr) =>
      resolve({ stdout, stderr, code: err === null ? 0 : Number(err.code ?? -1) }),
    );
  });
}

const same = async (one: string, other: string): Promise<void> =>
  expect(await readFile(one, 'utf8')).toBe(await readFile(other, 'utf8'));

const fromSecret = () => ({
  'external-etcd-client': { secret: { kubeconfig: management.adminKubeconfig, ...place } },
});

describe('an expired pair whose CA has its key elsewhere', () => {
  it('comes from the Secret of the management cluster, and the log names it', async () => {
    await putSecret(fresh);
    await using here = await machineWith();
    const { code, stderr } = await here.run(fromSecret());
    expect(code, stderr).toBe(0);
    await same(here.client.cert, fresh.cert);
    await same(here.client.key, fresh.key);
    expect(lineOf('pair.fetched', stderr)).toContain('Secret \\"default/cluster1-apiserver-etcd-client\\"');
    expect((await here.machine.status()).code).toBe(0);
    // While it is valid nobody is asked.
    const again = await here.run({ 'external-etcd-client': { command: ['/bin/false'] } });
    expect(again.code, again.stderr).toBe(0);
    expect(again.stderr).not.toContain('pair.');
  });

  it('comes from files, or from a command, and the log names these', async () => {
    await using here = await machineWith();
    const files = { pemPair: { certFile: fresh.cert, keyFile: fresh.key } };
    const made = await here.run({ 'external-etcd-client': files });
    expect(made.code, made.stderr).toBe(0);
    expect(made.stderr).toContain(`files \\"${fresh.cert}\\"`);
    await using there = await machineWith();
    const command = ['/bin/cat', fresh.key, fresh.cert];
    const { code, stderr } = await there.run({ 'external-etcd-client': { command } });
    expect(code, stderr).toBe(0);
    expect(lineOf('pair.fetched', stderr)).toContain('command \\"/bin/cat\\"');
    expect(stderr).not.toContain('PRIVATE KEY');
    await same(there.client.key, fresh.key);
  });

  it('stays where the Secret holds the pair of a stranger, or none that ends later: exit 5', async () => {
    await putSecret(stranger);
    await using here = await machineWith();
    const before = await readFile(here.client.cert, 'utf8');
    const refused = await here.run(fromSecret());
    expect(refused.code, refused.stderr).toBe(5);
    expect(lineOf('rotation.blocked', refused.stderr)).toContain('the CA on this machine would not verify it');
    const none = await here.run({
      'external-etcd-client': { command: ['/bin/cat', here.client.cert, here.client.key] },
    });
    expect(none.code, none.stderr).toBe(5);
    expect(none.stderr).toContain('it expired at');
    expect(await readFile(here.client.cert, 'utf8')).toBe(before);
  });

  it.each<[string, (root: string) => object, string]>([
    ['a FIFO', (root) => ({ pemPair: { certFile: join(root, 'fifo'), keyFile: join(root, 'fifo') } }), 'ENOTREG'],
    ['a command that hangs', () => ({ command: ['/bin/sh', '-c', 'sleep 600 & sleep 600'] }), 'Cannot use command'],
    ['a command that floods', () => ({ command: ['/usr/bin/yes'] }), 'Cannot use command'],
    ['a command that is not there', () => ({ command: ['/nowhere/fetch'] }), 'ENOENT'],
  ])('stays where the source is %s', async (_, source, told) => {
    await using here = await machineWith();
    execFileSync('mkfifo', [join(here.machine.root, 'fifo')]);
    const { code, stderr } = await here.run({ 'external-etcd-client': source(here.machine.root) });
    expect(code, stderr).toBe(5);
    expect(lineOf('pair.failed', stderr)).toContain(told);
  });

  it('keeps nothing else from being repaired where the source fails', async () => {
    await using here = await machineWith();
    const own = { cert: here.machine.path('pki/ca.crt'), key: here.machine.path('pki/ca.key') };
    const old = await createLeaf(join(here.machine.root, 'old'), own, {
      commonName: 'kube-apiserver-kubelet-client',
      ...expired,
    });
    const kubelet = here.machine.path('pki/apiserver-kubelet-client');
    await copyFile(old.cert, `${kubelet}.crt`);
    await copyFile(old.key, `${kubelet}.key`);
    // What the source sees while it is asked: the repaired file, and nobody who holds the files of this host.
    const lock = join(here.machine.root, 'lock');
    const command = ['/bin/sh', '-c', `cp ${kubelet}.crt ${lock}/seen; ls ${lock} > ${lock}/while-asked; exit 1`];
    const { code, stderr } = await here.run({ 'external-etcd-client': { command } });
    expect(code, stderr).toBe(5);
    expect(lineOf('target.regenerated', stderr)).toContain('apiserver-kubelet-client');
    expect(lineOf('pair.failed', stderr)).toContain('exit 1');
    await same(join(lock, 'seen'), `${kubelet}.crt`);
    expect(await readFile(join(lock, 'while-asked'), 'utf8')).not.toContain('.sock');
    const secretAway = { secret: { kubeconfig: '/nowhere/kubeconfig', ...place } };
    const away = await here.run({ 'external-etcd-client': secretAway });
    expect(away.code, away.stderr).toBe(5);
    expect(lineOf('pair.failed', away.stderr)).toContain('/nowhere/kubeconfig');
  });
});

describe('the plan knows the source', () => {
  it('status and a dry run say what comes from it, and write nothing', async () => {
    await putSecret(fresh);
    await using here = await machineWith();
    const before = await readFile(here.client.cert, 'utf8');
    const told = await here.status(fromSecret());
    expect(told.code, told.stdout).toBe(3);
    expect(told.stdout).toMatch(
      /^external-etcd-client +EXPIRED +brought from its source once armed +it expired at \S+; brought from Secret "default\/cluster1-apiserver-etcd-client" /m,
    );
    expect(told.stdout).not.toContain('by hand');
    const dry = await here.run(fromSecret(), '--dry-run');
    expect(dry.code, dry.stderr).toBe(0);
    expect(lineOf('rotation.decided', dry.stderr)).toContain('"reason":"OfferedBySource"');
    expect(dry.stderr).not.toContain('pair.fetched');
    expect(await readFile(here.client.cert, 'utf8')).toBe(before);
    expect((await here.run(fromSecret())).code).toBe(0);
    expect((await here.machine.status()).code).toBe(0);
  });

  it('a dry run runs no command, and says that a run would', async () => {
    await using here = await machineWith();
    const mark = join(here.machine.root, 'was-run');
    const source = { 'external-etcd-client': { command: ['/bin/touch', mark] } };
    const { code, stderr } = await here.run(source, '--dry-run');
    expect(code, stderr).toBe(5);
    const told = 'command \\"/bin/touch\\" is not run by a dry run: a run would run it';
    expect(lineOf('rotation.blocked', stderr)).toContain(told);
    expect(stderr).not.toContain('pair.failed');
    expect(existsSync(mark)).toBe(false);
    await here.run(source);
    expect(existsSync(mark)).toBe(true);
  });

  it('a configuration that others may write is refused as root, with its mode', async () => {
    await using here = await machineWith();
    await chmod(here.machine.root, 0o777);
    const { code, stderr } = await here.run(fromSecret());
    expect(code, stderr).toBe(2);
    expect(stderr).toMatch(/Cannot take configuration ".*": root goes by it, and everybody may write ".*, mode 0777\)/);
  });

  it('status says why a source does not help, and that somebody must bring a pair: exit 5', async () => {
    await putSecret(stranger);
    await using here = await machineWith();
    const { stdout, code } = await here.status(fromSecret());
    expect(code, stdout).toBe(5);
    expect(stdout).toMatch(/^external-etcd-client +EXPIRED +nothing: bring a new one by hand/m);
    expect(stdout).toContain('does not help: the CA on this machine would not verify it');
    const away = await here.status({ 'external-etcd-client': { command: ['/bin/false'] } });
    expect(away.code, away.stdout).toBe(5);
    expect(away.stdout).toContain('command "/bin/false" does not help: Cannot use command "/bin/false": exit 1');
  });

  it('a source is asked once an hour while the pair works, and each time when it does not', async () => {
    const soon = { notBefore: new Date(Date.now() - 360 * day), notAfter: new Date(Date.now() + 5 * day) };
    for (const [former, asked] of [
      [soon, 1],
      [expired, 2],
    ] as const) {
      await using here = await machineWith(former);
      const count = join(here.machine.root, 'asked');
      const command = ['/bin/sh', '-c', `echo asked >> ${count}; exit 1`];
      await here.run({ 'external-etcd-client': { command } });
      await here.run({ 'external-etcd-client': { command } });
      expect(await readFile(count, 'utf8')).toBe('asked\n'.repeat(asked));
      // A report of another day asks nobody, one of today when the hour is over, as a run does.
      await here.status({ 'external-etcd-client': { command } }, '--at=2050-01-01');
      expect(await readFile(count, 'utf8')).toBe('asked\n'.repeat(asked));
      await keptEarlier(join(here.machine.root, 'lock/asked-external-etcd-client'), 3_601_000);
      await here.status({ 'external-etcd-client': { command } });
      await here.run({ 'external-etcd-client': { command } });
      expect(await readFile(count, 'utf8')).toBe('asked\n'.repeat(asked + 2));
    }
    await using here = await machineWith(soon);
    const files = { pemPair: { certFile: fresh.cert, keyFile: fresh.key } };
    expect((await here.run({ 'external-etcd-client': files })).code).toBe(0);
    await same(here.client.cert, fresh.cert);
  });
});

it('all of it: etcd and kube-apiserver with expired certificates, two clusters, one pair', async () => {
  await using etcd = await EtcdMembers.create(expired);
  const [first] = etcd.members;
  if (first === undefined) throw new Error('no member');
  const pair = join(first.pki, 'apiserver-etcd-client');
  await putSecret({ cert: `${pair}.crt`, key: `${pair}.key` });
  await management.apply(await clusterApiCrd('Machine'));
  await eventually(() => management.apply(machineOf('node1')));

  // A control-plane machine whose pair came out of that Secret when it was made; the key of etcd's CA is elsewhere.
  await using here = await machineWith();
  const { machine, client, directories } = here;
  await copyFile(`${pair}.crt`, client.cert);
  await copyFile(`${pair}.key`, client.key);
  await copyFile(join(first.pki, 'ca.crt'), join(machine.root, 'ETCD/ca.crt'));
  const [port = 0] = await freePorts(1);
  const manifest = machine.path('manifests/kube-apiserver.yaml');
  const text = await readFile(manifest, 'utf8');
  await writeFile(
    manifest,
    text
      .replace('https://192.0.2.20:2379', etcd.clientUrls.join(','))
      .replaceAll('6443', String(port))
      .replace(/^( +)- --secure-port/m, '$1- --bind-address=127.0.0.1\n$&'),
  );
  const binaries = await findBinaries(['kube-apiserver', 'kubectl']);
  const flags = await machine.flagsOf('kube-apiserver');
  const startApiServer = (): SupervisedProcess =>
    new SupervisedProcess({
      name: 'kube-apiserver',
      command: binaries.get('kube-apiserver') ?? '',
      args: flags,
      logFile: join(machine.root, 'kube-apiserver.log'),
    });
  const recoverHere = (...more: readonly string[]): Promise<Outcome> =>
    recover(
      machine.root,
      'kubeadm',
      directories,
      {
        sources: fromSecret(),
        machine: { kubeconfig: management.adminKubeconfig, namespace: 'default', name: 'node1' },
      },
      [`--api-server-address=127.0.0.1:${port}`, ...more],
    );

  // Switched on, before anybody has renewed anything: the pair in the Secret has expired, too.
  const early = await recoverHere();
  expect(early.code, early.stderr).toBe(5);
  expect(lineOf('rotation.blocked', early.stderr)).toContain('does not help: it expired at');

  const deliveries = { 'apiserver-etcd-client': { secret: { kubeconfig: management.adminKubeconfig, ...place } } };
  for (const member of etcd.members) {
    const directory = { etcdPkiDir: member.pki };
    const { code, stderr } = await recover(member.root, 'etcdadm', directory, { deliveries }, ['--restart']);
    expect(code, stderr).toBe(0);
    etcd.start(member);
  }
  for (const member of etcd.members)
    await eventually(async () => expect(await etcd.health(member)).toContain('"health":"true"'));
  expect((await secret()).data['tls.crt']).toBe(await base64(`${pair}.crt`));

  // etcd is back, and kube-apiserver without the new pair is not.
  const refused = startApiServer();
  await eventually(() => expect(refused.failure).toBeDefined());
  expect(refused.logTail(1000)).toMatch(/etcd|context deadline exceeded/);
  await eventually(() => expect(etcd.count(/certificate has expired/)).toBeGreaterThan(0));

  const brought = await recoverHere();
  expect(brought.code, brought.stderr).toBe(0);
  expect(lineOf('pair.fetched', brought.stderr)).toContain('Secret \\"default/cluster1-apiserver-etcd-client\\"');
  await same(client.cert, `${pair}.crt`);
  const apiServer = startApiServer();
  try {
    const kubectl = [`--kubeconfig=${machine.path('super-admin.conf')}`, `--server=https://127.0.0.1:${port}`];
    const ask = (what: string): string =>
      execFileSync(binaries.get('kubectl') ?? '', [...kubectl, '--tls-server-name=kubernetes', 'get', '--raw', what], {
        encoding: 'utf8',
        stdio: 'pipe',
      });
    await eventually(() => expect(ask('/readyz')).toBe('ok'));
    expect(ask('/api/v1/namespaces/default')).toContain('"default"');

    // The timer's run: the Machine says what is served.
    const timed = await recoverHere('--restart');
    expect(timed.stderr).toContain('machine.annotated');
    const { validTo } = new X509Certificate(await readFile(machine.path('pki/apiserver.crt')));
    const { body } = await management.admin('/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines/node1');
    expect((body as { metadata: { annotations: object } }).metadata.annotations).toMatchObject({
      'machine.cluster.x-k8s.io/certificates-expiry': new Date(validTo).toISOString().replace('.000Z', 'Z'),
    });
  } finally {
    await apiServer.kill();
  }
});

const machineOf = (name: string): string =>
  JSON.stringify({
    apiVersion: 'cluster.x-k8s.io/v1beta2',
    kind: 'Machine',
    metadata: { namespace: 'default', name },
    spec: {
      clusterName: 'cluster1',
      bootstrap: { dataSecretName: name },
      infrastructureRef: { apiGroup: 'infrastructure.cluster.x-k8s.io', kind: 'DockerMachine', name },
    },
  });

it('a pair that was renewed on a machine of etcd goes into the Secret, once, and the rest of that stays', async () => {
  await using etcd = await EtcdMembers.create(expired);
  const [first, second] = etcd.members;
  if (first === undefined || second === undefined) throw new Error('no member');
  const base = join(first.pki, 'apiserver-etcd-client');
  await putSecret({ cert: `${base}.crt`, key: `${base}.key` });
  const kubeconfig = join(first.root, 'management.conf');
  await copyFile(management.adminKubeconfig, kubeconfig);
  const deliveries = { 'apiserver-etcd-client': { secret: { kubeconfig, ...place } } };
  const run = (root: string, etcdPkiDir: string) =>
    recover(root, 'etcdadm', { etcdPkiDir }, { deliveries }, ['--restart']);
  // What a start waits for tells nobody.
  const early = await recover(first.root, 'etcdadm', { etcdPkiDir: first.pki }, { deliveries });
  expect(early.code, early.stderr).toBe(0);
  expect(early.stderr).not.toContain('pair.');
  const { code, stderr } = await run(first.root, first.pki);
  expect(code, stderr).toBe(0);
  expect(lineOf('pair.delivered', stderr)).toContain('cluster1-apiserver-etcd-client');
  const made = await secret();
  expect(made.data['tls.crt']).toBe(await base64(`${base}.crt`));
  expect(made.data['tls.key']).toBe(await base64(`${base}.key`));
  expect(made).toMatchObject({
    type: 'cluster.x-k8s.io/secret',
    data: { other: 'b3RoZXI=' },
    metadata: { labels: { cluster: 'one' } },
  });
  // The next machine has a pair of its own: the one in the Secret is good, and stays.
  expect((await run(second.root, second.pki)).code).toBe(0);
  // Known to be there, it is not asked for each minute.
  await rm(kubeconfig);
  const look = () => run(first.root, first.pki);
  expect((await look()).stderr).not.toContain('pair.failed');
  expect((await secret()).metadata.resourceVersion).toBe(made.metadata.resourceVersion);
  // An hour later it is; and a failure is not told each minute.
  await keptEarlier(join(first.root, 'lock/delivered-apiserver-etcd-client'), 3_601_000);
  expect(lineOf('pair.failed', (await look()).stderr)).toContain(kubeconfig);
  expect((await look()).stderr).not.toContain('pair.failed');
});

it('a pair that would not do in the place of what is there is not delivered, and that is said', async () => {
  await using etcd = await EtcdMembers.create(expired);
  const [member] = etcd.members;
  if (member === undefined) throw new Error('no member');
  await putSecret({ cert: join(member.pki, 'server.crt'), key: join(member.pki, 'server.key') });
  const before = await secret();
  const deliveries = { 'apiserver-etcd-client': { secret: { kubeconfig: management.adminKubeconfig, ...place } } };
  const directory = { etcdPkiDir: member.pki };
  const { stderr } = await recover(member.root, 'etcdadm', directory, { deliveries }, ['--restart']);
  expect(lineOf('pair.failed', stderr)).toMatch(/Cannot be used there: it is for .*, wanted one for /);
  expect((await secret()).metadata.resourceVersion).toBe(before.metadata.resourceVersion);
});
