// Machines of the real kubeadm whose CAs have expired with everything else: one run of the program, and kubeadm, openssl and
// Go agree that all is good. The same machine twice is two control-plane nodes.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Certificate, parseCertificates } from '../../lib/pki/certificate.ts';
import { dated } from '../support/certificates/dated.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { askGo, findGoReaders } from '../support/faults/go-readers.ts';
import { kubeadmCertificates, kubeadmPairs } from '../support/kubeadm-names.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const run = promisify(execFile);
const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const dayMs = 86_400_000;
const daysAgo = (count: number): Date => new Date(Math.floor(Date.now() / 1000) * 1000 - count * dayMs);

const authorities = ['ca', 'etcd/ca', 'front-proxy-ca'] as const;
const authorityOf = (name: string): (typeof authorities)[number] =>
  name.startsWith('etcd') || name === 'apiserver-etcd-client'
    ? 'etcd/ca'
    : name === 'front-proxy-client'
      ? 'front-proxy-ca'
      : 'ca';
/** In pki/. */
const fileOf = (name: string): string => `${name.replace(/^etcd-/, 'etcd/')}.crt`;
const confs = kubeadmCertificates.filter((name) => !kubeadmPairs.includes(name));

/** What kubeadm made ten years and a month ago, and renewed for the last time more than a year ago. */
async function age(machine: KubeadmMachine): Promise<void> {
  const pki = (name: string): string => machine.path('pki', name);
  const [born, ended, leafEnded] = [daysAgo(3680), daysAgo(30), daysAgo(40)];
  for (const name of [...authorities, ...kubeadmPairs]) {
    const by = authorities.includes(name as 'ca') ? name : authorityOf(name);
    const path = pki(authorities.includes(name as 'ca') ? `${name}.crt` : fileOf(name));
    const until = authorities.includes(name as 'ca') ? ended : leafEnded;
    await writeFile(path, dated(await readFile(path, 'utf8'), await readFile(pki(`${by}.key`), 'utf8'), born, until));
  }
  const key = await readFile(pki('ca.key'), 'utf8');
  const ca = (await readFile(pki('ca.crt'))).toString('base64');
  for (const conf of [...confs, 'kubelet.conf']) {
    const text = await readFile(machine.path(conf), 'utf8');
    const leaf = (whole: string, data: string): string =>
      whole.replace(
        data,
        Buffer.from(dated(Buffer.from(data, 'base64').toString(), key, born, leafEnded)).toString('base64'),
      );
    const aged = text
      .replace(/client-certificate-data: (\S+)/, leaf)
      .replace(/certificate-authority-data: \S+/, `certificate-authority-data: ${ca}`);
    await writeFile(machine.path(conf), aged);
  }
}

async function recover(machine: KubeadmMachine, ...flags: readonly string[]): Promise<Outcome> {
  const directories = {
    kubernetesDir: machine.path(),
    pkiDir: machine.path('pki'),
    kubeletDir: join(machine.root, 'var/lib/kubelet'),
  };
  const regen = { backupDir: join(machine.root, 'backups'), lockDir: join(machine.root, 'lock') };
  const config = join(machine.root, 'recovery.yaml');
  const lines = ['apiVersion: kube-cert-recovery/v1alpha1', 'kind: Configuration', 'preset: kubeadm'];
  const rest = [`directories: ${JSON.stringify(directories)}`, `regen: ${JSON.stringify(regen)}`];
  await writeFile(config, [...lines, ...rest].join('\n'));
  const own = [program, '--mode=regen', '--once', `--config=${config}`, ...flags];
  return new Promise((resolve) => {
    execFile('unshare', [...asRoot, ...unseen, process.execPath, ...own], (err, stdout, stderr) =>
      resolve({ stdout, stderr, code: err === null ? 0 : typeof err.code === 'number' ? err.code : -1 }),
    );
  });
}

/** The leaf of a pair or of a kubeconfig. */
async function leafOf(machine: KubeadmMachine, name: string): Promise<string> {
  if (!name.endsWith('.conf')) return readFile(machine.path('pki', fileOf(name)), 'utf8');
  const text = await readFile(machine.path(name), 'utf8');
  return Buffer.from(/client-certificate-data: (\S+)/.exec(text)?.[1] ?? '', 'base64').toString();
}

const parsed = (pem: string): Certificate =>
  parseCertificates(Buffer.from(pem), 'test')[0] ?? expect.fail('no certificate');
const authorityIn = (conf: string): string =>
  Buffer.from(/certificate-authority-data: (\S+)/.exec(conf)?.[1] ?? '', 'base64').toString();
const leaves: readonly string[] = [...kubeadmCertificates, 'kubelet.conf'];

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'expired-ca-'));
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

async function opensslVerifies(root: string, leaf: string, at?: Date): Promise<void> {
  const [rootFile, file] = [join(scratch, 'root.crt'), join(scratch, 'leaf.crt')];
  await writeFile(rootFile, root);
  await writeFile(file, leaf);
  const time = at === undefined ? [] : ['-attime', String(Math.floor(at.getTime() / 1000))];
  await run('openssl', ['verify', '-x509_strict', ...time, '-CAfile', rootFile, file]);
}

/** The SPKI pin of `kubeadm join --discovery-token-ca-cert-hash`. */
const pinOf = (pem: string): string => parsed(pem).fields.publicKeyInfo.toString('hex');

describe.each([
  ['RSA-2048', true],
  ['ECDSA-P256', false],
] as const)('%s: all three CAs and all leaves have expired', (algorithm, isDeterministic) => {
  let first: KubeadmMachine;
  let second: KubeadmMachine;
  const old = new Map<string, string>();
  beforeAll(async () => {
    first = await KubeadmMachine.create(`encryptionAlgorithm: ${algorithm}`);
    await mkdir(join(first.root, 'var/lib/kubelet/pki'), { recursive: true });
    await age(first);
    second = await first.copy();
    for (const name of authorities) old.set(name, await readFile(first.path('pki', `${name}.crt`), 'utf8'));
    for (const name of leaves) old.set(`leaf ${name}`, await leafOf(first, name));
  });
  afterAll(async () => {
    await first?.[Symbol.asyncDispose]();
    await second?.[Symbol.asyncDispose]();
  });

  it('only reports it where that is configured, and writes nothing', async () => {
    const { code, stderr } = await recover(first, '--ca-renewal=Report');
    expect(code, stderr).toBe(5);
    for (const name of authorities)
      expect(await readFile(first.path('pki', `${name}.crt`), 'utf8')).toBe(old.get(name));
  });

  it('status tells what would be done', async () => {
    const { code, stdout } = await first.status('-o', 'json');
    expect(code).toBe(3);
    expect(stdout.match(/renewed with its own key until/g)).toHaveLength(3);
    expect((await first.status('--ca-renewal=Report')).code).toBe(5);
  });

  it('comes back in one run, and kubeadm, openssl and Go agree; the next run writes nothing', async () => {
    const { code, stderr } = await recover(first);
    expect(code, stderr).toBe(0);
    expect(stderr.match(/"event":"signer.renewed"/g)).toHaveLength(3);
    expect(stderr.match(/"event":"target.regenerated"/g)).toHaveLength(leaves.length);
    const theirs = await first.kubeadmDone('certs', 'check-expiration');
    expect(theirs).not.toMatch(/<invalid>/);
    const ours = await first.status();
    expect(ours.stdout.slice(0, theirs.length), ours.stderr).toBe(theirs);
    expect(ours.code).toBe(0);
    for (const name of authorities) {
      const [was, is] = [old.get(name) ?? '', await readFile(first.path('pki', `${name}.crt`), 'utf8')];
      expect(parsed(is).facts.notAfter).toEqual(new Date(parsed(was).facts.notAfter.getTime() + 3650 * dayMs));
      expect(pinOf(is)).toBe(pinOf(was));
      expect(parsed(is).facts.serial).not.toBe(parsed(was).facts.serial);
    }
    const go = await findGoReaders();
    const all = await Promise.all(authorities.map((name) => readFile(first.path('pki', `${name}.crt`))));
    expect(
      (
        await askGo(
          go,
          all.map((content) => ({ kind: 'bundle' as const, content })),
        )
      ).map(({ accepted }) => accepted),
    ).toEqual([true, true, true]);
    const again = await recover(first);
    expect(again.code, again.stderr).toBe(0);
    expect(again.stderr).not.toMatch(/"event":"(signer|target)\.\w+"/);
  });

  it('old and new CA verify the leaves of each other', async () => {
    for (const name of leaves) {
      const by = authorityOf(name);
      const [was, is] = [old.get(by) ?? '', await readFile(first.path('pki', `${by}.crt`), 'utf8')];
      const [oldLeaf, newLeaf] = [old.get(`leaf ${name}`) ?? '', await leafOf(first, name)];
      await opensslVerifies(is, newLeaf);
      await opensslVerifies(is, oldLeaf, daysAgo(50));
      await opensslVerifies(was, oldLeaf, daysAgo(50));
      await opensslVerifies(was, newLeaf, daysAgo(50)); // a leaf begins with its CA
    }
    for (const conf of [...confs, 'kubelet.conf']) {
      const text = await readFile(first.path(conf), 'utf8');
      expect(authorityIn(text)).toBe(await readFile(first.path('pki/ca.crt'), 'utf8'));
    }
  });

  it('another machine makes the same CAs, or ones that serve as well', async () => {
    const { code, stderr } = await recover(second);
    expect(code, stderr).toBe(0);
    for (const name of authorities) {
      const [one, other] = await Promise.all(
        [first, second].map((each) => readFile(each.path('pki', `${name}.crt`), 'utf8')),
      );
      expect(one === other).toBe(isDeterministic);
      expect(parsed(one ?? '').facts.serial).toBe(parsed(other ?? '').facts.serial);
      expect(parsed(one ?? '').facts.notAfter).toEqual(parsed(other ?? '').facts.notAfter);
    }
    for (const name of leaves) {
      await opensslVerifies(
        await readFile(second.path('pki', `${authorityOf(name)}.crt`), 'utf8'),
        await leafOf(first, name),
      );
    }
  });
});

describe('a CA that has expired', () => {
  it('stays by hand where its key is elsewhere', async () => {
    await using machine = await KubeadmMachine.create();
    await age(machine);
    await rm(machine.path('pki/etcd/ca.key'));
    const was = await readFile(machine.path('pki/etcd/ca.crt'), 'utf8');
    const { code, stderr } = await recover(machine);
    expect(code, stderr).toBe(5);
    expect(await readFile(machine.path('pki/etcd/ca.crt'), 'utf8')).toBe(was);
    await opensslVerifies(await readFile(machine.path('pki/ca.crt'), 'utf8'), await leafOf(machine, 'apiserver'));
  });

  it('is replaced by the successor that an administrator has brought into a kubeconfig', async () => {
    await using machine = await KubeadmMachine.create();
    await age(machine);
    const [ca, key, made] = [machine.path('pki/ca.crt'), machine.path('pki/ca.key'), join(scratch, 'made.crt')];
    await run('openssl', ['x509', '-in', ca, '-signkey', key, '-days', '900', '-out', made]);
    const text = await readFile(machine.path('admin.conf'), 'utf8');
    const data = (await readFile(made)).toString('base64');
    await writeFile(
      machine.path('admin.conf'),
      text.replace(/certificate-authority-data: \S+/, `certificate-authority-data: ${data}`),
    );
    const { code, stderr } = await recover(machine);
    expect(code, stderr).toBe(0);
    expect(parsed(await readFile(ca, 'utf8')).facts.fingerprint).toBe(
      parsed(await readFile(made, 'utf8')).facts.fingerprint,
    );
    expect(authorityIn(await readFile(machine.path('scheduler.conf'), 'utf8'))).toBe(await readFile(ca, 'utf8'));
  });

  it('leaves what outlives it as it is: of kubeconfigs only the CA changes', async () => {
    await using machine = await KubeadmMachine.create('encryptionAlgorithm: RSA-2048');
    const [ca, key] = [machine.path('pki/ca.crt'), await readFile(machine.path('pki/ca.key'), 'utf8')];
    const aged = dated(await readFile(ca, 'utf8'), key, daysAgo(3680), daysAgo(1));
    await writeFile(ca, aged);
    for (const conf of [...confs, 'kubelet.conf']) {
      const text = await readFile(machine.path(conf), 'utf8');
      const data = Buffer.from(aged).toString('base64');
      await writeFile(
        machine.path(conf),
        text.replace(/certificate-authority-data: \S+/, `certificate-authority-data: ${data}`),
      );
    }
    const before = new Map(await Promise.all(leaves.map(async (name) => [name, await leafOf(machine, name)] as const)));
    const { code, stderr } = await recover(machine);
    expect(code, stderr).toBe(0);
    for (const name of leaves) expect(await leafOf(machine, name), name).toBe(before.get(name));
    for (const conf of [...confs, 'kubelet.conf']) {
      expect(authorityIn(await readFile(machine.path(conf), 'utf8'))).toBe(await readFile(ca, 'utf8'));
    }
  });
});
