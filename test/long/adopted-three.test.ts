// Three adopted control planes, which share every certificate in the API: one after the other they are adopted while the
// API stays up, and two of them, switched on in any order, are enough for all.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { adopt, endSoon, ends } from '../support/node/adopted.ts';
import { Cluster } from '../support/node/cluster.ts';
import { kubeletClient, past, reissue } from '../support/node/leaves.ts';
import type { Node } from '../support/node/node.ts';
import { ownLog } from '../support/node/steps.ts';

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
      await eventually(async () => expect(await answering()).toHaveLength(3), { withinMs: 60_000, everyMs: 250 });
    }
    expect(gaps).toEqual([]);
    for (const node of cluster.nodes) await cluster.runPod(node);
  });

  it('recover when two of them are switched on, with one new generation of everything they share', async () => {
    const end = Date.now() + inMs;
    const lasting = 'localhost-recovery-serving';
    await endSoon(cluster, { inMs, except: ({ name, kind }) => name === lasting || kind !== 'target' });
    for (const node of cluster.nodes) {
      await eventually(
        async () => {
          const found = await ends(node);
          expect(found.get('kube-scheduler-client')?.getTime()).toBeLessThan(end + 2000);
        },
        { withinMs: 10_000, everyMs: 300 },
      );
    }
    const [first, second, third] = cluster.nodes as [Node, Node, Node];
    await Promise.all(cluster.nodes.map((node) => node.off()));
    for (const node of cluster.nodes) await reissue(node, [kubeletClient], past(new Date()));
    await delay(end + 3000 - Date.now());
    const since = Date.now();
    await third.on();
    await delay(2000);
    await first.on();
    for (const node of [third, first]) {
      const ready = await cluster.ready(node, { since, withinMs: 180_000 });
      console.log(`${node.name} Ready after ${ready - since} ms`);
    }
    const logs = (await Promise.all([third, first].map(async (node) => ownLog(node, since)))).flat();
    const made = logs.filter(({ event }) => event === 'target.regenerated').map(({ artefact }) => artefact ?? '');
    expect(made.length).toBeGreaterThanOrEqual(7);
    expect(made.toSorted()).toEqual([...new Set(made)].toSorted());
    for (const node of [third, first]) await cluster.runPod(node);

    await second.on();
    await cluster.ready(second, { since: Date.now(), withinMs: 180_000 });
    await cluster.runPod(second);
  });
});
