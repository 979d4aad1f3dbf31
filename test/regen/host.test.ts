// A single run over the files of a kubeadm machine, without any API: what is lost or ended is reissued, a healthy node
// costs no key, and an external CA is left alone. The CAs are openssl's.
import { execFile } from 'node:child_process';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Resolved } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { KeyPool } from '../../lib/pki/key-pool.ts';
import { runRegen } from '../../lib/regen/run.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { locationText, type Store } from '../../lib/store/store.ts';
import { createAuthority, createLeaf, type LeafOptions, type Pair } from '../support/certificates/certificates.ts';
import { createServiceAccountKey } from '../support/certificates/service-accounts.ts';
import { DiskWorld, fastKeys, movedClock } from './disk-world.ts';

const run = promisify(execFile);
const year = 366 * 24 * 3_600_000;
const parameters = {
  nodeName: ['node-1'],
  advertiseAddress: ['192.0.2.1'],
  serviceIP: ['10.96.0.1'],
  clusterServiceNames: ['kubernetes.default.svc.cluster.local'],
};
const endpoints = { controlPlane: 'https://api.example.com:6443', local: 'https://192.0.2.1:6443' };

let world: DiskWorld;
let resolved: Resolved;
let pki = '';
beforeEach(async () => {
  world = await DiskWorld.create();
  const directories = {
    kubernetesDir: join(world.directory, 'kubernetes'),
    pkiDir: join(world.directory, 'kubernetes/pki'),
    kubeletDir: join(world.directory, 'kubelet'),
  };
  pki = directories.pkiDir;
  resolved = resolve(loadPreset('kubeadm'), { parameters, directories, endpoints });
  await mkdir(join(directories.kubeletDir, 'pki'), { recursive: true });
  const notAfter = new Date(new Date('2026-01-01T00:00:00Z').getTime() + 20 * year);
  for (const [file, commonName] of [
    ['ca', 'kubernetes'],
    ['front-proxy-ca', 'front-proxy-ca'],
    ['etcd/ca', 'etcd-ca'],
  ] as const) {
    const made = join(world.directory, 'made', file);
    const { cert, key } = await createAuthority(made, { commonName, notAfter });
    await mkdir(join(pki, 'etcd'), { recursive: true });
    await rename(cert, join(pki, `${file}.crt`));
    await rename(key, join(pki, `${file}.key`));
  }
  await createServiceAccountKey(pki);
});
afterEach(() => world[Symbol.asyncDispose]());

interface Counted {
  readonly report: RegenReport;
  readonly keys: number;
  /** Of one file, the API server's certificate: once for each look, and around a write. */
  readonly looks: number;
}

async function once(more: Partial<Parameters<typeof runRegen>[0]> = {}): Promise<Counted> {
  const disk = createDiskStore({ backupDir: join(world.directory, 'backup'), endpoints });
  const counts = { keys: 0, looks: 0 };
  const pool = fastKeys();
  const counting = (): number => (counts.keys += 1);
  const keyPool: KeyPool = {
    ready: 0,
    fill: (count) => (counting(), pool.fill(count)),
    take: (algorithm) => (counting(), pool.take(algorithm)),
    drop: () => pool.drop(),
  };
  const apiserver = join(pki, 'apiserver.crt');
  const store: Store = {
    ...disk,
    read: (location, signal) => {
      if (locationText(location).includes(apiserver)) counts.looks += 1;
      return disk.read(location, signal);
    },
  };
  const report = await runRegen({ ...world.options({ resolved, store, keyPool }), ...more });
  return { report, ...counts };
}

const decisions = ({ artefacts }: RegenReport): Record<string, string> =>
  Object.fromEntries(artefacts.map(({ artefact, action, reason }) => [artefact, `${action} ${reason}`]));
const optional = ['admin.conf', 'super-admin.conf', 'kubelet-server', 'kubelet-server-current'];
const required = (): readonly string[] =>
  resolved.artefacts.flatMap(({ name, kind }) => (kind === 'target' && !optional.includes(name) ? [name] : []));
const writtenOf = ({ artefacts }: RegenReport): readonly string[] =>
  artefacts.flatMap(({ artefact, writes }) => (writes > 0 ? [artefact] : []));

describe('a single run on a kubeadm machine', () => {
  it('makes what is lost in two looks, a key for each and none besides, and then has nothing to do in one', async () => {
    const first = await once();
    expect(first.report).toMatchObject({ converged: true, writes: 10 });
    expect(writtenOf(first.report)).toEqual(required());
    expect(first).toMatchObject({ keys: 10, looks: 2 });
    expect(new Set(Object.values(decisions(first.report)))).toEqual(new Set(['keep Healthy']));
    await expect(readFile(join(pki, '../admin.conf'))).rejects.toThrow('ENOENT'); // who has removed it wants it away
    expect(await readFile(join(pki, '../scheduler.conf'), 'utf8')).toContain('https://192.0.2.1:6443');
    for (const [ca, leaf] of [
      ['ca', 'apiserver'],
      ['front-proxy-ca', 'front-proxy-client'],
      ['etcd/ca', 'etcd/peer'],
    ] as const) {
      const { stdout } = await run('openssl', ['verify', '-CAfile', join(pki, `${ca}.crt`), join(pki, `${leaf}.crt`)]);
      expect(stdout).toContain('OK');
    }

    const second = await once();
    expect(second).toMatchObject({ keys: 0, looks: 1, report: { converged: true, writes: 0 } });
  });

  it('renews all that has ended, in two looks', async () => {
    await once();
    const { report, keys, looks } = await once({ clock: movedClock(year) });
    expect(writtenOf(report)).toEqual(required());
    expect({ keys, looks, converged: report.converged }).toEqual({ keys: 10, looks: 2, converged: true });
  });

  it('leaves an external CA alone: nothing is written, and the report says which must be brought', async () => {
    await once();
    await rm(join(pki, 'ca.key'));
    const before = await readFile(join(pki, 'apiserver.crt'));
    const healthy = await once();
    expect(healthy.report).toMatchObject({ converged: true, writes: 0 });
    expect(decisions(healthy.report)).toMatchObject({ ca: 'keep NotOurs', apiserver: 'keep Healthy' });

    const { report } = await once({ clock: movedClock(year) });
    expect(report.converged).toBe(true);
    expect(decisions(report)).toMatchObject({
      apiserver: 'blocked SignerExternal',
      'scheduler.conf': 'blocked SignerExternal',
      'kubelet.conf': 'blocked SignerExternal',
      'front-proxy-client': 'keep Healthy',
      'etcd-server': 'keep Healthy',
    });
    expect(writtenOf(report).filter((name) => decisions(report)[name] !== 'keep Healthy')).toEqual([]);
    expect(await readFile(join(pki, 'apiserver.crt'))).toEqual(before);
  });

  it("repairs a kubeconfig that knows this machine's own API server by a stranger's CA, and no other", async () => {
    await once();
    const { cert } = await createAuthority(join(world.directory, 'made/stranger'), { commonName: 'stranger' });
    const data = (await readFile(cert)).toString('base64');
    const own = join(pki, '../scheduler.conf');
    const balanced = join(pki, '../kubelet.conf');
    for (const file of [own, balanced]) {
      const text = await readFile(file, 'utf8');
      const changed = text.replace(/certificate-authority-data: .*/, `certificate-authority-data: ${data}`);
      const server = file === balanced ? 'https://balancer.example:6443' : '$1';
      await writeFile(file, changed.replace(/(?<=server: )(.*)/, server));
    }
    const { report } = await once();
    expect(report.converged).toBe(true);
    expect(writtenOf(report)).toEqual(['scheduler.conf']);
    expect(await readFile(balanced, 'utf8')).toContain(data);
    const [, known = ''] = /certificate-authority-data: (.*)/.exec(await readFile(own, 'utf8')) ?? [];
    expect(Buffer.from(known, 'base64').toString()).toContain(await readFile(join(pki, 'ca.crt'), 'utf8'));
  });

  it('reissues a leaf whose usage or subject its readers refuse, as declared, and keeps who is fit', async () => {
    await once();
    const ca = { cert: join(pki, 'ca.crt'), key: join(pki, 'ca.key') };
    const etcdCa = { cert: join(pki, 'etcd/ca.crt'), key: join(pki, 'etcd/ca.key') };
    const put = async (file: string, signer: Pair, options: LeafOptions): Promise<void> => {
      const made = await createLeaf(join(world.directory, 'made', file), signer, options);
      await rename(made.cert, join(pki, `${file}.crt`));
      await rename(made.key, join(pki, `${file}.key`));
    };
    const client = {
      commonName: 'kube-apiserver-kubelet-client',
      organization: 'team',
      usages: ['serverAuth'],
    } as const;
    await put('apiserver-kubelet-client', ca, client);
    await put('etcd/peer', etcdCa, { commonName: 'own-name', dnsNames: ['peer.example'], usages: ['serverAuth'] });
    await put('etcd/healthcheck-client', etcdCa, { commonName: 'monitoring', usages: ['clientAuth'] });
    const nobody = await createLeaf(join(world.directory, 'made/nobody'), ca, { commonName: 'system:node:node-1' });
    const current = Buffer.concat([await readFile(nobody.cert), await readFile(nobody.key)]);
    await writeFile(join(pki, '../../kubelet/pki/kubelet-client-current.pem'), current);

    const planned = await once({ dryRun: true });
    const unfit = ['etcd-peer', 'apiserver-kubelet-client', 'kubelet.conf'];
    expect(decisions(planned.report)).toMatchObject(Object.fromEntries(unfit.map((name) => [name, 'renew Unfit'])));
    const { report } = await once();
    expect(report.converged).toBe(true);
    expect(writtenOf(report)).toEqual(unfit);
    const shown = async (file: string): Promise<string> => {
      const fields = ['-subject', '-ext', 'extendedKeyUsage,subjectAltName'];
      return (await run('openssl', ['x509', '-noout', '-nameopt', 'RFC2253', '-in', file, ...fields])).stdout;
    };
    expect(await shown(join(pki, 'apiserver-kubelet-client.crt'))).toMatch(
      /CN=kube-apiserver-kubelet-client,O=kubeadm:cluster-admins[^]*TLS Web Client/,
    );
    expect(await shown(join(pki, 'etcd/peer.crt'))).toMatch(
      /TLS Web Server Authentication, TLS Web Client[^]*peer\.example/,
    );
    expect(await shown(join(pki, '../../kubelet/pki/kubelet-client-current.pem'))).toContain(
      'CN=system:node:node-1,O=system:nodes',
    );
  });

  it('reissues a leaf that every reader refuses, whatever signed it: hash, critical extension, size of the key', async () => {
    await once();
    const sign = async (file: string, ca: string, bits: string, more: readonly string[]): Promise<void> => {
      const [key, csr] = [join(pki, `${file}.key`), join(world.directory, 'leaf.csr')];
      const name = (
        await run('openssl', ['x509', '-noout', '-subject', '-nameopt', 'compat', '-in', join(pki, `${file}.crt`)])
      ).stdout;
      const subject = name.replace(/^subject=/, '').trim();
      await run('openssl', [
        'req',
        '-new',
        '-newkey',
        `rsa:${bits}`,
        '-nodes',
        '-keyout',
        key,
        '-out',
        csr,
        '-subj',
        subject,
      ]);
      const by = [
        '-CA',
        join(pki, `${ca}.crt`),
        '-CAkey',
        join(pki, `${ca}.key`),
        '-set_serial',
        '77',
        '-days',
        '3000',
      ];
      await run('openssl', ['x509', '-req', '-in', csr, '-out', join(pki, `${file}.crt`), ...by, ...more]);
    };
    const extensions = join(world.directory, 'leaf.cnf');
    await writeFile(extensions, '[ext]\n1.2.3.4=critical,ASN1:NULL\n');
    await sign('apiserver-kubelet-client', 'ca', '2048', ['-sha1']);
    await sign('front-proxy-client', 'front-proxy-ca', '2048', ['-extfile', extensions, '-extensions', 'ext']);
    await sign('apiserver-etcd-client', 'etcd/ca', '512', []);
    const unfit = ['apiserver-etcd-client', 'apiserver-kubelet-client', 'front-proxy-client'];
    const planned = await once({ dryRun: true });
    expect(decisions(planned.report)).toMatchObject(Object.fromEntries(unfit.map((one) => [one, 'renew Unfit'])));
    const { report } = await once();
    expect(report.converged).toBe(true);
    expect(writtenOf(report).toSorted()).toEqual(unfit);
  });

  it('makes nothing that the name constraints of its CA refuse, and says who may bring it', async () => {
    const [cert, key] = [join(pki, 'ca.crt'), join(pki, 'ca.key')];
    const subject = [
      '-subj',
      '/CN=kubernetes',
      '-days',
      '3000',
      '-addext',
      'nameConstraints=critical,excluded;DNS:node-1',
    ];
    await run('openssl', ['req', '-x509', '-new', '-key', key, '-out', cert, ...subject]);
    const { report } = await once();
    expect(decisions(report)).toMatchObject({ apiserver: 'blocked SignerUnusable', 'scheduler.conf': 'keep Healthy' });
    const told = report.artefacts.find(({ artefact }) => artefact === 'apiserver');
    expect(told).toMatchObject({ writes: 0, message: expect.stringContaining('they exclude "node-1"') as string });
  });

  it.each([['-topk8'], ['-traditional']])('takes an encrypted CA key for an external CA: %s', async (form) => {
    await once();
    const key = join(pki, 'ca.key');
    const out = ['-aes256', '-passout', 'pass:secret', '-out', `${key}.new`];
    const command = form === '-topk8' ? ['pkcs8', '-topk8', '-v2', 'aes256', ...out.slice(1)] : ['ec', ...out];
    await run('openssl', [...command, '-in', key]);
    await rename(`${key}.new`, key);
    const healthy = await once();
    expect(healthy.report).toMatchObject({ converged: true, writes: 0 });
    expect(decisions(healthy.report)).toMatchObject({ ca: 'keep NotOurs', apiserver: 'keep Healthy' });
    const { report } = await once({ clock: movedClock(year) });
    const apiserver = report.artefacts.find(({ artefact }) => artefact === 'apiserver');
    expect(apiserver).toMatchObject({ action: 'blocked', reason: 'SignerExternal', byHand: true });
    expect(apiserver?.message).toContain('the key of its signer is encrypted: bring a new certificate');
    expect(apiserver?.message).toContain('or bring that key here without its passphrase');
  });

  it('gives up soon on a disk that refuses, because the machine waits', async () => {
    await once();
    await rm(join(pki, 'apiserver.crt'));
    const clock = movedClock(0);
    const refusing = createDiskStore({ endpoints });
    const store: Store = {
      read: (location, signal) => refusing.read(location, signal),
      write: () => Promise.reject(new Error('ENOSPC')),
    };
    const { report } = await once({ clock, store });
    expect(report).toMatchObject({ converged: false, writes: 0 });
    expect(clock.slept).toBeLessThan(10_000);
  });
});
