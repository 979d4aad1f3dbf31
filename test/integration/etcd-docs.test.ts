// The commands of docs/external-etcd.md and docs/eks-anywhere.md, run as they are written, in their order, on files that
// the real kubeadm has made and on those of a machine of etcd. They find these where a machine has them: in a mount
// namespace of their own.
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { blocks, page, root as project } from '../docs/markdown.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { EtcdMembers } from '../support/cluster/etcd-members.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const commandsOf = (path: string): readonly string[] =>
  blocks(page(path)).flatMap(({ language, text }) => (language === 'sh' ? [text.trim()] : []));

const namespaces = [...asRoot, '--mount', '--net', ...unseen];

/** The command as it is written, on a machine whose /etc and /var/lib are these. */
function run(command: string, root: string): Promise<Outcome> {
  const place = `set -e
mount -t tmpfs tmpfs /run
mount --rbind "$1/var/lib" /var/lib
mount --rbind "$1/etc" /etc
`;
  const { NODE_EXTRA_CA_CERTS: _own, ...env } = process.env;
  const options = { env: { ...env, PATH: `${join(project, 'dist')}:${process.env['PATH'] ?? ''}` } };
  return new Promise((resolve) => {
    execFile(
      'unshare',
      [...namespaces, 'sh', '-c', `${place}${command}`, 'sh', root],
      options,
      (err, stdout, stderr) => {
        resolve({ stdout, stderr, code: err === null ? 0 : typeof err.code === 'number' ? err.code : -1 });
      },
    );
  });
}

const day = 86_400_000;
const expired = { notBefore: new Date(Date.now() - 400 * day), notAfter: new Date(Date.now() - 35 * day) };

describe('docs/external-etcd.md', () => {
  it('has four commands, which do what it says', async () => {
    const [status = '', forecast = '', renew = '', withSource = '', ...others] = commandsOf('docs/external-etcd.md');
    expect(others).toEqual([]);
    const pki = '/etc/kubernetes/pki';
    const [caFile, certFile, keyFile] = ['etcd/ca.crt', 'apiserver-etcd-client.crt', 'apiserver-etcd-client.key'];
    const external = {
      endpoints: ['https://192.0.2.20:2379'],
      caFile: `${pki}/${caFile}`,
      certFile: `${pki}/${certFile}`,
      keyFile: `${pki}/${keyFile}`,
    };
    await using machine = await KubeadmMachine.create(`etcd: ${JSON.stringify({ external })}`);
    for (const path of ['var/lib/kubelet', 'etc/kubernetes/pki/etcd'])
      await mkdir(join(machine.root, path), { recursive: true });
    const ca = await createAuthority(join(machine.root, 'ca'), { commonName: 'etcd-ca', notBefore: expired.notBefore });
    const leaf = await createLeaf(join(machine.root, 'leaf'), ca, { commonName: 'apiserver-etcd-client', ...expired });
    await copyFile(ca.cert, machine.path('pki', caFile));
    await rename(leaf.cert, machine.path('pki', certFile));
    await rename(leaf.key, machine.path('pki', keyFile));

    const before = await run(status, machine.root);
    expect(before.code, before.stdout).toBe(5);
    expect(before.stdout).toMatch(/^external-etcd-client +EXPIRED +nothing: bring a new one by hand/m);
    expect((await run(forecast, machine.root)).code).toBe(5);
    // Its configuration, on a machine that does not reach the management cluster.
    const [yaml = ''] = blocks(page('docs/external-etcd.md')).flatMap(({ language, text }) =>
      language === 'yaml' ? [text] : [],
    );
    await writeFile(machine.path('kube-cert-recovery.yaml'), yaml);
    const told = 'Secret "eksa-system/cluster1-apiserver-etcd-client" (kubeconfig "/etc/kubernetes/management.conf")';
    const asked = await run(withSource, machine.root);
    expect(asked.code, asked.stdout).toBe(5);
    expect(asked.stdout).toContain(`${told} does not help: `);
    // With the unit that `init host --config` writes, status goes by that file.
    const unit = '/etc/systemd/system/kube-cert-recovery.service';
    const units = await run(`kube-cert-recovery init host --dry-run ${withSource.split(' ').at(-1)}`, machine.root);
    const [, own = ''] = units.stdout.split(`# ${unit}\n`);
    expect(own, units.stdout).toContain('--config=');
    await mkdir(join(machine.root, unit, '..'), { recursive: true });
    await writeFile(join(machine.root, unit), own.split(/^# \/etc/m)[0] ?? '');
    expect((await run(status, machine.root)).stdout).toContain(`${told} does not help: `);
    await rm(join(machine.root, unit));
    await copyFile(ca.key, machine.path('pki/etcd/ca.key'));
    const made = await run(renew, machine.root);
    expect(made.code, made.stderr).toBe(0);
    const after = await run(status, machine.root);
    expect(after.code, after.stdout).toBe(0);
  });
});

describe('docs/eks-anywhere.md', () => {
  const [init = '', status = '', repair = '', ahead = '', bottlerocket = '', ...others] =
    commandsOf('docs/eks-anywhere.md');

  it('has five commands; on a machine of etcd they do what it says', async () => {
    expect(others).toEqual([]);
    await using etcd = await EtcdMembers.create(expired);
    const [{ root, pki } = { root: '', pki: '' }] = etcd.members;
    await mkdir(join(root, 'var/lib'), { recursive: true });
    const units = await run(init, root);
    expect(units.code, units.stderr).toBe(0);
    expect(units.stdout).toContain('# /etc/systemd/system/etcd.service.d/20-kube-cert-recovery.conf\n');
    expect(units.stdout).not.toContain('kubelet.service.d');
    expect(units.stdout).toContain(
      `ExecStart=${join(project, 'dist/kube-cert-recovery')} --mode=regen --once --preset=eks-anywhere --restart`,
    );
    expect(units.stdout).toContain('ReadWritePaths=-/etc/etcd/pki\n');
    const early = await run(ahead, root);
    expect(early.code, early.stderr).toBe(0);
    expect(early.stdout).toContain('--preset=eks-anywhere --renew-before=30d --restart');
    const before = await run(status, root);
    expect(before.code, before.stdout).toBe(3);
    expect(before.stdout).toContain('--mode=regen --once --preset=eks-anywhere" before each start of etcd');
    const made = await run(repair, root);
    expect(made.code, made.stderr).toBe(0);
    const after = await run(status, root);
    expect(after.code, after.stdout).toBe(0);
    expect(await readFile(join(pki, 'ca.crt'))).toEqual(await readFile(join(root, 'etc/etcd/pki/ca.crt')));
  });

  it('on a control-plane node eks-anywhere is kubeadm', async () => {
    await using machine = await KubeadmMachine.create();
    await mkdir(join(machine.root, 'var/lib/kubelet'), { recursive: true });
    const { stdout, code } = await run(status, machine.root);
    expect(code, stdout).toBe(0);
    expect(stdout).toMatch(/^apiserver-etcd-client +\w{3} \d\d, /m);
    // The recipe of docs/cluster-api.md.
    const [recipe = ''] = /kube-cert-recovery init host --renew-before=60d/.exec(page('docs/cluster-api.md')) ?? [];
    const units = await run(`${recipe} --dry-run`, machine.root);
    expect(units.code, units.stderr).toBe(0);
    expect(units.stdout).toContain('--renew-before=60d');
  });

  it('on a machine of etcd of Bottlerocket', async () => {
    await using etcd = await EtcdMembers.create({ ...expired, pkiDir: 'var/lib/etcd/pki' });
    const [{ root } = { root: '' }] = etcd.members;
    await mkdir(join(root, 'etc'));
    const { stderr, code } = await run(bottlerocket, root);
    expect(code, stderr).toBe(0);
    const after = await run(status.replace('eks-anywhere', 'eks-anywhere-bottlerocket'), root);
    expect(after.code, after.stdout).toBe(0);
  });
});
