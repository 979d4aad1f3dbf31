// One run of the program on the files of a machine that the real kubeadm made: everything expired, each leaf lost in turn,
// CAs without their keys, a disk that is full. openssl says whether what it leaves is good.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resolveHere } from '../../cmd/read-config.ts';
import { systemClock } from '../../lib/clock.ts';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { issueSigner } from '../../lib/issue/issue.ts';
import { parsePrivateKey, PrivateKey } from '../../lib/pki/key.ts';
import { type Store } from '../../lib/store/store.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { expire } from '../support/cluster/expire.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { privateKeyKey } from '../../lib/inventory/content.ts';
import { kubeadmCertificates } from '../support/kubeadm-names.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));

let expired: KubeadmMachine;
beforeAll(async () => {
  expired = await KubeadmMachine.create('apiServer: { certSANs: [extra.example.com] }');
  await keepKubeletCredentialsInAFile(expired);
  await expireLeaves(expired);
});
afterAll(() => expired?.[Symbol.asyncDispose]());

/** As the kubelet does after its first rotation: a dated file, a link to it, and a kubeconfig that names the link. */
async function keepKubeletCredentialsInAFile(machine: KubeadmMachine): Promise<void> {
  const pki = join(machine.root, 'var/lib/kubelet/pki');
  await mkdir(pki, { recursive: true });
  const path = machine.path('kubelet.conf');
  const text = await readFile(path, 'utf8');
  const data = (name: string): string => new RegExp(`client-${name}-data: (\\S+)`).exec(text)?.[1] ?? '';
  const pem = ['certificate', 'key'].map((name) => Buffer.from(data(name), 'base64').toString()).join('');
  await writeFile(join(pki, 'kubelet-client-2025-01-01-00-00-00.pem'), pem, { mode: 0o600 });
  await symlink('kubelet-client-2025-01-01-00-00-00.pem', join(pki, 'kubelet-client-current.pem'));
  const current = join(pki, 'kubelet-client-current.pem');
  await writeFile(path, text.replaceAll(/client-(certificate|key)-data: \S+/g, `client-$1: ${current}`));
}

async function rowsOf(machine: KubeadmMachine): Promise<readonly ResolvedArtefact[]> {
  const inventory = loadPreset('kubeadm');
  const { artefacts } = await resolveHere({ inventory, environment: { directories: machine.directories } });
  return artefacts;
}

/** Leaves signed by the same CAs, that ended an hour ago. */
async function expireLeaves(machine: KubeadmMachine): Promise<void> {
  const store = createDiskStore();
  const rows = await rowsOf(machine);
  const there = await Promise.all(rows.map(({ location }) => store.read(location, AbortSignal.timeout(60_000))));
  const artefacts = rows.filter((_, at) => there[at] !== undefined);
  await ageSigners(artefacts, store);
  await expire({
    resolved: { name: 'kubeadm', artefacts },
    store,
    now: systemClock.now(),
    except: ({ kind }) => kind !== 'target',
  });
}

/** The CAs have lived as long as what they have signed: the same keys, since two years. */
async function ageSigners(rows: readonly ResolvedArtefact[], store: Store): Promise<void> {
  const signal = AbortSignal.timeout(60_000);
  for (const row of rows) {
    if (row.kind !== 'signer') continue;
    const found = await store.read(row.location, signal);
    const key = new PrivateKey(parsePrivateKey(found?.entries[privateKeyKey] ?? new Uint8Array(), row.name));
    const now = new Date(systemClock.now().getTime() - 2 * 365 * 86_400_000);
    const { entries, annotations } = await issueSigner({ artefact: row, key, now });
    const version = found?.version ?? '';
    expect(await store.write(row.location, { entries, annotations }, { version }, signal)).toBe('written');
  }
}

/** The copy has other paths: those in its kubeconfig follow. */
async function another(): Promise<KubeadmMachine> {
  const machine = await expired.copy();
  const path = machine.path('kubelet.conf');
  await writeFile(path, (await readFile(path, 'utf8')).replaceAll(expired.root, machine.root));
  return machine;
}

async function configure(machine: KubeadmMachine, directories = machine.directories): Promise<string> {
  const path = join(machine.root, 'recovery.yaml');
  const [backupDir, lockDir] = [join(machine.root, 'backups'), join(machine.root, 'lock')];
  await writeFile(
    path,
    `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n` +
      `directories: ${JSON.stringify(directories)}\nregen: ${JSON.stringify({ backupDir, lockDir })}\n`,
  );
  return path;
}

function unshared(...command: readonly string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile('unshare', [...asRoot, ...unseen, ...command], (err, stdout, stderr) =>
      resolve({ stdout, stderr, code: err === null ? 0 : typeof err.code === 'number' ? err.code : -1 }),
    );
  });
}

async function recover(machine: KubeadmMachine): Promise<Outcome> {
  const config = await configure(machine);
  return unshared(process.execPath, program, '--mode=regen', '--once', `--config=${config}`);
}

const writes = ({ stderr }: Outcome): number =>
  stderr.split('\n').filter((line) => /"event":"\w+\.regenerated"/.test(line)).length;

/** Every file below /etc/kubernetes and /var/lib/kubelet: inode and content, or where it leads. */
async function treeOf(...directories: readonly string[]): Promise<Readonly<Record<string, string>>> {
  const found: [string, string][] = [];
  for (const directory of directories) {
    for (const name of await readdir(directory, { recursive: true })) {
      const path = join(directory, name);
      const status = await lstat(path);
      if (status.isSymbolicLink()) found.push([path, await readlink(path)]);
      if (!status.isFile()) continue;
      const digest = createHash('sha256')
        .update(await readFile(path))
        .digest('hex');
      found.push([path, `${status.ino} ${status.mode} ${digest}`]);
    }
  }
  return Object.fromEntries(found);
}
const filesOf = (machine: KubeadmMachine): ReturnType<typeof treeOf> =>
  treeOf(machine.path(), join(machine.root, 'var/lib/kubelet'));

const openssl = (...args: readonly string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    execFile('openssl', args, (err, stdout) => (err === null ? resolve(stdout) : reject(err)));
  });

interface User {
  readonly user: Readonly<Record<string, string>>;
}

/** PEM of the certificate and of the key, as whoever reads the artefact finds them. */
async function credentials({ location }: ResolvedArtefact): Promise<readonly [certificate: string, key: string]> {
  if (location.kind === 'pemPair')
    return [await readFile(location.certFile, 'utf8'), await readFile(location.keyFile, 'utf8')];
  if (location.kind !== 'kubeconfig') throw new Error(`nothing of this kind is expected here: ${location.kind}`);
  const { users } = parseYaml(await readFile(location.file, 'utf8')) as { readonly users: readonly User[] };
  const [user = {}] = users.map((one) => one.user);
  const part = async (name: string): Promise<string> =>
    user[name] === undefined
      ? Buffer.from(user[`${name}-data`] ?? '', 'base64').toString()
      : readFile(user[name], 'utf8');
  return [await part('client-certificate'), await part('client-key')];
}

/** Throws unless openssl finds chain, dates and key good. */
async function verify(machine: KubeadmMachine, artefact: ResolvedArtefact): Promise<void> {
  const ca = { ca: 'ca', 'etcd-ca': 'etcd/ca', 'front-proxy-ca': 'front-proxy-ca' }[
    'issuer' in artefact ? (artefact.issuer ?? '') : ''
  ];
  const [certificate, key] = await credentials(artefact);
  const [certFile, keyFile] = [join(machine.root, 'tmp/leaf.crt'), join(machine.root, 'tmp/leaf.key')];
  await writeFile(certFile, certificate);
  await writeFile(keyFile, key, { mode: 0o600 });
  await openssl('verify', '-CAfile', machine.path('pki', `${ca}.crt`), certFile);
  const ofKey = await openssl('pkey', '-in', keyFile, '-pubout');
  expect(await openssl('x509', '-in', certFile, '-noout', '-pubkey'), artefact.name).toBe(ofKey);
}

/** The tables of the real `kubeadm certs check-expiration` are those of `status`, date for date. */
async function kubeadmAgrees(machine: KubeadmMachine): Promise<void> {
  const theirs = await machine.kubeadmDone('certs', 'check-expiration');
  const ours = await machine.status();
  expect(ours.stdout.slice(0, theirs.length), ours.stderr).toBe(theirs);
}

const leaves: readonly string[] = [...kubeadmCertificates, 'kubelet.conf'];

async function leavesOf(machine: KubeadmMachine): Promise<readonly ResolvedArtefact[]> {
  const rows = (await rowsOf(machine)).filter(({ name }) => leaves.includes(name));
  expect(rows).toHaveLength(leaves.length);
  return rows;
}

it('reissues everything that has expired, in one run; the next one writes nothing', async () => {
  await using machine = await another();
  const rows = await leavesOf(machine);
  for (const row of rows) await expect(verify(machine, row), row.name).rejects.toThrow('certificate has expired');
  const before = await filesOf(machine);
  await kubeadmAgrees(machine);

  const first = await recover(machine);
  expect(first.code, first.stderr).toBe(0);
  expect(writes(first)).toBe(leaves.length);
  for (const row of rows) await verify(machine, row);
  await kubeadmAgrees(machine);
  const kubelet = join(machine.root, 'var/lib/kubelet/pki/kubelet-client-current.pem');
  expect((await lstat(kubelet)).isSymbolicLink()).toBe(true);
  expect(await readFile(machine.path('kubelet.conf'), 'utf8')).toContain(kubelet);

  const after = await filesOf(machine);
  const cas = Object.keys(before).filter((path) => /\bca\.|sa\.|manifests/.test(path));
  expect(cas.length).toBeGreaterThan(8);
  for (const path of cas) expect(after[path], path).toBe(before[path]);

  const second = await recover(machine);
  expect(second.code, second.stderr).toBe(0);
  expect(await filesOf(machine)).toEqual(after);
});

describe('one leaf', () => {
  let machine: KubeadmMachine;
  beforeAll(async () => {
    machine = await another();
    expect((await recover(machine)).code).toBe(0);
  });
  afterAll(() => machine?.[Symbol.asyncDispose]());

  const filesOfLeaf = ({ location }: ResolvedArtefact): readonly string[] =>
    location.kind === 'pemPair'
      ? [location.certFile, location.keyFile]
      : location.kind === 'kubeconfig'
        ? [location.file]
        : [];

  it.each(leaves)('%s is made again when it was deleted or overwritten, and nothing else is touched', async (name) => {
    const row = (await leavesOf(machine)).find((one) => one.name === name) as ResolvedArtefact;
    const own = filesOfLeaf(row);
    const others = async (): Promise<object> =>
      Object.fromEntries(
        Object.entries(await filesOf(machine)).filter(([path]) => !own.includes(path) && !path.includes('kubelet/pki')),
      );
    const untouched = await others();
    const harms: readonly ((path: string) => Promise<void>)[] = [
      (path) => rm(path),
      (path) => writeFile(path, '\0'.repeat(512)),
      (path) => writeFile(path, ''),
    ];
    for (const [at, harm] of harms.entries()) {
      if (name.endsWith('admin.conf') && at === 0) continue; // optional: many delete them
      await Promise.all(own.map(harm));
      const outcome = await recover(machine);
      expect(outcome.code, outcome.stderr).toBe(0);
      await verify(machine, row);
      expect(await others()).toEqual(untouched);
    }
  });
});

it('writes nothing where the keys of the CAs are elsewhere, and says what must be brought: exit 5', async () => {
  await using machine = await another();
  for (const ca of ['ca', 'front-proxy-ca', 'etcd/ca']) await rm(machine.path('pki', `${ca}.key`));
  const before = await filesOf(machine);
  const outcome = await recover(machine);
  expect(outcome.code, outcome.stderr).toBe(5);
  expect(await filesOf(machine)).toEqual(before);
  const last = JSON.parse(outcome.stderr.trim().split('\n').at(-1) ?? '{}') as { readonly err?: string };
  for (const name of leaves) expect(last.err).toContain(`${name}: `);
});

it('heals what it can where only the CA of etcd is elsewhere, and still exits 5', async () => {
  await using machine = await another();
  await rm(machine.path('pki/etcd/ca.key'));
  const outcome = await recover(machine);
  expect(outcome.code, outcome.stderr).toBe(5);
  for (const row of await leavesOf(machine)) {
    if ('issuer' in row && row.issuer === 'etcd-ca') await expect(verify(machine, row)).rejects.toThrow('expired');
    else await verify(machine, row);
  }
});

describe('a full disk', () => {
  it('leaves every file as it was, says so, and heals when there is room', async () => {
    await using machine = await another();
    const [full, first, second] = ['full', 'first', 'second'].map((name) => join(machine.root, name));
    await mkdir(full ?? '');
    const directories = { ...machine.directories, kubernetesDir: full ?? '', pkiDir: join(full ?? '', 'pki') };
    const config = await configure(machine, directories);
    // A file system of its own, which ends with the run.
    const script = `set -e
      mount -t tmpfs -o size=1m tmpfs "$1"; cp -a "$2/." "$1/"
      dd if=/dev/zero of="$1/filler" bs=1k 2>/dev/null || true
      shift 2; first=$1 second=$2 at=$3; shift 3
      "$@" || echo "exit $?"
      rm "$at/filler"; cp -a "$at" "$first"
      "$@"; cp -a "$at" "$second"`;
    const places = [full, machine.path(), first, second, full].map(String);
    const ours = [process.execPath, program, '--mode=regen', '--once', '--locations=disk', `--config=${config}`];
    const { stdout, stderr, code } = await unshared('--mount', 'sh', '-c', script, 'sh', ...places, ...ours);
    expect(code, stderr).toBe(0);
    expect(stdout).toContain('exit 1');
    expect(stderr).toContain('ENOSPC');
    expect(await contents(first ?? '')).toEqual(await contents(machine.path()));
    await cp(second ?? '', machine.path(), { recursive: true });
    for (const row of await leavesOf(machine)) await verify(machine, row);
  });

  async function contents(directory: string): Promise<object> {
    const names = (await readdir(directory, { recursive: true, withFileTypes: true })).filter((one) => one.isFile());
    const paths = names.map(({ parentPath, name }) => join(parentPath, name)).toSorted();
    const texts = await Promise.all(paths.map((path) => readFile(path, 'base64')));
    return Object.fromEntries(paths.map((path, at) => [path.slice(directory.length), texts[at]]));
  }
});

it('writes nothing while kubeadm runs on this machine', async () => {
  await using machine = await another();
  const config = await configure(machine);
  const before = await filesOf(machine);
  const running = 'until [ "$(readlink /proc/$!/exe)" = "$1/kubeadm" ]; do sleep 0.05; done';
  const script = `cp "$(command -v sleep)" "$1/kubeadm"; "$1/kubeadm" 60 & ${running}; shift; "$@"`;
  const elsewhere = await mkdtemp(join(tmpdir(), 'kubeadm-'));
  const ours = [process.execPath, program, '--mode=regen', '--once', `--config=${config}`];
  const { code, stderr } = await unshared('sh', '-c', script, 'sh', elsewhere, ...ours);
  await rm(elsewhere, { recursive: true });
  expect(code, stderr).toBe(1);
  expect(stderr).toContain('(kubeadm) runs and may write them too');
  expect(await filesOf(machine)).toEqual(before);
});
