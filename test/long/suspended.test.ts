// A machine that stood still past the end of everything, its kubelet's own certificate included, and that has no units of
// `init host`: the kubelet ends itself after five minutes without a certificate, and its next start asks for a new one.
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { adopt, ends, suspendPast } from '../support/node/adopted.ts';
import { Cluster } from '../support/node/cluster.ts';

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
  const thawed = await suspendPast(cluster, { inMs: 15_000 });
  expect((await ends(node)).get('kubelet')?.getTime()).toBeLessThan(Date.now());
  const ready = await cluster.ready(node, { since: thawed, withinMs: 600_000 });
  console.log(`thawed to Ready: ${ready - thawed} ms`);
  expect(ready - thawed).toBeGreaterThan(200_000);
  expect(await node.read('/var/log/kubelet.log')).toContain('kubelet exited with code');
  await cluster.runPod();
});
