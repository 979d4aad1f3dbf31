// A client behind a load balancer that makes one object after the other, and remembers each that was acknowledged: none of
// them may be lost. A server that takes no connection is passed over, as a load balancer does; a write that fails is made
// once more, elsewhere, since etcd drops one that was on its way to a leader that ends; what fails twice is a fault.
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../eventually.ts';
import type { Cluster } from './cluster.ts';
import type { Node } from './node.ts';

export interface Writer {
  /** Ends it. The answer: how many writes were acknowledged, which of these are gone, and what failed twice. */
  stop(): Promise<{
    readonly acknowledged: number;
    readonly lost: readonly string[];
    readonly failed: readonly string[];
  }>;
}

const path = '/api/v1/namespaces/default/configmaps';

/** `nodes`: those whose API servers may be asked now. */
export function startWriter(cluster: Cluster, nodes: () => readonly Node[]): Writer {
  const run = randomBytes(3).toString('hex');
  const acknowledged: string[] = [];
  const failed: string[] = [];
  const stopping = new AbortController();
  const writeThrough = async (name: string, node: Node): Promise<string | undefined> => {
    const body = { metadata: { name, labels: { run } } };
    // A busy machine answers late: that is no failure.
    const answer = await cluster.api(path, { node, method: 'POST', body, timeoutMs: 60_000 }).catch(String);
    if (typeof answer === 'string') return `${node.name}: ${answer}`;
    // Of a first attempt whose answer was lost.
    return [201, 409].includes(answer.status) ? undefined : `${node.name}: ${JSON.stringify(answer)}`;
  };
  /** The first server of `there` that takes the connection answers; the problem, unless it is written. */
  const write = async (name: string, there: readonly Node[]): Promise<string | undefined> => {
    const refused: string[] = [];
    for (const node of there) {
      const problem = await writeThrough(name, node);
      if (problem === undefined) return undefined;
      if (!problem.includes('ECONNREFUSED')) return [...refused, problem].join(', ');
      refused.push(problem);
    }
    return refused.join(', ');
  };
  const running = (async () => {
    for (let number = 0; !stopping.signal.aborted; number += 1) {
      const name = `write-${run}-${number}`;
      const problems: string[] = [];
      for (const attempt of [0, 1]) {
        if (attempt === 1) await delay(2000); // an election of etcd's is one for every API server
        const there = nodes();
        const first = (number + attempt) % there.length;
        const problem = await write(name, [...there.slice(first), ...there.slice(0, first)]);
        if (problem === undefined) break;
        problems.push(problem);
      }
      if (problems.length < 2) acknowledged.push(name);
      else failed.push(`${name}: ${problems.join('; ')}`);
      await delay(50);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await running;
      const kept = await eventually(async () => {
        const { body } = await cluster.api(`${path}?labelSelector=run%3D${run}`, { node: nodes()[0] ?? cluster.node });
        return new Set((body as { items: { metadata: { name: string } }[] }).items.map((one) => one.metadata.name));
      });
      return { acknowledged: acknowledged.length, lost: acknowledged.filter((name) => !kept.has(name)), failed };
    },
  };
}
