// systemd as PID 1, the kubelet as a unit of its packages, and nothing of ours but what "init host" has installed.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { powerCycle, proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { leaves, past, reissue, superAdmin } from '../support/node/leaves.ts';

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
    expect([...new Set(told('proof.given'))].toSorted()).toEqual([
      'kube-apiserver',
      'kube-controller-manager',
      'kube-scheduler',
      'kubelet',
    ]);
    expect(journal).not.toContain('ignoring'); // systemd has understood every line
    expect(await kubelet()).not.toBe(before);
    await proveHealthy(cluster, node, all);
    await node.sh('systemctl start kube-cert-recovery.timer');
  });

  it('is as it was before after uninstall host', async () => {
    await cluster.node.sh(`${programPath} uninstall host`);
    expect(await cluster.node.run(`ls ${dropIn}`)).toMatchObject({ code: 2 });
    expect((await cluster.node.run('systemctl is-enabled kube-cert-recovery.timer')).code).not.toBe(0);
    await powerCycle(cluster);
  });
});
