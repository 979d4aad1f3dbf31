import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readComponents } from '../../lib/inventory/discover/components-here.ts';
import { readerBelow } from '../../lib/inventory/discover/machine-files.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'components-'));
});
afterEach(() => rm(root, { recursive: true }));

async function put(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [file, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), text);
  }
}

async function told(component: string, manifests: Readonly<Record<string, string>> = {}, processes = false) {
  const files = readerBelow(root);
  const found = await readComponents(files, {
    manifests,
    manifestFiles: {},
    units: readerBelow(root),
    kubeletConfiguration: '/var/lib/kubelet/config.yaml',
    processes: processes ? readerBelow(root) : undefined,
  });
  expect(files.unread).toEqual([]);
  const values = found[component]?.values;
  return values && Object.fromEntries([...values].map(([name, all]) => [name, all.at(-1)]));
}

const etcdUnit = '[Service]\nEnvironmentFile=/etc/etcd.env\nExecStart=/usr/local/bin/etcd\n';

describe('readComponents()', () => {
  it('reads a service of etcd with its environment file, whatever its name', async () => {
    await put({
      '/etc/systemd/system/etcd3.service': etcdUnit,
      '/etc/etcd.env': 'ETCD_CERT_FILE=/m.pem\nETCD_NAME=etcd1\n',
    });
    expect(await told('etcd')).toBeUndefined(); // nothing wants it
    await mkdir(join(root, '/etc/systemd/system/multi-user.target.wants'));
    await symlink(
      '/etc/systemd/system/etcd3.service',
      join(root, '/etc/systemd/system/multi-user.target.wants/etcd3.service'),
    );
    expect(await told('etcd')).toEqual({ 'cert-file': '/m.pem', name: 'etcd1' });
  });

  it('reads the unit of the kubelet with drop-ins of all directories, by name, the first of a name', async () => {
    await put({
      '/usr/lib/systemd/system/kubelet.service': '[Service]\nExecStart=/usr/bin/kubelet\n',
      '/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf':
        '[Service]\nExecStart=\nExecStart=/usr/bin/kubelet $A $B\nEnvironment=A=--kubeconfig=/lib.conf\n',
      '/etc/systemd/system/kubelet.service.d/10-kubeadm.conf':
        '[Service]\nExecStart=\nExecStart=/usr/bin/kubelet $A $B\nEnvironment=A=--kubeconfig=/etc.conf\n',
      '/etc/systemd/system/kubelet.service.d/20-more.conf':
        '[Service]\nEnvironment="B=--cert-dir=/certs --config=/c.yaml --config-dir=/c.d"\n',
      '/c.yaml': 'tlsCertFile: /one.crt\n',
      '/c.d/10.conf': 'tlsCertFile: /two.crt\n',
      '/c.d/README': 'tlsCertFile: /three.crt\n',
    });
    expect(await told('kubelet')).toMatchObject({
      kubeconfig: '/etc.conf',
      'cert-dir': '/certs',
      'tls-cert-file': '/two.crt',
    });
  });

  it('takes the configuration of the kubelet from its usual place where no unit is known', async () => {
    await put({ '/var/lib/kubelet/config.yaml': 'authentication: {x509: {clientCAFile: /ca.crt}}\n' });
    expect(await told('kubelet')).toEqual({ 'client-ca-file': '/ca.crt' });
  });

  it('prefers a manifest to a unit, without the flags that an adoption has added', async () => {
    const manifest = JSON.stringify({
      metadata: { annotations: { 'kube-cert-recovery/flags': '["--cert-file=/ours.crt"]' } },
      spec: {
        containers: [
          {
            name: 'etcd',
            command: ['sh', '-c', 'exec etcd --key-file=/p.key --cert-file=/p.crt'],
            args: ['--cert-file=/ours.crt'],
          },
        ],
      },
    });
    await put({
      '/etc/systemd/system/etcd.service': etcdUnit,
      '/etc/systemd/system/multi-user.target.wants/etcd.service': etcdUnit,
      '/etc/etcd.env': 'ETCD_CERT_FILE=/m.pem\n',
    });
    expect(await told('etcd', { etcd: manifest })).toEqual({ 'key-file': '/p.key', 'cert-file': '/p.crt' });
  });

  it('takes no unit for the kubelet that nothing wants, that is masked, or that only controls it', async () => {
    const wanted = '/etc/systemd/system/multi-user.target.wants';
    await put({
      '/etc/systemd/system/a-kubelet-old.service': '[Service]\nExecStart=/usr/bin/kubelet --kubeconfig=/old.conf\n',
      '/etc/systemd/system/fix.service': '[Service]\nExecStart=/usr/bin/systemctl restart kubelet\n',
      [`${wanted}/fix.service`]: '',
      '/usr/lib/systemd/system/kubelet.service': '[Service]\nExecStart=/usr/bin/kubelet --kubeconfig=/k.conf\n',
      '/usr/lib/systemd/system/etcd.service': etcdUnit,
      [`${wanted}/etcd.service`]: '',
      '/etc/etcd.env': 'ETCD_CERT_FILE=/m.pem\n',
    });
    await symlink('/dev/null', join(root, '/etc/systemd/system/etcd.service'));
    await symlink('/dev/null', join(root, '/etc/systemd/system/other.service'));
    expect(await told('kubelet')).toEqual({ kubeconfig: '/k.conf' });
    expect(await told('etcd')).toBeUndefined();
  });

  it('takes the command line of a process where nothing else says it, and only where it sees the same files', async () => {
    await put({
      '/proc/12/cmdline': 'sh\0-c\0etcd --cert-file=/no.crt\0',
      '/proc/34/cmdline': '/usr/bin/etcd\0--cert-file=/p.crt\0',
      '/proc/34/environ': 'ETCD_KEY_FILE=/p.key\0',
    });
    for (const id of ['self', '34', '12']) {
      await mkdir(join(root, `/proc/${id}/ns`), { recursive: true });
      await symlink('mnt:[1]', join(root, `/proc/${id}/ns/mnt`));
    }
    await symlink('/usr/bin/etcd', join(root, '/proc/34/exe'));
    // Anybody's process may have this name.
    await put({
      '/proc/34/status': 'Name:\tetcd\nUid:\t1000\t0\t0\t0\n',
      '/proc/34/cgroup': '0::/user.slice/a.scope\n',
    });
    expect(await told('etcd', {}, true)).toBeUndefined();
    await put({ '/proc/34/cgroup': '0::/system.slice/etcd.service\n' });
    expect(await told('etcd')).toBeUndefined();
    expect(await told('etcd', {}, true)).toEqual({ 'cert-file': '/p.crt', 'key-file': '/p.key' });
    await rm(join(root, '/proc/34/ns/mnt'));
    await symlink('mnt:[2]', join(root, '/proc/34/ns/mnt'));
    expect(await told('etcd', {}, true)).toBeUndefined();
  });
});
