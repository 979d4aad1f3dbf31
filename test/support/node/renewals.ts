// What a timer does on each node of a cluster that renews ahead of time, and what it changes there.
import { setTimeout as delay } from 'node:timers/promises';
import { programPath } from './container.ts';
import type { Node } from './node.ts';

/** As systemd-timesyncd does it: by a clock that nothing confirms nothing valid is renewed, and silence is waited for. */
export const confirmClock = 'mkdir -p /run/systemd/timesync && touch /run/systemd/timesync/synchronized';
export const renewCommand = `${confirmClock}; ${programPath} --mode=regen --once --restart --preset=kubeadm --renew-before=30d 2>&1`;

/** While a node holds the Lease. */
export interface Renewal {
  readonly node: string;
  readonly from: string;
  readonly until: string;
  /** What was restarted, once for each time. */
  readonly restarted: readonly string[];
  /** All that was said, without times, and each line once. */
  readonly told: ReadonlySet<string>;
}

interface Line {
  readonly event: string;
  readonly time: string;
  readonly component?: string;
}

/** A run each time, until one has given the Lease back. */
export async function renewOn(node: Node): Promise<Renewal> {
  let from: string | undefined;
  const restarted: string[] = [];
  const told = new Map<string, string>();
  // What was not proven at once is asked for again at growing distances.
  for (const began = Date.now(); Date.now() - began < 700_000;) {
    const { output } = await node.run(renewCommand, { seconds: 200 });
    const texts = output.split('\n');
    const now = new Date().toISOString().slice(11, 19);
    for (const line of texts) {
      const said = line.replace(/"time":"[^"]*",/, '');
      told.set(said, `${told.get(said)?.slice(0, 8) ?? now} to ${now}`);
    }
    const lines = texts.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Line);
    restarted.push(...lines.flatMap(({ event, component }) => (event === 'restart.done' ? [component ?? ''] : [])));
    const at = (event: string): string | undefined => lines.find((line) => line.event === event)?.time;
    // One that holds the Lease already goes on with the restarts.
    from ??= at('renewal.started') ?? at('restart.done');
    const until = at('renewal.finished');
    if (from !== undefined && until !== undefined)
      return { node: node.name, from, until, restarted, told: new Set(told.keys()) };
    await delay(500);
  }
  const lines = [...told].map(([line, when]) => `${when} ${line}`);
  throw new Error(`${node.name} has not renewed:\n${lines.join('\n')}`);
}

/** On all nodes at once; in the order in which they have held the Lease. Throws unless one began after the other's end. */
export async function renewAll(nodes: readonly Node[]): Promise<readonly Renewal[]> {
  const renewals = await Promise.allSettled(nodes.map(renewOn));
  const failures = renewals.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []));
  const done = renewals.flatMap((one) => (one.status === 'fulfilled' ? [JSON.stringify(one.value)] : []));
  if (failures.length > 0) throw new Error([...failures, ...done].join('\n'));
  const order = renewals
    .flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    .toSorted((one, other) => one.from.localeCompare(other.from));
  // The Lease is given back a moment before that is told; two at once would be for many seconds.
  for (const [at, { from }] of order.entries())
    if (Date.parse(from) < Date.parse(order[at - 1]?.until ?? from) - 1000)
      throw new Error(`Two nodes at once: ${JSON.stringify(order)}`);
  return order;
}

/** By name; comm is cut at 15 characters. What the API says of containers comes later than that. */
const processes = ['etcd', 'kube-apiserver', 'kube-controller', 'kube-scheduler', 'kubelet'] as const;

/** Of each node the process of each; throws while one does not run. */
export async function processesOn(nodes: readonly Node[]): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const node of nodes)
    for (const name of processes) found[`${node.name} ${name}`] = (await node.sh(`pgrep -x ${name}`)).trim();
  return found;
}
