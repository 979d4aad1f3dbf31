// Three stacked control planes: each repairs its own certificates, and etcd has its quorum again when two have done so.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { kubeletClient, leaves, past, reissue } from '../support/node/leaves.ts';
import type { Node } from '../support/node/node.ts';

/** Of certificates of the real kubeadm: long enough for it to renew those of three nodes, short enough to wait for. */
const validitySeconds = 45;

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.create(inject('workshop'));
  await cluster.join();
  await cluster.join();
});
afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

async function offPastExpiry(nodes: readonly Node[]): Promise<void> {
  await Promise.all(nodes.map((node) => node.off()));
  for (const node of nodes) await reissue(node, leaves, past(new Date()));
}

/** Switches them on together; every one must be Ready by its own API server's word. */
async function on(nodes: readonly Node[]): Promise<void> {
  const since = Date.now();
  await Promise.all(nodes.map((node) => node.on()));
  for (const node of nodes) await cluster.ready(node, { since });
  console.log(`${nodes.length} nodes Ready after ${Date.now() - since} ms`);
  for (const node of nodes) await proveHealthy(cluster, node);
}

describe('three control planes that were off past the end of all their certificates', () => {
  it('all come back when all are switched on', async () => {
    const ends: Date[] = [];
    for (const node of cluster.nodes) ends.push(await cluster.renewForSeconds(validitySeconds, node));
    await Promise.all(cluster.nodes.map((node) => node.off()));
    // kubeadm leaves the kubelet's own to the kubelet.
    for (const node of cluster.nodes) await reissue(node, [kubeletClient], past(new Date()));
    await delay(Math.max(...ends.map((end) => end.getTime())) - Date.now());
    await on(cluster.nodes);
  }, 480_000);

  it('two come back when the third is lost for good', async () => {
    await offPastExpiry(cluster.nodes);
    const [first, second, third] = cluster.nodes as [Node, Node, Node];
    await first.remove();
    await on([second, third]);
    expect((await cluster.api('/readyz', { node: second })).status).toBe(200);
  });
});
