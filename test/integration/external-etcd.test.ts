// A control plane of kubeadm whose etcd is elsewhere: the pair and the CA that kube-apiserver's flags name are watched,
// renewed where the CA's key is on this machine, and reported where it is not.
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAuthority, createLeaf, type LeafOptions, type Pair } from '../support/certificates/certificates.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const run = promisify(execFile);
const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));

const expired = { notBefore: new Date('2025-01-01T00:00:00Z'), notAfter: new Date('2026-01-01T00:00:00Z') };
const identity = { commonName: 'cluster1-kube-apiserver-etcd-client', organization: 'system:masters' };

interface World extends AsyncDisposable {
  readonly machine: KubeadmMachine;
  /** Files that kube-apiserver's flags name. */
  readonly ca: Pair;
  readonly client: Pair;
  /** Signs what the administrator of etcd signs. */
  readonly signer: Pair;
}

let pristine: KubeadmMachine;
/** Files of etcd's administrator; each world copies them to the place that its manifest names. */
let signer: Pair;
let other: Pair;

/** The manifest names files below this root: kubeadm is told so. */
const placed = (root: string) => ({
  ca: { cert: join(root, 'etcd-elsewhere/ca.pem'), key: join(root, 'etcd-elsewhere/ca-key.pem') },
  client: { cert: join(root, 'etcd-elsewhere/client.pem'), key: join(root, 'etcd-elsewhere/client-key.pem') },
});

beforeAll(async () => {
  const [caFile, certFile, keyFile] = ['/ETCD/ca.pem', '/ETCD/client.pem', '/ETCD/client-key.pem'];
  const external = { endpoints: ['https://192.0.2.20:2379'], caFile, certFile, keyFile };
  pristine = await KubeadmMachine.create(`etcd: ${JSON.stringify({ external })}`);
  signer = await createAuthority(join(pristine.root, 'administrator'), { commonName: 'etcd CA' });
  other = await createAuthority(join(pristine.root, 'another'), { commonName: 'another CA of etcd' });
});
afterAll(() => pristine?.[Symbol.asyncDispose]());

async function sign(by: Pair, to: Pair, options: Partial<LeafOptions>): Promise<void> {
  const made = await createLeaf(`${to.cert}.made`, by, { ...identity, ...options });
  await copyFile(made.cert, to.cert);
  await copyFile(made.key, to.key);
  await rm(`${to.cert}.made`, { recursive: true });
}

async function world({
  hasKey = false,
  by = signer,
  ...options
}: Partial<LeafOptions> & { hasKey?: boolean; by?: Pair }): Promise<World> {
  const machine = await pristine.copy();
  const { ca, client } = placed(machine.root);
  await mkdir(join(machine.root, 'etcd-elsewhere'));
  await copyFile(signer.cert, ca.cert);
  if (hasKey) await copyFile(signer.key, ca.key);
  await sign(by, client, options);
  const manifest = machine.path('manifests/kube-apiserver.yaml');
  const text = await readFile(manifest, 'utf8');
  await writeFile(manifest, text.replaceAll('/ETCD', join(machine.root, 'etcd-elsewhere')));
  return { machine, ca, client, signer, [Symbol.asyncDispose]: () => machine[Symbol.asyncDispose]() };
}

/** One run, as before a start of the kubelet. */
async function recover({
  root,
  path,
}: {
  root: string;
  path: (...names: readonly string[]) => string;
}): Promise<Outcome> {
  const config = join(root, 'recovery.yaml');
  const directories = { kubernetesDir: path(), pkiDir: path('pki'), kubeletDir: join(root, 'var/lib/kubelet') };
  const regen = { backupDir: join(root, 'backups'), lockDir: join(root, 'lock') };
  await writeFile(
    config,
    `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n` +
      `directories: ${JSON.stringify(directories)}\nregen: ${JSON.stringify(regen)}\n`,
  );
  const words = [...unseen, process.execPath, program];
  return new Promise((resolve) => {
    execFile(
      'unshare',
      [...asRoot, '--net', ...words, '--mode=regen', '--once', `--config=${config}`],
      (err, stdout, stderr) =>
        resolve({ stdout, stderr, code: err === null ? 0 : typeof err.code === 'number' ? err.code : -1 }),
    );
  });
}

const verified = (ca: string, cert: string) => run('openssl', ['verify', '-CAfile', ca, '-purpose', 'sslclient', cert]);
const recovering = ({ machine }: World) => recover({ root: machine.root, path: (...names) => machine.path(...names) });

describe('an etcd elsewhere, whose CA has no key on this machine', () => {
  it('valid: status shows the pair and the CA, and all is well', async () => {
    await using here = await world({});
    const { stdout, code } = await here.machine.status();
    expect(stdout).toMatch(/^external-etcd-client +\w{3} \d\d, .* external-etcd-ca +yes +$/m);
    expect(stdout).toMatch(/^external-etcd-ca +\w{3} \d\d, /m);
    expect(stdout).toContain('Every certificate on disk is as it should be.');
    expect(code, stdout).toBe(0);
  });

  it('an expired client pair: exit 5, and the sentence says what to bring where', async () => {
    await using here = await world(expired);
    const { stdout, code } = await here.machine.status();
    expect(stdout).toMatch(/^external-etcd-client +EXPIRED +nothing: bring a new one by hand/m);
    expect(stdout).toContain(
      `bring a new certificate for "${identity.commonName}", signed by external-etcd-ca (CN=etcd CA), with its key to pair "${here.client.cert}"`,
    );
    expect(stdout).not.toContain('as it should be');
    expect(code, stdout).toBe(5);
    const info = JSON.parse((await here.machine.status('-o', 'json')).stdout) as Readonly<Record<string, unknown>>;
    expect(info).toMatchObject({ status: 'stuck' });
    expect(info['nodeCertificates']).toContainEqual(
      expect.objectContaining({
        name: 'external-etcd-client',
        state: 'EXPIRED',
        reason: 'SignerExternal',
        byHand: true,
      }),
    );
  });

  it('a client pair that ends before the day that is asked for: the forecast says so', async () => {
    await using here = await world({ notAfter: new Date(Date.now() + 30 * 86_400_000) });
    const day = new Date(Date.now() + 60 * 86_400_000).toISOString().slice(0, 10);
    const { stdout, code } = await here.machine.status('--at', day);
    expect(stdout).toContain('this node would not come back by itself:');
    expect(code, stdout).toBe(5);
  });

  it('a run leaves the expired pair as it is, and says that somebody must bring it', async () => {
    await using here = await world(expired);
    const before = await readFile(here.client.cert);
    const { code, stderr } = await recovering(here);
    expect(code, stderr).toBe(5);
    expect(await readFile(here.client.cert)).toEqual(before);
  });
});

describe('an etcd elsewhere, whose CA has its key on this machine', () => {
  it('an expired client pair is renewed in place, with subject, mode and CA as before', async () => {
    await using here = await world({ ...expired, hasKey: true });
    const { code, stderr } = await recovering(here);
    expect(code, stderr).toBe(0);
    await verified(here.ca.cert, here.client.cert);
    const { stdout } = await run('openssl', [
      'x509',
      '-noout',
      '-subject',
      '-nameopt',
      'RFC2253',
      '-in',
      here.client.cert,
    ]);
    expect(stdout.trim()).toBe(`subject=CN=${identity.commonName},O=${identity.organization}`);
    expect((await stat(here.client.key)).mode & 0o777).toBe(0o600);
    expect(await readFile(here.ca.cert)).toEqual(await readFile(here.signer.cert));
    expect((await here.machine.status()).code).toBe(0);
  });

  it('a valid one that another CA has signed is left alone, as etcd may trust that', async () => {
    await using here = await world({ hasKey: true, by: other });
    const before = await readFile(here.client.cert);
    expect((await here.machine.status()).code).toBe(0);
    expect((await recovering(here)).code).toBe(0);
    expect(await readFile(here.client.cert)).toEqual(before);
  });

  it('an expired one that another CA has signed is not renewed with this one: exit 5', async () => {
    await using here = await world({ ...expired, hasKey: true, by: other });
    const before = await readFile(here.client.cert);
    const { stdout, code } = await here.machine.status();
    expect(stdout).toContain('CN=another CA of etcd');
    expect(code, stdout).toBe(5);
    expect((await recovering(here)).code).toBe(5);
    expect(await readFile(here.client.cert)).toEqual(before);
  });
});
