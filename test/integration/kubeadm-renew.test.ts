// A certificate that is renewed here differs from one that the real `kubeadm certs renew` has renewed in serial, key,
// dates and signature, and in nothing else. Both work on copies of one directory that the real kubeadm has made;
// `openssl` reads what they have made of it, field by field and byte by byte.
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Location, Resolved, ResolvedTarget } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { make } from '../../lib/issue/issue.ts';
import { type Certificate, parseCertificates } from '../../lib/pki/certificate.ts';
import { generateKey } from '../../lib/pki/key.ts';
import type { Material } from '../../lib/store/store.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import { kubeadmCertificates, kubeadmPairs } from '../support/kubeadm-names.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const run = promisify(execFile);
const now = new Date(Math.floor(Date.now() / 1000) * 1000);
const day = 86_400_000;

let root: string;
let kubeadm: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'kubeadm-renew-'));
  kubeadm = (await findBinaries(['kubeadm'])).get('kubeadm') ?? '';
});
afterAll(() => rm(root, { recursive: true, force: true }));

/** What kubeadm makes: `pki` with CAs and leaves, `etc/kubernetes` with kubeconfigs, and its configuration. */
class Machine {
  readonly directory: string;

  constructor(name: string) {
    this.directory = join(root, name);
  }

  static async create(algorithm: string, phases: readonly string[]): Promise<Machine> {
    const machine = new Machine(algorithm);
    await machine.configure(algorithm);
    for (const phase of phases) await machine.kubeadm('init', 'phase', ...phase.split(' '));
    return machine;
  }

  get pki(): string {
    return join(this.directory, 'pki');
  }

  get kubernetesDir(): string {
    return join(this.directory, 'etc', 'kubernetes');
  }

  async configure(algorithm: string): Promise<void> {
    await mkdir(this.directory, { recursive: true });
    const api = 'apiVersion: kubeadm.k8s.io/v1beta4';
    const lines = [
      api,
      'kind: InitConfiguration',
      'localAPIEndpoint: { advertiseAddress: 10.1.2.3 }',
      'nodeRegistration: { name: node-1, criSocket: "unix:///none.sock" }',
      '---',
      api,
      'kind: ClusterConfiguration',
      'kubernetesVersion: v1.35.4',
      `certificatesDir: ${this.pki}`,
      `encryptionAlgorithm: ${algorithm}`,
      'controlPlaneEndpoint: cp.example.com:6443',
      'apiServer: { certSANs: [zeta.example.com, "*.alpha.example.com", "fd00::1", 10.9.8.7] }',
    ];
    const yaml = `${lines.join('\n')}\n`;
    await writeFile(join(this.directory, 'kubeadm.yaml'), yaml);
    await writeFile(join(this.directory, 'rooted.yaml'), yaml.replace(`: ${this.pki}`, ': /pki'));
  }

  async kubeadm(...args: readonly string[]): Promise<void> {
    const directory = args.includes('kubeconfig') ? [`--kubeconfig-dir=${this.kubernetesDir}`] : [];
    await run('unshare', [
      ...asRoot,
      ...unseen,
      kubeadm,
      ...args,
      `--config=${join(this.directory, 'kubeadm.yaml')}`,
      ...directory,
    ]);
  }

  /** kubeadm renews kubeconfigs in /etc/kubernetes only: below a root of its own, which takes the right to chroot. */
  async renewKubeconfig(name: string): Promise<void> {
    const own = ['certs', 'renew', name, `--rootfs=${this.directory}`, '--config=/rooted.yaml'];
    await run('unshare', [...asRoot, ...unseen, kubeadm, ...own]);
  }

  /** Another machine with the same files. */
  async copy(name: string, algorithm: string): Promise<Machine> {
    const other = new Machine(name);
    await cp(this.directory, other.directory, { recursive: true });
    await other.configure(algorithm);
    return other;
  }

  get resolved(): Resolved {
    const parameters = { nodeName: ['other'], advertiseAddress: ['192.0.2.1'], serviceIP: ['192.0.2.2'] };
    const { kubernetesDir } = this;
    const directories = { kubernetesDir, pkiDir: this.pki, kubeletDir: join(this.directory, 'kubelet') };
    return resolve(loadPreset('kubeadm'), { parameters, directories });
  }

  target(name: string): ResolvedTarget {
    const found = this.resolved.artefacts.find((row) => row.name === name);
    if (found?.kind !== 'target') throw new Error(`the preset has no target "${name}"`);
    return found;
  }

  /** What lies in the files of all rows that are there. */
  async material(): Promise<Map<string, Material>> {
    const material = new Map<string, Material>();
    for (const { name, location } of this.resolved.artefacts) {
      const found = await entriesOf(location).catch(() => undefined);
      if (found !== undefined) material.set(name, { entries: found, annotations: {} });
    }
    return material;
  }

  async leaf(name: string): Promise<Certificate> {
    const entries = (await this.material()).get(name)?.entries;
    return first(entries?.['tls.crt'] ?? new Uint8Array());
  }

  /** Renewed by the code under test; nothing is written. */
  async renewed(name: string): Promise<Material> {
    const takeKey = (_: unknown, like?: Certificate['facts']['key']): ReturnType<typeof generateKey> => {
      if (like === undefined) throw new Error('no key algorithm to follow');
      return generateKey(like);
    };
    return make(this.target(name), { resolved: this.resolved, material: await this.material(), takeKey, now });
  }
}

async function entriesOf(location: Location): Promise<Record<string, Uint8Array> | undefined> {
  if (location.kind === 'pemPair') {
    return { 'tls.crt': await readFile(location.certFile), 'tls.key': await readFile(location.keyFile) };
  }
  if (location.kind !== 'kubeconfig') return undefined;
  const text = JSON.stringify(parseYaml(await readFile(location.file, 'utf8')));
  const data = (key: string): Buffer => Buffer.from(new RegExp(`"${key}":"([^"]+)"`).exec(text)?.[1] ?? '', 'base64');
  return {
    'tls.crt': data('client-certificate-data'),
    'tls.key': data('client-key-data'),
    'ca.crt': data('certificate-authority-data'),
  };
}

function first(pem: Uint8Array): Certificate {
  const [leaf] = parseCertificates(pem, 'test', 'skipped');
  if (leaf === undefined) throw new Error('no certificate');
  return leaf;
}

/** The DER as `openssl asn1parse` shows it, without the lengths, and without what must differ. */
async function structure(certificate: Certificate): Promise<string[]> {
  const file = join(await mkdtemp(join(root, 'asn1-')), 'leaf.pem');
  await writeFile(file, certificate.pem);
  const { stdout } = await run('openssl', ['asn1parse', '-in', file]);
  return stdout
    .split('\n')
    .map((line) => line.replace(/^ *\d+:(d=\d+) +hl=\d+ +l= *\d+ /, '$1 '))
    .map((line) => line.replace(/(d=2 +prim: +INTEGER +):.*/, '$1:serial'))
    .map((line) => line.replace(/(d=3 +prim: +UTCTIME +):.*/, '$1:date'));
}

const text = (material: Material, key: string): string => Buffer.from(material.entries[key] ?? []).toString();
const serialBytes = (certificate: Certificate): number => certificate.facts.serial.length / 2;

/** Without root's rights theirs are compared as `kubeadm init` has made them. */
const isRoot = process.getuid?.() === 0;

/** `ours` is `theirs` but for what must differ; `others` are further generations that it is unlike. */
async function expectSame(ours: Material, theirs: Certificate, others: readonly Certificate[] = []): Promise<void> {
  const mine = first(ours.entries['tls.crt'] ?? new Uint8Array());
  expect(await structure(mine)).toEqual(await structure(theirs));
  expect(mine.x509.publicKey.asymmetricKeyDetails).toEqual(theirs.x509.publicKey.asymmetricKeyDetails);
  expect(serialBytes(mine)).toBe(8);
  for (const other of [theirs, ...others]) {
    expect(mine.facts.serial).not.toBe(other.facts.serial);
    expect(mine.x509.publicKey.equals(other.x509.publicKey)).toBe(false);
  }
  expect(mine.facts.notAfter).toEqual(new Date(now.getTime() + 365 * day));
  expect(Math.abs(mine.facts.notAfter.getTime() - theirs.facts.notAfter.getTime())).toBeLessThan(600_000);
}

describe.each<[string, readonly string[], readonly string[]]>([
  ['RSA-2048', ['certs all', 'kubeconfig all'], kubeadmCertificates],
  ['RSA-4096', ['certs ca', 'certs apiserver', 'certs etcd-ca', 'certs etcd-peer'], ['apiserver', 'etcd-peer']],
  ['ECDSA-P256', ['certs all', 'kubeconfig all'], kubeadmCertificates],
  ['ECDSA-P384', ['certs all', 'kubeconfig all'], kubeadmCertificates],
])('a renewal in a cluster of %s', (algorithm, phases, names) => {
  let before: Machine;
  let after: Machine;
  beforeAll(async () => {
    before = await Machine.create(algorithm, phases);
    after = await before.copy(`${algorithm}-renewed`, algorithm);
    for (const name of names) {
      if (kubeadmPairs.includes(name)) await after.kubeadm('certs', 'renew', name);
      else if (isRoot) await after.renewKubeconfig(name);
    }
  });

  test.each(names)('%s is what kubeadm makes of it', async (name) => {
    const ours = await before.renewed(name);
    await expectSame(
      ours,
      await after.leaf(name),
      kubeadmPairs.includes(name) || isRoot ? [await before.leaf(name)] : [],
    );
    const theirs = (await after.material()).get(name);
    const header = /-----BEGIN .*-----/.exec(text(ours, 'tls.key'))?.[0] ?? 'no header';
    expect(theirs && text(theirs, 'tls.key')).toContain(header);
    expect(Object.keys(ours.entries)).toEqual(Object.keys(theirs?.entries ?? {}));
    expect(ours.entries['ca.crt']).toEqual(theirs?.entries['ca.crt']);
  });

  test('kubeadm lets it begin as early, and openssl verifies it', async () => {
    const ours = await before.renewed(names[0] ?? '');
    const mine = first(ours.entries['tls.crt'] ?? new Uint8Array());
    const ca = first((await before.material()).get('ca')?.entries['tls.crt'] ?? new Uint8Array());
    const early = new Date(Math.max(now.getTime() - 300_000, ca.facts.notBefore.getTime()));
    expect(mine.facts.notBefore).toEqual(early);
    const file = join(before.directory, 'ours.crt');
    await writeFile(file, mine.pem);
    const { stdout } = await run('openssl', ['verify', '-x509_strict', '-CAfile', join(before.pki, 'ca.crt'), file]);
    expect(stdout).toContain(': OK');
  });
});

describe('a certificate that was made by hand', () => {
  const algorithm = 'ECDSA-P256';
  let before: Machine;
  beforeAll(async () => {
    const made = await Machine.create(algorithm, ['certs ca', 'certs apiserver']);
    before = await made.copy('by-hand', algorithm);
  });

  async function byHand(names: readonly string[]): Promise<void> {
    const [key, request, config] = ['apiserver.key', 'hand.csr', 'hand.cnf'].map((name) => join(before.pki, name));
    const usages = 'clientAuth,serverAuth';
    await writeFile(
      config ?? '',
      '[req]\ndistinguished_name=dn\n[dn]\n[leaf]\nbasicConstraints=CA:FALSE\nkeyUsage=digitalSignature\n' +
        `extendedKeyUsage=${usages}\nsubjectKeyIdentifier=hash\nsubjectAltName=${names.join(',')}\n`,
    );
    const subject = '/C=DE/O=zebra/O=größe/O=a*b&c/O=a/OU=unit/CN=first/CN=kube_api@x';
    const asked = ['-config', config ?? '', '-key', key ?? '', '-utf8', '-subj', subject, '-out', request ?? ''];
    await run('openssl', ['req', '-new', ...asked]);
    const ca = ['-CA', join(before.pki, 'ca.crt'), '-CAkey', join(before.pki, 'ca.key'), '-CAcreateserial'];
    const leaf = ['-extfile', config ?? '', '-extensions', 'leaf', '-out', join(before.pki, 'apiserver.crt')];
    await run('openssl', ['x509', '-req', '-in', request ?? '', '-days', '3', ...ca, ...leaf]);
  }

  test('keeps its names, sorted and shortened as kubeadm does', async () => {
    const names = [
      'DNS:zz.example',
      'IP:10.9.9.9',
      'DNS:AA.example',
      'IP:::ffff:1.2.3.4',
      'IP:10.1.2.3',
      'IP:10.9.9.9',
    ];
    await byHand([...names, 'DNS:zz.example', 'IP:fd00::1:0:0:2']);
    const after = await before.copy('by-hand-renewed', algorithm);
    await after.kubeadm('certs', 'renew', 'apiserver');
    await expectSame(await before.renewed('apiserver'), await after.leaf('apiserver'), [
      await before.leaf('apiserver'),
    ]);
  });

  test('keeps e-mail addresses, URIs and other names, too, which kubeadm leaves out', async () => {
    await byHand(['URI:spiffe://cluster/node', 'RID:1.2.3.4', 'IP:10.1.2.3', 'email:a@example.com', 'DNS:b.example']);
    const mine = first((await before.renewed('apiserver')).entries['tls.crt'] ?? new Uint8Array());
    expect(mine.x509.subjectAltName).toBe(
      'DNS:b.example, email:a@example.com, IP Address:10.1.2.3, URI:spiffe://cluster/node, Registered ID:1.2.3.4',
    );
  });
});
