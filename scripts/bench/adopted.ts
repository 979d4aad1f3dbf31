// The recovery of an adopted machine: a real node in a container, our containers in its static pods, every leaf expired
// while it was off; and the boot of the same node when nothing has expired, in turn. Moments inside our containers are
// those of their log lines, serving is seen from outside.
import { adopt, endLeaves, ends, leavesOfPods, offPast } from '../../test/support/node/adopted.ts';
import { measureBoot, powerCycle, type Boot } from '../../test/support/node/boot.ts';
import { Cluster } from '../../test/support/node/cluster.ts';
import { Handshakes, ownLog } from '../../test/support/node/steps.ts';
import { openWorkshop } from '../../test/support/node/workshop.ts';
import { writes } from './probes.ts';
import type { Measured } from './table.ts';

/** From the last write of what will have expired to its end. */
const inMs = 12_000;
const served = ['kubernetes', 'localhost'];

interface Recovery {
  /** Milliseconds after the API's first answer to the identity of regen. */
  readonly valid: number;
  readonly onDisk: number;
  readonly served: number;
  readonly boot: Boot;
}

/** l */
export async function adoptedRecoveries(count: number, say: (text: string) => void): Promise<Measured[]> {
  await using open = await openWorkshop();
  await using cluster = await Cluster.create(open.workshop);
  const { node } = cluster;
  await node.sh('touch /var/lib/machine/no-recovery');
  await adopt(node);
  await cluster.ready(node);
  // The first boot of a node is not like the others.
  await powerCycle(cluster);
  const healthy: Boot[] = [];
  const expired: Recovery[] = [];
  for (let n = 0; n < count; n += 1) {
    healthy.push(await powerCycle(cluster));
    const recovery = await recoverOnce(cluster);
    expired.push(recovery);
    const { valid, onDisk, served: inUse, boot } = recovery;
    say(`${n + 1}: valid ${valid}, on disk ${onDisk}, served ${inUse}; Ready ${boot.runtimeToReady}`);
  }
  const row = (what: string, values: number[], goal?: string): Measured => ({
    what: `adopted machine: ${what}`,
    unit: 'ms',
    values,
    ...(goal !== undefined && { goal }),
  });
  const readyWithin = healthy.map(({ runtimeToReady }) => runtimeToReady);
  return [
    row(
      'first 200 to last of all API writes',
      expired.map(({ valid }) => valid),
    ),
    row(
      'first 200 to everything valid and on disk, in all pods',
      expired.map(({ onDisk }) => onDisk),
    ),
    row(
      'first 200 to everything valid, on disk and served',
      expired.map((one) => one.served),
      'p95 <= 2000',
    ),
    row('boot, container runtime up to node Ready, healthy', readyWithin),
    row(
      'boot, container runtime up to node Ready, all leaves expired',
      expired.map(({ boot }) => boot.runtimeToReady),
      '<= 10000',
    ),
  ];
}

async function recoverOnce(cluster: Cluster): Promise<Recovery> {
  const { node } = cluster;
  await offPast(node, await endLeaves(cluster, { inMs }));
  const since = Date.now();
  const handshakes = served.map((servername) => new Handshakes(node, servername));
  await node.on();
  const boot = await measureBoot(cluster, node, { since, withinMs: 120_000 });
  await Promise.all(handshakes.map((one) => one.stop()));
  const log = await ownLog(node, since);
  const answered = log.find(({ event, pod }) => event === 'api.answered' && pod === 'kube-apiserver')?.at ?? Number.NaN;
  const last = (events: ReadonlySet<string | undefined>): number =>
    Math.max(...log.filter(({ event }) => events.has(event)).map(({ at }) => at));
  const [valid, onDisk] = [last(writes), last(new Set(['sync.written']))];
  const inUse = Math.max(onDisk, ...handshakes.map((one) => one.valid ?? Number.NaN));
  const found = await ends(node);
  const missing = leavesOfPods.filter((name) => !((found.get(name)?.getTime() ?? 0) > Date.now()));
  if (missing.length > 0 || !Number.isFinite(inUse + valid + answered))
    throw new Error(`No whole recovery of ${node.name}: ${missing.join(', ')} ${answered} ${valid} ${inUse}`);
  return { valid: valid - answered, onDisk: onDisk - answered, served: inUse - answered, boot };
}
