// systemd as PID 1, the kubelet as a unit of its packages, and nothing of ours but what "init host" has installed.
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import { eventually } from '../support/eventually.ts';
import { powerCycle, proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { leaves, past, reissue, superAdmin } from '../support/node/leaves.ts';

/** As etcdadm writes them, with other ports than those of the control plane. */
const etcdEnvironment = `ETCD_NAME=etcd-1
ETCD_DATA_DIR=/var/lib/etcd-service
ETCD_LISTEN_CLIENT_URLS=https://127.0.0.1:12379
ETCD_ADVERTISE_CLIENT_URLS=https://127.0.0.1:12379
ETCD_LISTEN_PEER_URLS=https://127.0.0.1:12380
ETCD_INITIAL_ADVERTISE_PEER_URLS=https://127.0.0.1:12380
ETCD_INITIAL_CLUSTER=etcd-1=https://127.0.0.1:12380
ETCD_CLIENT_CERT_AUTH=true
ETCD_PEER_CLIENT_CERT_AUTH=true
ETCD_TRUSTED_CA_FILE=/etc/etcd/pki/ca.crt
ETCD_PEER_TRUSTED_CA_FILE=/etc/etcd/pki/ca.crt
ETCD_CERT_FILE=/etc/etcd/pki/server.crt
ETCD_KEY_FILE=/etc/etcd/pki/server.key
ETCD_PEER_CERT_FILE=/etc/etcd/pki/peer.crt
ETCD_PEER_KEY_FILE=/etc/etcd/pki/peer.key
`;
const etcdService = `[Service]
Type=notify
EnvironmentFile=/etc/etcd/etcd.env
ExecStart=/usr/local/lib/etcd-service/etcd
Restart=on-failure
`;
const etcdRecovery = `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: etcdadm
regen: { backupDir: /var/lib/etcd-recovery, lockDir: /run/etcd-recovery }
`;

const all = [...leaves, superAdmin];
const dropIn = '/etc/systemd/system/kubelet.service.d/20-kube-cert-recovery.conf';

describe('a node that systemd boots', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.create(inject('workshop'), { systemd: true });
  });
  afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

  it('has valid units after init host', async () => {
    await cluster.node.sh(`${programPath} init host --preset=kubeadm`);
    expect(await cluster.node.sh(`systemctl cat kubelet.service`)).toContain(dropIn);
    expect(await cluster.node.sh('systemctl is-enabled kube-cert-recovery.timer')).toBe('enabled\n');
    await cluster.node.sh('systemd-analyze verify kubelet.service kube-cert-recovery.service kube-cert-recovery.timer');
  });

  it('comes back when it was off past the end of its certificates', async () => {
    console.log(
      'container runtime up to Ready, in ms:',
      await powerCycle(cluster, { whileOff: (node) => reissue(node, all, past(new Date())) }),
    );
    await proveHealthy(cluster, cluster.node, all);
  });

  it("is repaired by the timer's service while it runs, which restarts the kubelet and proves the result", async () => {
    const { node } = cluster;
    const kubelet = (): Promise<string> => node.sh('systemctl show --property=MainPID --value kubelet.service');
    // This test plays the timer, whose own service may still be proving the boot: a start of it would only join that.
    await node.sh('systemctl stop kube-cert-recovery.timer');
    await eventually(
      async () => expect((await node.run('systemctl is-active kube-cert-recovery.service')).output).toBe('inactive\n'),
      { everyMs: 200 },
    );
    const before = await kubelet();
    await reissue(node, all, past(new Date()), { runs: true });
    const { code } = await node.run('systemctl start kube-cert-recovery.service');
    const journal = await node.sh('journalctl --unit=kube-cert-recovery.service --output=cat --no-pager');
    expect(code, journal).toBe(0);
    const told = (event: string): string[] =>
      journal.split('\n').flatMap((line) => {
        const fields = line.startsWith('{') ? (JSON.parse(line) as Readonly<Record<string, string>>) : {};
        return fields['event'] === event ? [fields['component'] ?? ''] : [];
      });
    expect(told('restart.done')).toEqual(['kubelet', 'kube-controller-manager', 'kube-scheduler']);
    // the timer may have proven the boot before
    expect([...new Set(told('proof.succeeded'))].toSorted()).toEqual([
      'kube-apiserver',
      'kube-controller-manager',
      'kube-scheduler',
      'kubelet',
    ]);
    expect(journal).not.toContain('ignoring'); // systemd has understood every line
    // Its own lines about each run are left out, and ours are not.
    expect(journal).not.toMatch(/^(Starting|Finished|Started) |Deactivated successfully|was skipped/m);
    expect(await kubelet()).not.toBe(before);
    await proveHealthy(cluster, node, all);
    await node.sh('systemctl start kube-cert-recovery.timer');
  });

  it('restarts an etcd that is a service of its own, once the CA that it has read has ended', async () => {
    const { node } = cluster;
    const day = 86_400_000;
    const [notBefore, ended] = [new Date(Date.now() - 100 * day), new Date(Date.now() - day)];
    const scratch = await mkdtemp(join(tmpdir(), 'etcd-service-'));
    try {
      const ca = await createAuthority(join(scratch, 'ca'), { commonName: 'etcd CA', notBefore, notAfter: ended });
      const files = join(scratch, 'files');
      const [pki, units, bin] = ['etc/etcd/pki', 'etc/systemd/system', 'usr/local/lib/etcd-service'].map((path) =>
        join(files, path),
      ) as [string, string, string];
      for (const directory of [pki, units, bin]) await mkdir(directory, { recursive: true });
      await copyFile(ca.cert, join(pki, 'ca.crt'));
      await copyFile(ca.key, join(pki, 'ca.key'));
      for (const leaf of ['server', 'peer', 'etcdctl-etcd-client', 'apiserver-etcd-client']) {
        const made = await createLeaf(join(scratch, leaf), ca, {
          commonName: 'etcd-1',
          dnsNames: ['localhost'],
          ipAddresses: ['127.0.0.1'],
          usages: ['serverAuth', 'clientAuth'],
          notBefore,
        });
        await copyFile(made.cert, join(pki, `${leaf}.crt`));
        await copyFile(made.key, join(pki, `${leaf}.key`));
      }
      await writeFile(join(pki, '../etcd.env'), etcdEnvironment);
      await writeFile(join(pki, '../recovery.yaml'), etcdRecovery);
      await writeFile(join(units, 'etcd.service'), etcdService);
      await copyFile((await findBinaries(['etcd'])).get('etcd') ?? '', join(bin, 'etcd'));
      await node.copyIn(files, '/');
    } finally {
      await rm(scratch, { recursive: true });
    }
    const pid = (): Promise<string> => node.sh('systemctl show --property=MainPID --value etcd.service');
    const recover = `${programPath} --mode=regen --once --restart --config=/etc/etcd/recovery.yaml`;
    const status = `${programPath} status --config=/etc/etcd/recovery.yaml`;
    const stale = 'runs since before it was renewed';
    // As if it had ended since: etcd does not look at its dates when it reads it.
    await node.sh('systemctl daemon-reload && systemctl start etcd.service');
    const before = await pid();
    const { code, output } = await node.run(recover);
    expect(code, output).toBe(0);
    expect(output).toContain('systemctl restart etcd.service');
    await eventually(async () => expect(await pid()).not.toBe(before));
    await eventually(async () => expect(await node.sh('systemctl is-active etcd.service')).toBe('active\n'));
    const after = await pid();
    expect((await node.run(status)).output).not.toContain(stale);
    const again = await node.run(recover);
    expect(again.code, again.output).toBe(0);
    expect(await pid()).toBe(after);
    await node.sh('systemctl disable --now etcd.service && rm -r /etc/etcd /etc/systemd/system/etcd.service');
  });

  it('is as it was before after uninstall host', async () => {
    await cluster.node.sh(`${programPath} uninstall host`);
    expect(await cluster.node.run(`ls ${dropIn}`)).toMatchObject({ code: 2 });
    expect((await cluster.node.run('systemctl is-enabled kube-cert-recovery.timer')).code).not.toBe(0);
    await powerCycle(cluster);
  });
});
