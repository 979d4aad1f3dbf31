// The story itself, with certificates of the real kubeadm that really expire: a control plane that was off past their end
// does not come back by itself, and with the program before its kubelet it does, with nothing typed.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { powerCycle, proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { kubeletClient, leafProblems, leaves, past, reissue, superAdmin } from '../support/node/leaves.ts';

const all = [...leaves, superAdmin];
/** Of certificates of the real kubeadm: long enough for it to renew them all, short enough to wait for. */
const validitySeconds = 30;

describe('a node whose certificates have expired while it was off', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.create(inject('workshop'));
    expect(await leafProblems(cluster.node, all)).toEqual([]);
  });
  afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

  it('stays dead without the program', async () => {
    const { node } = cluster;
    await node.sh('touch /var/lib/machine/no-recovery');
    const end = await cluster.renewForSeconds(validitySeconds);
    await node.off();
    await reissue(node, [kubeletClient], past(new Date())); // kubeadm leaves the kubelet's own to the kubelet
    await delay(end.getTime() - Date.now());
    await node.on();
    await eventually(
      async () => {
        const log = await node.read('/var/log/kubelet.log');
        expect(log.match(/bootstrap-kubelet\.conf: no such file or directory/g)?.length).toBeGreaterThan(2);
      },
      { everyMs: 500 },
    );
    // The kubelet gives up before it starts a single static pod.
    expect(await node.sh('ctr -n k8s.io tasks list --quiet')).toBe('');
    const problems = await leafProblems(node, all);
    for (const { name } of all)
      expect(problems.join('\n')).toMatch(new RegExp(`^${name}: .*certificate has expired`, 'm'));
  });

  it('is Ready and runs a new Pod after a power cycle with it', async () => {
    const recovered = await powerCycle(cluster, { whileOff: (node) => node.atBoot('rm /var/lib/machine/no-recovery') });
    await proveHealthy(cluster, cluster.node, all);
    const healthy = await powerCycle(cluster);
    console.log('container runtime up to Ready, in ms:', { recovered, healthy });
  });
});
