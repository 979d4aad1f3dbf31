// Three stacked control planes: each repairs its own certificates, and etcd has its quorum again when two have done so.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { kubeletClient, kubeletServing, leaves, past, reissue } from '../support/node/leaves.ts';
import type { Node } from '../support/node/node.ts';
import { programReference } from '../support/node/program-image.ts';

/** Of certificates of the real kubeadm: long enough for it to renew those of three nodes, short enough to wait for. */
const validitySeconds = 45;

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.create(inject('workshop'), { verifiedKubelets: true });
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

const admin = '--kubeconfig=/etc/kubernetes/admin.conf --namespace=kube-system --request-timeout=20s';

/** What the API server gets from each kubelet, whose certificate it verifies; throws unless it gets all of it. */
async function reachKubelets(): Promise<void> {
  for (const { name } of cluster.nodes) {
    await cluster.node.sh(`kubectl logs ${admin} etcd-${name} --tail=1`);
    await cluster.node.sh(`kubectl exec ${admin} kube-apiserver-${name} -- kube-apiserver --version`);
  }
}

const endOfServing = async (node: Node): Promise<number> =>
  Date.parse((await node.sh(`openssl x509 -in /${kubeletServing.file} -noout -enddate`)).replace('notAfter=', ''));

describe('kubelets that request their serving certificates', () => {
  it('have none without an approver, as before', async () => {
    await expect(reachKubelets()).rejects.toThrow(/tls|certificate/);
  });

  it('get one each, and logs and exec reach all three', async () => {
    const nodes = Object.fromEntries(cluster.nodes.map(({ name, address }) => [name, [address]]));
    const approver = { signers: ['kubelet-serving'], addresses: [{ nodes }] };
    const config = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration', approver };
    for (const node of cluster.nodes) {
      await node.sh(`cat > /var/lib/machine/approver.yaml <<'END'\n${JSON.stringify(config)}\nEND`);
      const flags = `--image=${programReference} --config=/var/lib/machine/approver.yaml`;
      await node.sh(`${programPath} init approver ${flags} --kubeconfig=/etc/kubernetes/admin.conf 2>&1`);
    }
    await eventually(reachKubelets, { everyMs: 1000 });
  });

  it('rotate it before its end, and are reached all the while', async () => {
    const [, node] = cluster.nodes as [Node, Node, Node];
    await node.off();
    // Of a life of 100 days the last: due for rotation at once (k8s.io/client-go/util/certificate, nextRotationDeadline).
    const day = 86_400_000;
    const dates = { notBefore: new Date(Date.now() - 99 * day), notAfter: new Date(Date.now() + day) };
    await reissue(node, [kubeletServing], dates);
    const since = Date.now();
    await node.on();
    await cluster.ready(node, { since });
    const deadline = dates.notAfter.getTime() + day;
    await eventually(reachKubelets); // the node's own API server and kubelet have just started
    for (let looks = 0; looks < 120 && (await endOfServing(node)) <= deadline; looks += 1) {
      await reachKubelets();
      await delay(500);
    }
    expect(await endOfServing(node)).toBeGreaterThan(deadline);
    await reachKubelets();
  });

  it('get a new one after it has expired while they were off', async () => {
    const [, , node] = cluster.nodes as [Node, Node, Node];
    await node.off();
    await reissue(node, [kubeletServing], past(new Date()));
    const since = Date.now();
    await node.on();
    await cluster.ready(node, { since });
    await eventually(reachKubelets, { everyMs: 1000 });
    expect(await endOfServing(node)).toBeGreaterThan(Date.now());
  });
});

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
