// systemd as PID 1, the kubelet as a unit of its packages, and nothing of ours but what "init host" has installed.
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { linesIn, linesOf, shortened } from '../../scripts/pictures.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import { eventually } from '../support/eventually.ts';
import { powerCycle, proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { comparable } from '../support/lines.ts';
import { bundlesPath, clientOf, kubeletAnswer, makeAuthority } from '../support/node/kubelet-clients.ts';
import { leaves, past, reissue, superAdmin } from '../support/node/leaves.ts';
import { askRecovery, askStatus, letDie } from '../support/node/recovery-session.ts';

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
/** Without what depends on earlier tests of this node: its program and its rights in the API, which may be there already. */
const asInPicture = (lines: readonly string[]): readonly string[] =>
  comparable(lines)
    .filter((line) => !/^(Wrote|Unchanged:) \/opt|^(Created|Updated) /.test(line))
    .map((line) => line.replace(/^(N of N certificates expired, the first .*?\)).*/, '$1'));
const metrics = '/var/lib/prometheus/node-exporter/certs.prom';
const dropIn = '/etc/systemd/system/kubelet.service.d/20-kube-cert-recovery.conf';

describe('a node that systemd boots', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.create(inject('workshop'), { systemd: true });
  });
  afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

  it('has valid units after init host', async () => {
    await cluster.node.sh(`mkdir -p ${dirname(metrics)}`);
    await cluster.node.sh(`${programPath} init host --preset=kubeadm --metrics-file=${metrics}`);
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
        const [said, ...fields] = line.split(' ');
        return said === event ? fields.flatMap((field) => /^component=(.*)/.exec(field)?.[1] ?? []) : [];
      });
    expect(told('restart.done')).toEqual(['kubelet', 'kube-controller-manager', 'kube-scheduler']);
    // the timer may have proven the boot before
    expect([...new Set(told('proof.succeeded'))].toSorted()).toEqual([
      'kube-apiserver',
      'kube-controller-manager',
      'kube-scheduler',
      'kubelet',
    ]);
    // Without its timer the node would not repair itself.
    expect(await node.sh(`cat ${metrics}`)).toMatch(/^kube_cert_recovery_units_loaded 0$/m);
    expect(journal).not.toContain('ignoring'); // systemd has understood every line
    // Its own lines about each run are left out, and ours are not.
    expect(journal).not.toMatch(/^(Starting|Finished|Started) |Deactivated successfully|was skipped/m);
    expect(await kubelet()).not.toBe(before);
    await proveHealthy(cluster, node, all);
    await node.sh('systemctl start kube-cert-recovery.timer && systemctl start kube-cert-recovery.service');
    const measured = await node.sh(`cat ${metrics}`);
    expect(measured).toMatch(/^kube_cert_recovery_units_loaded 1$/m);
    expect(measured).toMatch(/^x509_cert_expired.*artefact="apiserver".* 0$/m);
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

  it("follows the ConfigMap of init node-ca by the timer's service, into a file that the kubelet has for itself", async () => {
    const { node } = cluster;
    const [signer, own] = ['/etc/kubernetes/pki/ca.crt', '/etc/kubernetes/kubelet-clients.crt'];
    await node.sh('systemctl stop kube-cert-recovery.timer kube-cert-recovery.service');
    const service = async (): Promise<string> => {
      await node.run('systemctl start kube-cert-recovery.service', { seconds: 200 });
      return node.sh('systemctl show --property=ExecMainStatus --value kube-cert-recovery.service');
    };
    await eventually(() => node.sh(`${programPath} init node-ca`)); // a young cluster has not published its CA yet
    await node.sh('rm -f /run/kube-cert-recovery/node-ca'); // as an hour later
    const next = await makeAuthority(node, 'next');
    const client = await clientOf(node, 'next');
    const before = await node.read(signer);
    const body = { data: { 'client-ca.crt': before + next } };
    expect((await cluster.api(bundlesPath, { method: 'PATCH', body })).status).toBe(200);
    // kube-controller-manager takes one certificate in the file by which it signs.
    expect(await service()).toBe('5\n');
    expect(await node.read(signer)).toBe(before);
    expect(await kubeletAnswer(node, client)).toContain(' 401 ');
    await node.sh(
      `cp ${signer} ${own} && sed -i 's,clientCAFile: .*,clientCAFile: ${own},' /var/lib/kubelet/config.yaml
      systemctl restart kubelet`,
    );
    await cluster.ready(node, { since: Date.now() });
    expect(await service()).toBe('0\n'); // its start may have run it
    expect(await node.read(own)).toBe(before + next);
    expect(await node.read(signer)).toBe(before);
    await eventually(async () => expect(await kubeletAnswer(node, client)).toContain(' 403 '));
    await node.sh('systemctl start kube-cert-recovery.timer');
  });

  it('is as it was before after uninstall host', async () => {
    await cluster.node.sh(`${programPath} uninstall host`);
    expect(await cluster.node.run(`ls ${dropIn}`)).toMatchObject({ code: 2 });
    expect((await cluster.node.run('systemctl is-enabled kube-cert-recovery.timer')).code).not.toBe(0);
    await powerCycle(cluster);
  });

  it('is dead without them once its certificates have expired, and is brought back by one command', async () => {
    const { node } = cluster;
    await letDie(cluster);
    const dead = await askStatus(node);
    expect(dead.code, dead.output).toBe(3);
    expect(asInPicture(shortened(dead.output))).toEqual(asInPicture(linesIn('dead-node')));
    const { code, output } = await askRecovery(node);
    expect(code, output).toBe(0);
    const lines = linesOf(output);
    expect(lines.slice(-5)).toEqual([
      'Everything is as it should be.',
      expect.stringMatching(/^ARMED: yes: /),
      'Nothing to do.',
      expect.stringMatching(/^For kubectl: copy admin.conf again; /),
      expect.stringMatching(/^back: 1\d reissued, served, node Ready in \d+ s$/),
    ]);
    expect(asInPicture(lines)).toEqual(expect.arrayContaining([...asInPicture(linesIn('recovery'))]));
    console.log(lines.join('\n'));
    await proveHealthy(cluster, node, all);
    const again = await node.run(`${programPath} init host --check -o json`);
    expect([again.code, JSON.parse(again.output)]).toEqual([
      0,
      expect.objectContaining({ changed: false, armed: true }),
    ]);
    expect((await node.run(`${programPath} status --wait=1m`)).code).toBe(0);
    const { output: recovered } = await askStatus(node);
    expect(asInPicture(shortened(recovered))).toEqual(asInPicture(linesIn('recovered-node')));
    const gone = await node.run(`${programPath} uninstall host --check -o json`);
    expect([gone.code, JSON.parse(gone.output)]).toEqual([1, expect.objectContaining({ changed: true })]);
  });
});
