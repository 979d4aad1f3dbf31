// Certificates of minutes on an adopted machine that is in use: three generations of every leaf, the kubelet's own among
// them, with the policy that adoption brings along. No call fails twice, nothing is started again, no holder loses a lease.
// A leaf lives nine minutes and is renewed after three: clients of client-go's close a connection at most five minutes
// after their files have changed (transport/cert_rotation.go), and an expired certificate is refused also on an open one.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import {
  adoptWith,
  endLeaves,
  ends,
  leavesInApi,
  networkFromDaemonSet,
  offPast,
  recoveryDirectory,
  renewedSince,
  renewing,
} from '../support/node/adopted.ts';
import { Cluster } from '../support/node/cluster.ts';
import { leaders } from '../support/node/cut-off.ts';
import { kubeletClient, reissue } from '../support/node/leaves.ts';
import { runningOn, startLoad } from '../support/node/load.ts';

const minute = 60_000;
const generations = 3;

let cluster: Cluster;

beforeAll(async () => {
  // A kubelet closes its connections at once when it has a new certificate, so its own may live for four minutes.
  cluster = await Cluster.create(inject('workshop'), { signingDuration: '4m' });
  const { node } = cluster;
  await node.sh('touch /var/lib/machine/no-recovery');
  await adoptWith(node, renewing({ validity: '9m', refresh: '3m' }));
  await networkFromDaemonSet(cluster);
  await node.off();
  const began = Date.now();
  await reissue(node, [kubeletClient], { notBefore: new Date(began - 1000), notAfter: new Date(began + 4 * minute) });
  await node.on();
  await cluster.ready(node, { since: began });
});
afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

/** How many certificates the kubelet has had. */
async function kubeletGenerations(): Promise<number> {
  return Number(await cluster.node.sh('ls /var/lib/kubelet/pki/kubelet-client-2*.pem | wc -l'));
}

describe('an adopted machine with certificates of minutes', () => {
  it('lives through three generations of every leaf under load, and nothing fails or starts again', async () => {
    const { node } = cluster;
    // Those of kubeadm live a year: from here on none lives longer than ten minutes.
    await endLeaves(cluster, { inMs: 9 * minute });
    const began = Date.now();
    // A component that has just been started takes its Lease over only when the former holder's has run out.
    const held = await eventually(
      async () => {
        const leases = await leaders(cluster);
        for (const [name, { renewTime }] of leases) expect(Date.parse(renewTime), name).toBeGreaterThan(began);
        return leases;
      },
      { withinMs: 2 * minute, everyMs: 500 },
    );
    const [runs, issued] = [await runningOn(cluster), await kubeletGenerations()];
    const load = await startLoad(node, `${recoveryDirectory}/kube-apiserver/kubeconfigs/admin.kubeconfig`);
    let expired: string[] = [];
    const seen = await eventually(
      async () => {
        const now = Date.now();
        expired = [
          ...expired,
          ...[...(await ends(node))].flatMap(([name, end]) => (end.getTime() <= now ? [name] : [])),
        ];
        await cluster.runPod();
        const renewed = await renewedSince(node, began);
        const few = leavesInApi.filter((name) => (renewed.get(name) ?? 0) < generations);
        const own = (await kubeletGenerations()) - issued;
        if (few.length > 0 || own < generations)
          throw new Error(`Renewed: ${JSON.stringify([...renewed])}, kubelet ${own} times`);
        return { ...Object.fromEntries(renewed), kubelet: own };
      },
      { withinMs: 25 * minute, everyMs: 5000 },
    );
    const { calls, retried, failed } = await load.stop();
    const took = Math.round((Date.now() - began) / 1000);
    console.log(`${took} s; renewed ${JSON.stringify(seen)}; calls ${JSON.stringify(calls)}; made again:`, retried);
    expect(failed).toEqual([]);
    expect(expired).toEqual([]);
    expect(await runningOn(cluster)).toEqual(runs);
    // No lease had to be taken over.
    const leases = await leaders(cluster);
    for (const [name, { holderIdentity, leaseTransitions }] of held)
      expect(leases.get(name), name).toMatchObject({ holderIdentity, leaseTransitions });
  }, 1_800_000);

  it('comes back with the same policy after all of it has expired while it was off', async () => {
    const { node } = cluster;
    const off = Date.now();
    await offPast(
      node,
      Math.max(
        ...[...(await ends(node)).values()].map((end) => end.getTime()).filter((end) => end < off + 15 * minute),
      ),
    );
    const since = Date.now();
    await node.on();
    await cluster.ready(node, { since, withinMs: 180_000 });
    await cluster.runPod();
    for (const [name, end] of await ends(node)) expect(end.getTime(), name).toBeGreaterThan(Date.now());
  }, 1_800_000);
});
