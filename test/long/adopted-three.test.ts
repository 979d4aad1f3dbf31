// Three adopted control planes, which share every certificate in the API: one after the other they are adopted while the
// API stays up; switched on in one order or another, or all at once, or without one of them, they come back with one
// new generation; a lease is left to a holder that lives.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { adopt, endLeaves, ends, offPast } from '../support/node/adopted.ts';
import { powerCycle } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { leaderLeases, leaders } from '../support/node/cut-off.ts';
import type { Node } from '../support/node/node.ts';
import { type Line, ownLog } from '../support/node/steps.ts';

const inMs = 20_000;

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.create(inject('workshop'));
  await cluster.join();
  await cluster.join();
  for (const node of cluster.nodes) await node.sh('touch /var/lib/machine/no-recovery');
});
afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

/** Names of the nodes whose API server answers now. */
async function answering(): Promise<readonly string[]> {
  const found = cluster.nodes.map(async (node) => {
    const { status } = await cluster.api('/readyz', { node }).catch(() => ({ status: 0 }));
    return status === 200 ? [node.name] : [];
  });
  return (await Promise.all(found)).flat();
}

/** All are off until all has expired. */
async function allOffPastExpiry(): Promise<void> {
  const end = await endLeaves(cluster, { inMs });
  await Promise.all(cluster.nodes.map((node) => offPast(node, end)));
}

/** `node1` is 1. */
function numbered(...numbers: readonly number[]): readonly [Node, ...Node[]] {
  return numbers.map((number) => cluster.nodes[number - 1]) as [Node, ...Node[]];
}

async function inTurn(nodes: readonly Node[], distanceMs = 2000): Promise<void> {
  const switched = nodes.map(async (node, at) => {
    await delay(at * distanceMs);
    await node.on();
  });
  await Promise.all(switched);
}

async function ready(nodes: readonly Node[], since: number): Promise<void> {
  const moments = nodes.map(async (node) => {
    const at = await cluster.ready(node, { since, withinMs: 180_000 });
    console.log(`${node.name} Ready after ${at - since} ms`);
  });
  await Promise.all(moments);
}

/** What all of them have written since then, with the node; in the order of nodes. */
async function logs(nodes: readonly Node[], since: number): Promise<readonly (Line & { readonly node: string })[]> {
  const all = nodes.map(async (node) => (await ownLog(node, since)).map((line) => ({ ...line, node: node.name })));
  return (await Promise.all(all)).flat();
}

/** Every shared leaf was made by one of them, once, and all have the same on disk. */
async function expectOneGeneration(nodes: readonly Node[], since: number): Promise<void> {
  const made = (await logs(nodes, since)).filter(({ event }) => event === 'target.regenerated');
  const names = made.map(({ artefact }) => artefact ?? '');
  expect(names.length).toBeGreaterThanOrEqual(7);
  expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
  const onDisk = nodes.map(async (node) => {
    const { kubelet: _own, ...shared } = Object.fromEntries(await ends(node));
    return shared;
  });
  const [first = {}, ...others] = await Promise.all(onDisk);
  expect(Object.keys(first).length).toBeGreaterThanOrEqual(7);
  for (const other of others) expect(other).toEqual(first);
}

/** A lease was released by the machine of its holder, or not at all. */
async function expectOwnLeasesOnly(nodes: readonly Node[], since: number): Promise<void> {
  const released = (await logs(nodes, since)).filter(({ event }) => event === 'lease.released');
  console.log(released.map(({ node, lease, message }) => `${node} released ${lease}: ${message}`).join('\n'));
  for (const { node, message } of released) expect(message).toMatch(new RegExp(`^holder was ${node}_[0-9a-f-]+$`));
}

describe('three control planes', () => {
  it('are adopted one after the other, and the API stays up', async () => {
    const gaps: string[] = [];
    for (const node of cluster.nodes) {
      const adopted = new AbortController();
      const adopting = adopt(node).finally(() => adopted.abort());
      while (!adopted.signal.aborted) {
        const others = (await answering()).filter((name) => name !== node.name);
        if (others.length === 0) gaps.push(`while ${node.name} was adopted`);
        await delay(250);
      }
      const told = await adopting;
      const created = told.match(/^Created/gm)?.length ?? 0;
      if (node === cluster.node) expect(created).toBeGreaterThan(20);
      else expect(created).toBe(0);
      await eventually(async () => expect(await answering()).toHaveLength(3), { everyMs: 250 });
    }
    expect(gaps).toEqual([]);
    for (const node of cluster.nodes) await cluster.runPod(node);
  });

  it.each([
    [3, 1, 2],
    [1, 2, 3],
    [2, 3, 1],
  ])('recover when node %i and then %i are switched on, and %i stays off', async (one, two, off) => {
    await allOffPastExpiry();
    const [late] = numbered(off);
    const since = Date.now();
    const present = numbered(one, two);
    await inTurn(present);
    await ready(present, since);
    await expectOneGeneration(present, since);
    await expectOwnLeasesOnly(present, since);
    for (const node of present) await cluster.runPod(node);

    const later = Date.now();
    await late.on();
    await ready([late], later);
    await cluster.runPod(late);
  });

  it('leave a lease to its holder on another node, which lives', async () => {
    const before = await leaders(cluster);
    const holds = (node: Node): boolean =>
      [...before.values()].some(({ holderIdentity }) => holderIdentity.startsWith(`${node.name}_`));
    // Two leases, three nodes. The first one has the address that kubeadm told the others.
    const free = cluster.nodes.findLast((node) => !holds(node)) as Node;
    const since = Date.now();
    await powerCycle(cluster, { node: free, withinMs: 180_000 });
    // A node is Ready before all of its pods have judged.
    const judgements = async (lease: string) =>
      (await ownLog(free, since))
        .filter((line) => line.lease === lease)
        .map(({ event, reason }) => ({ event, reason }));
    for (const lease of leaderLeases) {
      await eventually(async () => expect(await judgements(lease), lease).not.toEqual([]));
      expect(await judgements(lease), lease).toEqual([{ event: 'lease.skipped', reason: 'OtherHolder' }]);
    }
    const after = await leaders(cluster, free);
    for (const lease of leaderLeases) {
      const [was, is] = [before.get(lease), after.get(lease)];
      expect(is?.holderIdentity, lease).toBe(was?.holderIdentity);
      expect(is?.leaseTransitions, lease).toBe(was?.leaseTransitions);
    }
  });

  const orders = [
    [1, 2, 3],
    [1, 3, 2],
    [2, 1, 3],
    [2, 3, 1],
    [3, 1, 2],
    [3, 2, 1],
  ] as const;

  it.each([['at once', 0, orders[0]] as const, ...orders.map((order) => ['in turn', 2000, order] as const)])(
    'recover when all are switched on %s (%i ms, %j), with one new generation',
    async (_, distanceMs, order) => {
      await allOffPastExpiry();
      const since = Date.now();
      await inTurn(numbered(...order), distanceMs);
      await ready(cluster.nodes, since);
      await expectOneGeneration(cluster.nodes, since);
      await expectOwnLeasesOnly(cluster.nodes, since);
      for (const node of cluster.nodes) await cluster.runPod(node);
    },
  );
});
