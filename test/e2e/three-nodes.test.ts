// Three stacked control planes: each repairs its own certificates, and etcd has its quorum again when two have done so.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { type Generation, generationOn, refusals } from '../support/node/authorities.ts';
import { authorities, kubeletClient, kubeletServing, leaves, past, reissue } from '../support/node/leaves.ts';
import { startLoad } from '../support/node/load.ts';
import type { Node } from '../support/node/node.ts';
import { watchQuorum } from '../support/node/quorum.ts';
import { processesOn, renewAll, renewCommand, renewOn } from '../support/node/renewals.ts';
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
    const retried: unknown[] = [];
    for (let looks = 0; looks < 120 && (await endOfServing(node)) <= deadline; looks += 1) {
      // A call is made once more, as clients do.
      await reachKubelets().catch((err: unknown) => {
        retried.push(err);
        return reachKubelets();
      });
      await delay(500);
    }
    expect(retried.length, String(retried[0])).toBeLessThan(3);
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
const ownLeaves = leaves.filter((leaf) => leaf !== kubeletClient); // the kubelet rotates its own

/** Ten days are left of them; the components that run have read others. */
async function endSoon(nodes: readonly Node[]): Promise<void> {
  const dates = { notBefore: new Date(Date.now() - 300 * day), notAfter: new Date(Date.now() + 10 * day) };
  for (const node of nodes) await reissue(node, ownLeaves, dates, { runs: true });
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

describe('three control planes whose certificates end in ten days', () => {
  it('renew them one node after the other under load: no write is lost, and no call fails twice', async () => {
    // Without systemd nothing else is done by this than to grant the right to the Lease.
    const { output } = await cluster.node.run(`${programPath} init host --renew-before=30d 2>&1`);
    expect(output).toContain('Created RoleBinding');
    await endSoon(cluster.nodes);
    const before = await eventually(() => processesOn(cluster.nodes), { everyMs: 500 });
    const load = await startLoad(cluster.node, '/etc/kubernetes/admin.conf');
    const writer = startWriter(cluster, () => cluster.nodes);
    const renewals = await renewAll(cluster.nodes);
    const [written, called] = [await writer.stop(), await load.stop()];
    expect(written).toMatchObject({ lost: [], failed: [] });
    expect(written.acknowledged).toBeGreaterThan(20);
    expect(called.failed).toEqual([]);
    for (const node of cluster.nodes) {
      expect(await daysLeft(node), node.name).toBeGreaterThan(300);
      await proveHealthy(cluster, node);
    }
    // Once each; what reads its files again without a restart not at all, and the kubelet rotates its own.
    for (const { node, restarted } of renewals)
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

/** What kubeadm made almost ten years ago, and all machines have alike. */
const aged = (until: Date): { readonly notBefore: Date; readonly notAfter: Date } => ({
  notBefore: new Date(until.getTime() - 3650 * day),
  notAfter: until,
});

/** The CAs of all nodes; throws unless they have the same bytes. */
async function sameAuthorities(): Promise<Generation> {
  const all = await Promise.all(cluster.nodes.map(generationOn));
  const [first] = all as [Generation, ...Generation[]];
  for (const each of all) expect(each.authorities).toEqual(first.authorities);
  return first;
}

async function agree(old: Generation, now: Generation): Promise<void> {
  for (const name of authorities.map(({ ca }) => ca))
    expect(now.authorities.get(name), name).not.toBe(old.authorities.get(name));
  expect(await refusals(now, now)).toEqual([]);
  expect(await refusals(old, now)).toEqual([]);
  expect(await refusals(now, old)).toEqual([]);
  for (const node of cluster.nodes) {
    const theirs = await node.sh('kubeadm certs check-expiration 2>/dev/null');
    expect(theirs).not.toContain('<invalid>');
    // Of the three CAs: one or two lives of ten years, less what is over of them.
    expect(theirs.match(/ca +\w+ \d+, .* (?:9|10)y +no/g), theirs).toHaveLength(3);
  }
}

/** Of CAs, in the order in which they are restarted; the others may end by themselves while the API server is away. */
const readers = ['kubelet', 'kube-apiserver', 'etcd'];

/** One node is off, and another renews: what it takes to keep a quorum and an API server goes on. */
async function staysWithoutQuorum(before: Readonly<Record<string, string>>): Promise<void> {
  const [first, , third] = cluster.nodes as [Node, Node, Node];
  await third.off();
  const { code, output } = await first.run(renewCommand, { seconds: 200 });
  expect(code, output).not.toBe(0);
  expect(output).toContain(
    'etcd is not restarted before the other members keep a quorum: of 3 members 2 others must be healthy, 1 are: ' +
      `member \\"${third.name}\\" is not healthy`,
  );
  expect(output).toContain('kube-apiserver is not restarted before etcd is');
  const now = await eventually(() => processesOn([first]), { everyMs: 500 });
  for (const name of ['etcd', 'kube-apiserver'])
    expect(now[`${first.name} ${name}`]).toBe(before[`${first.name} ${name}`]);
  const since = Date.now();
  await third.on();
  await cluster.ready(third, { since });
}

describe('three control planes whose CAs end in 100 days', () => {
  it('renew them one node after the other under load, behind a load balancer: nobody notices', async () => {
    // Switched off meanwhile: what runs afterwards has read them.
    await Promise.all(cluster.nodes.map((node) => node.off()));
    const dates = aged(new Date(Math.floor(Date.now() / 1000) * 1000 + 100 * day));
    for (const node of cluster.nodes) await reissue(node, authorities, dates);
    const old = await generationOn(cluster.node);
    await on(cluster.nodes);
    const before = await eventually(() => processesOn(cluster.nodes), { everyMs: 500 });
    await staysWithoutQuorum(before);
    const servers = cluster.nodes.map(({ address }) => `https://${address}:6443`);
    const load = await startLoad(cluster.node, '/etc/kubernetes/admin.conf', servers);
    const writer = startWriter(cluster, () => cluster.nodes);
    const quorum = await watchQuorum(cluster.nodes);
    const renewals = await renewAll(cluster.nodes).catch(String);
    const [written, called, asked] = [await writer.stop(), await load.stop(), await quorum.stop()];
    console.log(`away for a moment: ${called.retried.join('\n')}`);
    if (typeof renewals === 'string') throw new Error(renewals);
    expect(written).toMatchObject({ lost: [], failed: [] });
    expect(written.acknowledged).toBeGreaterThan(20);
    expect(called.failed).toEqual([]);
    expect(asked).toMatchObject({ lost: [], mostAway: 1 });
    expect(asked.looks).toBeGreaterThan(10);
    const after = await eventually(() => processesOn(cluster.nodes), { everyMs: 500 });
    for (const [name, process] of Object.entries(after)) expect(process, name).not.toBe(before[name]);
    const [first] = cluster.nodes;
    for (const { node, restarted } of renewals) {
      const wanted = node === first?.name ? readers.slice(1) : readers;
      expect(restarted.slice(0, wanted.length), node).toEqual(wanted);
    }
    await agree(old, await sameAuthorities());
    for (const node of cluster.nodes) await proveHealthy(cluster, node);
  }, 900_000);
});

describe('three control planes whose CAs have expired with everything else', () => {
  it('come back, the third long after the others, with the same CAs', async () => {
    await Promise.all(cluster.nodes.map((node) => node.off()));
    const now = Math.floor(Date.now() / 1000) * 1000;
    for (const node of cluster.nodes) {
      await reissue(node, authorities, aged(new Date(now - 3_600_000)));
      await reissue(node, leaves, past(new Date(now)));
    }
    const [first, second, third] = cluster.nodes as [Node, Node, Node];
    const old = await generationOn(first);
    await on([second, third]);
    await delay(20_000); // past the minute in which the others have made theirs
    const since = Date.now();
    await first.on();
    await cluster.ready(first, { since });
    await agree(old, await sameAuthorities());
    for (const node of cluster.nodes) await proveHealthy(cluster, node);
  }, 480_000);
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
