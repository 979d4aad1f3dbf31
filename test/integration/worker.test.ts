// A worker's renewal as the program runs it, against a real kube-apiserver and kube-controller-manager, which signs what is
// approved; the test is the approver. The order is the story of one cluster.
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import {
  copyFile,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import { expiredCertificateAnnotation, kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { microTime } from '../../lib/kube/objects.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { freePorts } from '../support/cluster/ports.ts';
import type { Tool } from '../support/cluster/recovery-world.ts';
import { Worker, type WorkerFiles } from '../support/cluster/worker-machine.ts';
import { eventually } from '../support/eventually.ts';
import { authorityStory } from './worker-authority-story.ts';
import { statusStory } from './worker-status-story.ts';

const namespace = 'kube-cert-recovery';
const collection = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const hour = 3_600_000;

let root: string;
let controlPlane: ControlPlane;
let token: string;

interface Csr {
  readonly metadata: { readonly name: string; readonly annotations: Readonly<Record<string, string>> };
  readonly spec: { readonly signerName: string; readonly username: string; readonly usages: readonly string[] };
  readonly status: { readonly certificate?: string; readonly conditions?: readonly object[] };
}

const create = (name: string, notAfter: Date, more: Partial<WorkerFiles> = {}): Promise<Worker> =>
  Worker.create({ root, name, notAfter, controlPlane, token, ...more });

/** `given`: the pair that it shows, where that is not its present one. */
async function requestsOf(worker: Worker, given?: string): Promise<readonly Csr[]> {
  const { body } = await controlPlane.admin(collection);
  const pem = given ?? (await worker.pem());
  const shown = (csr: Csr): string => csr.metadata.annotations[expiredCertificateAnnotation] ?? '';
  return (body as { items: readonly Csr[] }).items.filter((csr) => shown(csr) !== '' && pem.startsWith(shown(csr)));
}

async function decide(worker: Worker, type: 'Approved' | 'Denied', given?: string): Promise<Csr> {
  const csr = await eventually(async () => {
    const [only, ...others] = await requestsOf(worker, given);
    expect(others).toEqual([]);
    if (only === undefined) throw new Error('no request yet');
    return only;
  });
  const condition = { type, status: 'True', reason: 'Test', message: 'by the test' };
  const body = { ...csr, status: { conditions: [condition] } };
  const path = `${collection}/${csr.metadata.name}/approval`;
  expect(await controlPlane.admin(path, { method: 'PUT', body })).toMatchObject({ status: 200 });
  return csr;
}

async function cli(...argv: readonly string[]): Promise<{ exit: number; out: string; err: string }> {
  const [out, err]: [string[], string[]] = [[], []];
  const stdout = { write: (text: string) => out.push(text) };
  const stderr = { write: (text: string) => err.push(text) };
  const signal = AbortSignal.timeout(60_000);
  const exit = await run({ argv, env: {}, cwd: root, stdout, stderr, signal });
  return { exit, out: out.join(''), err: err.join('') };
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'worker-'));
  controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', 'kube-controller-manager'],
  });
});
afterAll(async () => {
  await Worker.stopAll();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

const initWorkers = () => cli('init', 'workers', `--kubeconfig=${controlPlane.recoveryKubeconfig}`);

describe('init workers', () => {
  it('prints what to run on each worker, and says that nobody would approve', async () => {
    const { exit, out, err } = await initWorkers();
    expect(exit, err).toBe(0);
    expect(out).toContain('Created ClusterRoleBinding "kube-cert-recovery-worker"');
    expect(err).toContain('No pod in kube-system or kube-cert-recovery is seen to run mode approver');
    const [, printed] = /kube-cert-recovery init host --worker-token-file=\/dev\/stdin <<< '([^']+)'/.exec(out) ?? [];
    token = printed ?? '';
    expect(token.split('.')).toHaveLength(3);
  });

  it('prints the same again, and changes nothing', async () => {
    const { exit, out } = await initWorkers();
    expect(exit).toBe(0);
    expect(out).toContain(token);
    expect(out).not.toMatch(/Created|Updated/);
  });

  it('shows what it would make, and asks nothing of the API', async () => {
    const { exit, out } = await cli('init', 'workers', '--kubeconfig=/nowhere', '--dry-run');
    expect(exit).toBe(0);
    expect(out.match(/^kind: \S+$/gm)).toHaveLength(5);
  });

  it('lets the token create and get requests, and nothing else that not everybody may', async () => {
    const rights = async (identity: string): Promise<string[]> => {
      const text = await controlPlane.kubectl('auth', 'can-i', '--list', '--no-headers', `--token=${identity}`);
      return text.split('\n').map((line) => line.replaceAll(/\s+/g, ' ').trim());
    };
    await controlPlane.kubectl('create', 'serviceaccount', 'nobody');
    const nobody = (await controlPlane.kubectl('create', 'token', 'nobody')).trim();
    const more = (await rights(token)).filter((line) => line !== '');
    const all = await rights(nobody);
    expect(more.filter((line) => !all.includes(line))).toEqual([
      'certificatesigningrequests.certificates.k8s.io [] [] [create get]',
    ]);
  });
});

describe('renew-worker', () => {
  it('does nothing while the certificate is valid, also without an API server and a token, and says that all is well', async () => {
    const worker = await create('healthy', new Date(Date.now() + hour), { server: 'https://127.0.0.1:1' });
    await rm(join(worker.root, 'token'));
    const before = await worker.pem();
    expect(await worker.start().ended).toBe(0);
    expect(worker.lines.map(({ event }) => event)).toEqual(['regen.summary']);
    expect(await worker.pem()).toBe(before);
    expect(await readdir(worker.root)).not.toContain('backups');
  });

  it('asks with the key of the expired certificate, and writes the new one behind the link', async () => {
    const worker = await create('tiger', new Date(Date.now() - hour));
    const before = await worker.pem();
    const tool = worker.start();
    const csr = await decide(worker, 'Approved');
    expect(csr.spec).toMatchObject({
      signerName: kubeletClientSigner,
      username: `system:serviceaccount:${namespace}:kube-cert-recovery-worker`,
      usages: ['digital signature', 'client auth'],
    });
    expect(csr.spec).not.toHaveProperty('expirationSeconds');
    const [leaf = ''] = /^[^]*?-----END CERTIFICATE-----\n/.exec(before) ?? [];
    expect(csr.metadata.annotations[expiredCertificateAnnotation]).toBe(leaf);
    expect(await tool.ended).toBe(0);
    const pem = await worker.pem();
    const [former, present] = [new X509Certificate(before), new X509Certificate(pem)];
    expect(present.subject).toBe(former.subject);
    expect(present.publicKey.equals(former.publicKey)).toBe(true);
    expect(new Date(present.validTo).getTime()).toBeGreaterThan(Date.now());
    // The key as it was, in the one file that a kubelet reads, private; the superseded file stays, and a copy of it.
    expect(pem.slice(pem.indexOf('-----BEGIN PRIVATE'))).toBe(before.slice(before.indexOf('-----BEGIN PRIVATE')));
    expect(await readlink(worker.link)).toMatch(/kubelet-client-\d{4}(-\d\d){5}\.pem$/);
    expect((await stat(worker.link)).mode & 0o777).toBe(0o600);
    expect(await readdir(join(worker.root, 'pki'))).toHaveLength(3);
    expect(await readdir(join(worker.root, 'backups'))).toHaveLength(1);
    expect(worker.deeds).toEqual(['csr.requested', 'target.regenerated']);
    expect(JSON.stringify(worker.lines)).not.toMatch(/PRIVATE KEY|eyJ/);
    // The next one finds nothing to do.
    expect(await worker.start().ended).toBe(0);
    expect(worker.deeds).toHaveLength(2);
  });

  describe.each(['empty', 'absent'])(
    'after a power loss while the kubelet took its next certificate, whose file is %s',
    (state) => {
      const loses = async (worker: Worker): Promise<string> => {
        const before = await worker.pem();
        const next = join(worker.root, 'pki/kubelet-client-2026-02-01-00-00-00.pem');
        await rm(worker.link);
        await symlink(next, worker.link);
        if (state === 'empty') await writeFile(next, '');
        return before;
      };

      it('puts the one before it back where that is still valid', async () => {
        const worker = await create(`lost-${state}`, new Date(Date.now() + hour), { server: 'https://127.0.0.1:1' });
        const before = await loses(worker);
        expect((await cli('renew-worker', ...worker.flags, '--dry-run')).err).toMatch(/an earlier one, .* is put back/);
        expect(await worker.start().ended).toBe(0);
        expect(worker.deeds).toEqual(['target.restored']);
        expect(await worker.pem()).toBe(before);
        expect((await stat(worker.link)).mode & 0o777).toBe(0o600);
        expect(await worker.start().ended).toBe(0);
        expect(worker.deeds).toHaveLength(1);
      });

      it('asks with the one before it where that has expired', async () => {
        const worker = await create(`lost-expired-${state}`, new Date(Date.now() - hour));
        const before = await loses(worker);
        const tool = worker.start();
        await decide(worker, 'Approved', before);
        expect(await tool.ended).toBe(0);
        const [former, present] = [new X509Certificate(before), new X509Certificate(await worker.pem())];
        expect(present.publicKey.equals(former.publicKey)).toBe(true);
        expect(new Date(present.validTo).getTime()).toBeGreaterThan(Date.now());
      });
    },
  );

  it('only says that it would ask, with --dry-run', async () => {
    const worker = await create('mouse', new Date(Date.now() - hour));
    const args = ['renew-worker', ...worker.flags, '--dry-run'];
    const requested = expect.stringContaining('a new one is requested with its key') as string;
    expect(await cli(...args)).toMatchObject({ exit: 0, err: requested });
    expect(await requestsOf(worker)).toEqual([]);
  });

  it('says without its token where that comes from', async () => {
    const worker = await create('penniless', new Date(Date.now() - hour));
    await rm(join(worker.root, 'token'));
    const tool = worker.start();
    expect(await tool.ended).toBe(1);
    expect(tool.lines.at(-1)?.fields['err']).toMatch(
      /the token of this worker, ".*\/token": does not exist.*init workers/,
    );
  });

  it('leaves a request that nobody approves, and the next run takes it up', async () => {
    const worker = await create('panda', new Date(Date.now() - hour));
    const before = await worker.pem();
    const first = worker.start('--wait=10s');
    expect(await first.ended).toBe(1);
    expect(first.lines.at(-1)?.fields['err']).toMatch(/has not been approved and signed in \d+s; it stays/);
    expect(await worker.pem()).toBe(before);
    const second = worker.start();
    await decide(worker, 'Approved');
    expect(await second.ended).toBe(0);
    expect(await worker.pem()).not.toBe(before);
  });

  it('of two runs at once one writes, and both end well', async () => {
    const worker = await create('lion', new Date(Date.now() - hour));
    const both = [worker.start(), worker.start('--wait=5m', '--restart-kubelet')];
    const asked = ({ lines }: Tool): boolean => lines.some(({ event }) => event === 'csr.requested');
    await eventually(() => expect(both.map(asked)).toEqual([true, true]));
    await decide(worker, 'Approved');
    for (const tool of both) expect(await tool.ended).toBe(0);
    expect(worker.lines.filter(({ event }) => event === 'target.regenerated')).toHaveLength(1);
    expect(await readdir(join(worker.root, 'pki'))).toHaveLength(3);
  });

  it('says that it was denied, and makes no other request', async () => {
    const worker = await create('zebra', new Date(Date.now() - hour));
    const before = await worker.pem();
    const first = worker.start();
    await decide(worker, 'Denied');
    expect(await first.ended).toBe(1);
    expect(await worker.start().ended).toBe(1);
    for (const { lines } of worker.tools) {
      expect(lines.at(-1)?.fields['err']).toMatch(/CertificateSigningRequest "\S+" was denied \(Test: by the test\)/);
    }
    expect(await requestsOf(worker)).toHaveLength(1);
    expect(await worker.pem()).toBe(before);
  });

  it('waits for an API server that is away no longer than it is told to', async () => {
    const [port = 0] = await freePorts(1);
    const worker = await create('whale', new Date(Date.now() - hour), { server: `https://127.0.0.1:${port}` });
    const before = await worker.pem();
    const tool = worker.start('--wait=2s');
    expect(await tool.ended).toBe(1);
    expect(worker.deeds).toEqual(['api.waiting']);
    expect(tool.lines.at(-1)?.fields['err']).toMatch(/the API server has not answered in \ds \(.*ECONNREFUSED/);
    expect(await worker.pem()).toBe(before);
  });
});

authorityStory({ world: () => ({ root, controlPlane }), create, approve: (worker) => decide(worker, 'Approved'), cli });

describe('worker NODE', () => {
  const byHand = (node: string, out: string) => {
    const flags = [`--kubeconfig=${controlPlane.recoveryKubeconfig}`, `--config=${root}/by-hand/recovery.yaml`];
    return cli('worker', node, ...flags, `--out=${out}`);
  };

  it('needs the key of the CA', async () => {
    await create('by-hand', new Date(Date.now() + hour));
    const { exit, err } = await byHand('hare', root);
    expect(exit).toBe(1);
    expect(err).toContain(`there is no "${root}/by-hand/etc/pki/ca.key"; run this on a control-plane node that has it`);
  });

  it('refuses a node that was never registered, and one that is alive', async () => {
    const etc = join(root, 'by-hand/etc');
    const { cert, key } = controlPlane.pki.clusterCa;

    await mkdir(join(etc, 'manifests'));
    await copyFile(cert, join(etc, 'pki/ca.crt'));
    await copyFile(key, join(etc, 'pki/ca.key'));
    await writeFile(join(etc, 'manifests/kube-apiserver.yaml'), 'apiVersion: v1\nkind: Pod\n');
    expect(await byHand('hare', root)).toMatchObject({
      exit: 1,
      err: expect.stringContaining('no Node of that name') as string,
    });
    const node = { metadata: { name: 'hare' } };
    expect(await controlPlane.admin('/api/v1/nodes', { method: 'POST', body: node })).toMatchObject({ status: 201 });
    const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
    const spec = { holderIdentity: 'hare', leaseDurationSeconds: 40, renewTime: microTime(new Date()) };
    await eventually(async () => {
      const lease = { method: 'POST', body: { ...node, spec } } as const;
      expect(await controlPlane.admin(leases, lease)).toMatchObject({ status: 201 });
    });
    expect(await byHand('hare', root)).toMatchObject({
      exit: 1,
      err: expect.stringContaining('its kubelet was heard at') as string,
    });
    const patch = { method: 'PATCH', body: { spec: { renewTime: microTime(new Date(Date.now() - hour)) } } } as const;
    expect(await controlPlane.admin(`${leases}/hare`, patch)).toMatchObject({ status: 200 });
  });

  it('makes a file with which the API server knows the node, for its owner alone', async () => {
    const { exit, out, err } = await byHand('hare', root);
    expect(exit, err).toBe(0);
    const file = join(root, 'hare-kubelet-client.pem');
    expect(out).toContain(`Wrote ${file}\n`);
    expect(out).not.toContain('PRIVATE');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const whoAmI = ['auth', 'whoami', `--client-certificate=${file}`, `--client-key=${file}`, '--token='];
    const kubeconfig = join(root, 'hare.conf');
    const ca = await readFile(controlPlane.recoveryCa, 'base64');
    const cluster = {
      server: controlPlane.url,
      'certificate-authority-data': ca,
      'tls-server-name': 'localhost-recovery',
    };
    await writeFile(kubeconfig, kubeconfigOf(cluster, { 'client-certificate': file, 'client-key': file }));
    expect(await controlPlane.kubectl(...whoAmI, `--kubeconfig=${kubeconfig}`)).toMatch(
      /system:node:hare[^]*system:nodes/,
    );
    // The printed commands are those of a shell.
    const [, ...commands] = out.split('\n').flatMap((line) => /^  (install|ln|systemctl) /.exec(line)?.[1] ?? []);
    expect(commands).toEqual(['ln', 'systemctl']);
  });
});

const init = (worker: Worker, ...more: readonly string[]) =>
  cli('init', 'host', '--executable=/bin/true', ...worker.flags, `--out=${worker.root}/own`, ...more);

describe('init host', () => {
  it('on a control-plane node takes no token', async () => {
    const worker = await create('control-plane', new Date(Date.now() + hour));
    await writeFile(join(worker.root, 'etc/pki/ca.key'), '');
    const { exit, err } = await init(worker);
    expect(exit).toBe(1);
    expect(err).toContain(`"${worker.root}/etc/pki/ca.key" is here, so it is a control-plane node`);
    expect(await readdir(worker.root)).not.toContain('own');
  });

  it('on a worker says without a token how to get one', async () => {
    const worker = await create('lonely', new Date(Date.now() + hour));
    const { exit, err } = await cli('init', 'host', '--executable=/bin/true', `--config=${worker.root}/recovery.yaml`);
    expect(exit).toBe(1);
    expect(err).toContain('which is a worker: run "kube-cert-recovery init workers" on a control-plane node');
  });

  it('refuses the token of another account', async () => {
    const worker = await create('greedy', new Date(Date.now() + hour));
    await writeFile(join(worker.root, 'token'), (await controlPlane.kubectl('create', 'token', 'nobody')).trim());
    const { exit, err } = await init(worker);
    expect(exit).toBe(2);
    expect(err).toContain('it is that of "system:serviceaccount:default:nobody"');
  });

  it('lets the service write where the files of the kubelet lie, also where a link leads there', async () => {
    const worker = await create('linked', new Date(Date.now() + hour));
    const [pki, conf] = ['pki', 'conf'].map((name) => `${worker.root}-data/${name}`) as [string, string];
    for (const directory of [pki, conf]) await mkdir(directory, { recursive: true });
    const dated = await realpath(worker.link);
    for (const [from, to] of [
      [dated, join(pki, 'kubelet-client-2026-01-01-00-00-00.pem')],
      [worker.conf, join(conf, 'kubelet.conf')],
    ] as const) {
      await rename(from, to);
      if (from === dated) await rm(worker.link);
      await symlink(to, from === dated ? worker.link : from);
    }
    const { exit, out, err } = await init(worker, '--dry-run');
    expect(exit, err).toBe(0);
    const [, writable = ''] = /^ReadWritePaths=(.*)$/m.exec(out) ?? [];
    expect(writable.split(' ')).toEqual(expect.arrayContaining([`-${pki}`, `-${conf}`]));
  });

  it('--check -o json says what would be written, and writes nothing', async () => {
    const worker = await create('checked', new Date(Date.now() + hour));
    const { exit, out, err } = await init(worker, '--check', '-o=json');
    expect(exit, err).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ kind: 'HostInstallation', changed: true, armed: false, status: 'healthy' });
    const { units } = JSON.parse(out) as { units: readonly { path: string; isChanged: boolean }[] };
    expect(units.map(({ isChanged }) => isChanged)).toEqual([true, true, true, true]);
    expect(units[0]?.path).toBe(`${worker.root}/own/credentials/worker/token`);
    expect(out).not.toContain(token);
    expect(await readdir(worker.root)).not.toContain('own');
  });

  it('prints units that systemd has nothing to say about', async () => {
    const worker = await create('printed', new Date(Date.now() + hour));
    const { exit, out, err } = await init(worker, '--dry-run');
    expect(exit, err).toBe(0);
    expect(out).not.toContain(token);
    const units = join(worker.root, 'units');
    const parts = out.split(/^# \/etc\/systemd\/system\/(\S+)\n/m).slice(1);
    await mkdir(join(units, 'kubelet.service.d'), { recursive: true });
    for (let at = 0; at < parts.length; at += 2) await writeFile(join(units, parts[at] ?? ''), parts[at + 1] ?? '');
    await writeFile(join(units, 'kubelet.service'), '[Service]\nExecStart=/bin/true\n');
    const verify = ['verify', '--man=no', 'kube-cert-recovery.service', 'kube-cert-recovery.timer', 'kubelet.service'];
    expect(await analyze(units, ...verify)).toBe('');
    const service = join(units, 'kube-cert-recovery.service');
    expect(await analyze(units, 'security', '--offline=true', '--threshold=40', '--no-pager', service)).toBe('');
  });
});

statusStory({ create, cli });

/** Rejects when systemd-analyze is not there. */
function analyze(units: string, ...args: readonly string[]): Promise<string> {
  const env = { ...process.env, SYSTEMD_UNIT_PATH: `${units}:` };
  return new Promise((resolve, reject) => {
    execFile('systemd-analyze', args, { env }, (err, _stdout, stderr) => {
      if (err !== null && typeof err.code !== 'number') reject(err);
      else resolve(`${stderr}${err === null ? '' : `exit ${String(err.code)}`}`);
    });
  });
}

const uninstall = (...more: readonly string[]): ReturnType<typeof cli> =>
  cli('uninstall', `--kubeconfig=${controlPlane.recoveryKubeconfig}`, `--out=${root}/x`, ...more);

it('uninstall takes no token from workers unless it is forced, and names the command that leaves them alone', async () => {
  const { exit, err } = await uninstall();
  expect({ exit, err }).toEqual({
    exit: 1,
    err: expect.stringContaining('Cannot uninstall: somebody still lives on it\n'),
  });
  expect(err).toMatch(
    /^ {2}workers: Nodes \S.* may have the token \((last used \d{4}-\d\d-\d\d|not used yet)\), and could/m,
  );
  const [, others = ''] = /^Without them: kube-cert-recovery (.*)$/m.exec(err) ?? [];
  expect(others).toContain('--part=modes,approver,hosts,node-ca ');
  const without = await cli(...others.split(' '));
  expect(without.exit, without.err).toBe(0);
  expect(without.out).not.toContain('worker');
  expect((await uninstall('--part=workers', '--dry-run', '--force')).out).toContain(
    'Would remove ClusterRoleBinding "kube-cert-recovery-worker"',
  );
  expect((await uninstall('--part=worker')).err).toContain('got "worker" (did you mean "workers"?)');
});

it('uninstall removes all that init workers made', async () => {
  const { exit, out, err } = await uninstall('--force');
  expect(exit, err).toBe(0);
  expect(out).toContain('Removed ClusterRoleBinding "kube-cert-recovery-worker"');
  const kinds = 'clusterroles,clusterrolebindings,roles,rolebindings,secrets,serviceaccounts,configmaps';
  const names = await controlPlane.kubectl(
    'get',
    kinds,
    '-A',
    '-l',
    'app.kubernetes.io/managed-by=kube-cert-recovery',
    '-o',
    'name',
  );
  expect(names.trim()).toBe('');
  const worker = await create('orphan', new Date(Date.now() - hour));
  const tool = worker.start('--wait=10s');
  expect(await tool.ended).toBe(1);
  // The API server may know the token for ten seconds more (k8s.io/apiserver, token cache): then its right is gone.
  expect(tool.lines.at(-1)?.fields['err']).toMatch(/ 401 | 403 /);
});
