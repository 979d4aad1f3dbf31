// Three stacked control planes: each repairs its own certificates, and etcd has its quorum again when two have done so.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { kubeletClient, kubeletServing, leaves, past, reissue } from '../support/node/leaves.ts';
import { startLoad } from '../support/node/load.ts';
import type { Node } from '../support/node/node.ts';
import { startWriter } from '../support/node/writer.ts';
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

const day = 86_400_000;
/** As systemd-timesyncd does it: nothing valid is renewed by a clock that nobody confirms. */
const confirmClock = 'mkdir -p /run/systemd/timesync && touch /run/systemd/timesync/synchronized';
const renewCommand = `${confirmClock}; ${programPath} --mode=regen --once --restart --preset=kubeadm --renew-before=30d 2>&1`;
const ownLeaves = leaves.filter((leaf) => leaf !== kubeletClient); // the kubelet rotates its own

/** Ten days are left of them; the components that run have read others. */
async function endSoon(nodes: readonly Node[]): Promise<void> {
  const dates = { notBefore: new Date(Date.now() - 300 * day), notAfter: new Date(Date.now() + 10 * day) };
  for (const node of nodes) await reissue(node, ownLeaves, dates, { runs: true });
}

interface Turn {
  readonly node: string;
  readonly from: string;
  readonly until: string;
  /** What was restarted, once for each time. */
  readonly restarted: readonly string[];
}

/** What a timer does: a run each time, until one has given the Lease back. */
async function renewOn(node: Node): Promise<Turn> {
  let from: string | undefined;
  const restarted: string[] = [];
  const told = new Set<string>();
  for (let runs = 0; runs < 120; runs += 1) {
    const { output } = await node.run(renewCommand, { seconds: 200 });
    for (const line of output.split('\n')) told.add(line.replace(/"time":"[^"]*",/, ''));
    const lines = output
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map(
        (line) => JSON.parse(line) as { readonly event: string; readonly time: string; readonly component?: string },
      );
    restarted.push(...lines.flatMap(({ event, component }) => (event === 'restart.done' ? [component ?? ''] : [])));
    const at = (event: string): string | undefined => lines.find((line) => line.event === event)?.time;
    from ??= at('renewal.started');
    const until = at('renewal.finished');
    if (from !== undefined && until !== undefined) return { node: node.name, from, until, restarted };
    await delay(500);
  }
  throw new Error(`${node.name} has not renewed:\n${[...told].join('\n')}`);
}

/** Of every leaf but the kubelet's, the days that are left. */
async function daysLeft(node: Node): Promise<number> {
  const output = await node.sh(
    'for file in /etc/kubernetes/pki/*.crt /etc/kubernetes/pki/etcd/*.crt; do case $file in *ca.crt) ;; *) openssl x509 -in $file -noout -enddate ;; esac; done',
  );
  const ends = output
    .trim()
    .split('\n')
    .map((line) => Date.parse(line.replace('notAfter=', '')));
  expect(ends.length).toBeGreaterThanOrEqual(7);
  return (Math.min(...ends) - Date.now()) / day;
}

/** By name; comm is cut at 15 characters. What the API says of containers comes later than that. */
const processes = ['etcd', 'kube-apiserver', 'kube-controller', 'kube-scheduler', 'kubelet'] as const;

/** Of each node the process of each; throws while one does not run. */
async function processesOn(nodes: readonly Node[]): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const node of nodes)
    for (const name of processes) found[`${node.name} ${name}`] = (await node.sh(`pgrep -x ${name}`)).trim();
  return found;
}

describe('three control planes whose certificates end in ten days', () => {
  it('renew them one node after the other under load: no write is lost, and no call fails twice', async () => {
    // Without systemd nothing else is done by this than to grant the right to the Lease.
    const { output } = await cluster.node.run(`${programPath} init host --renew-before=30d 2>&1`);
    expect(output).toContain('Created RoleBinding');
    await endSoon(cluster.nodes);
    const before = await eventually(() => processesOn(cluster.nodes), { everyMs: 500 });
    const load = await startLoad(cluster.node, '/etc/kubernetes/admin.conf');
    const writer = startWriter(cluster, () => cluster.nodes);
    const renewals = await Promise.allSettled(cluster.nodes.map(renewOn));
    const [written, called] = [await writer.stop(), await load.stop()];
    const turns = renewals.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    expect(turns, renewals.map((one) => (one.status === 'rejected' ? String(one.reason) : '')).join('\n')).toHaveLength(
      3,
    );
    expect(written).toMatchObject({ lost: [], failed: [] });
    expect(written.acknowledged).toBeGreaterThan(100);
    expect(called.failed).toEqual([]);
    const order = turns.toSorted((one, other) => one.from.localeCompare(other.from));
    for (const [at, { from }] of order.entries())
      expect(from >= (order[at - 1]?.until ?? ''), JSON.stringify(order)).toBe(true);
    for (const node of cluster.nodes) {
      expect(await daysLeft(node), node.name).toBeGreaterThan(300);
      await proveHealthy(cluster, node);
    }
    // Once each; what reads its files again without a restart not at all, and the kubelet rotates its own.
    for (const { node, restarted } of turns)
      expect(restarted.toSorted(), node).toEqual(['kube-controller-manager', 'kube-scheduler']);
    const after = await eventually(() => processesOn(cluster.nodes), { everyMs: 500 });
    for (const [name, process] of Object.entries(after)) {
      if (/ kube-(controller|scheduler)$/.test(name)) expect(process, name).not.toBe(before[name]);
      else expect(process, name).toBe(before[name]);
    }
  }, 900_000);

  it('renew with one switched off half-way, which renews when it is back', async () => {
    await endSoon(cluster.nodes);
    const [first, second, third] = cluster.nodes as [Node, Node, Node];
    let there: readonly Node[] = cluster.nodes;
    const writer = startWriter(cluster, () => there);
    await renewOn(first);
    there = [first, third];
    await second.off();
    await renewOn(third);
    const since = Date.now();
    await second.on();
    await cluster.ready(second, { since });
    expect(await daysLeft(second)).toBeLessThan(11);
    there = cluster.nodes;
    await renewOn(second);
    expect(await writer.stop()).toMatchObject({ lost: [], failed: [] });
    for (const node of cluster.nodes) {
      expect(await daysLeft(node), node.name).toBeGreaterThan(300);
      await proveHealthy(cluster, node);
    }
  }, 900_000);
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
