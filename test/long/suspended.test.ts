// A machine that stood still past the end of everything, its kubelet's own certificate included, and that has no units of
// `init host`: the kubelet ends itself after five minutes without a certificate, and its next start asks for a new one.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { adopt, endLeaves, ends, leavesValid } from '../support/node/adopted.ts';
import { Cluster } from '../support/node/cluster.ts';
import { kubeletClient, reissue } from '../support/node/leaves.ts';

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.create(inject('workshop'));
  await cluster.node.sh('touch /var/lib/machine/no-recovery');
  await adopt(cluster.node);
  await cluster.ready(cluster.node);
});
afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

it('comes back from a suspend without the units, when its kubelet has given up', async () => {
  const { node } = cluster;
  // The kubelet asks for a new certificate in the last third of its life: it must not come so far.
  await node.off();
  const began = Date.now();
  const dates = { notBefore: new Date(began - 1000), notAfter: new Date(began + 100_000) };
  await reissue(node, [kubeletClient], dates);
  await node.on();
  await cluster.ready(node, { since: began });
  const end = Math.max(await endLeaves(cluster, { inMs: 15_000 }), dates.notAfter.getTime());
  await node.freeze();
  await delay(end + 3000 - Date.now());
  const thawed = Date.now();
  await node.thaw();
  await leavesValid(node);
  console.log(`thawed to valid on disk: ${Date.now() - thawed} ms`);
  expect((await ends(node)).get('kubelet')?.getTime()).toBeLessThan(Date.now());
  const ready = await cluster.ready(node, { since: thawed, withinMs: 600_000 });
  console.log(`thawed to Ready: ${ready - thawed} ms`);
  expect(ready - thawed).toBeGreaterThan(200_000);
  expect(await node.read('/var/log/kubelet.log')).toContain('kubelet exited with code');
  await cluster.runPod();
});
