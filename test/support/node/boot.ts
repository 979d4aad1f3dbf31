// One power cycle: what happened while the machine was off, how long it took to come back, and whether it came back whole.
import type { Cluster } from './cluster.ts';
import { type Leaf, leafProblems, leaves } from './leaves.ts';
import type { Node } from './node.ts';

export interface Boot {
  /** Milliseconds from the moment when the container runtime answered to the first report of the node as Ready. */
  readonly runtimeToReady: number;
  /** Of that report, in milliseconds since the epoch. */
  readonly ready: number;
  /** The moments of the machine's script, in milliseconds after its start; not known with systemd. */
  readonly timeline: string;
}

export interface PowerCycle {
  readonly node?: Node;
  readonly whileOff?: (node: Node) => Promise<void>;
  readonly withinMs?: number;
}

/** Off, whatever a test has to do there, on; resolves when the node is Ready. */
export async function powerCycle(
  cluster: Cluster,
  { node = cluster.node, whileOff, withinMs }: PowerCycle = {},
): Promise<Boot> {
  await node.off();
  await whileOff?.(node);
  const since = Date.now();
  await node.on();
  return measureBoot(cluster, node, { since, ...(withinMs !== undefined && { withinMs }) });
}

/** Waits for a boot that has begun. Machine and test share one clock. */
export async function measureBoot(
  cluster: Cluster,
  node: Node,
  options: { readonly since: number; readonly withinMs?: number },
): Promise<Boot> {
  const ready = await cluster.ready(node, options);
  const { start, ...moments } = await node.bootTimes();
  const timeline = Object.entries({ ...moments, ready })
    .filter((entry): entry is [string, number] => entry[1] !== undefined)
    .toSorted(([, a], [, b]) => a - b)
    .map(([what, at]) => `${what} ${at - start}`);
  return { runtimeToReady: ready - moments.runtime, ready, timeline: timeline.join(', ') };
}

/** Throws unless every leaf of the node is sound, its API server answers, and a new Pod runs on it. */
export async function proveHealthy(
  cluster: Cluster,
  node = cluster.node,
  which: readonly Leaf[] = leaves,
): Promise<void> {
  const problems = await leafProblems(node, which);
  if (problems.length > 0) throw new Error(`${node.name} has come back with bad leaves:\n${problems.join('\n')}`);
  await cluster.runPod(node);
}
