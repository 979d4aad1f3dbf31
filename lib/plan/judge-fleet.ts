// Which nodes of a cluster lack a CA: what each node says of its own files, its Lease, and the CAs that these are to hold,
// in; the state of each node out. Of what a node says only times and names of CAs that are known get further. Pure.
import type { ReportedBundles } from '../kube/reported-bundles.ts';

/** `off`: it renews no Lease. It reads its files when it starts. */
export type NodeState = 'current' | 'behind' | 'not loaded' | 'no report' | 'off';

/** A CA that nodes are to hold. */
export interface WantedCa {
  /** Beginning of its fingerprint. */
  readonly print: string;
  readonly name: string;
  readonly expirationDate: Date;
}

export interface WantedBundle {
  readonly cas: readonly WantedCa[];
  /** Objects that it follows. A machine lacks some of their files, never all. */
  readonly of: string;
}

/** By name of the artefact. */
export type WantedBundles = ReadonlyMap<string, WantedBundle>;

interface HeldBundle {
  /** Of the artefact; where the node has no file of its kind, of the objects that this would follow. */
  readonly name: string;
  readonly since?: Date;
  readonly loaded: boolean;
  readonly missing: readonly WantedCa[];
}

export interface SeenNode {
  readonly name: string;
  /** Undefined: it has not reported. */
  readonly bundles: readonly HeldBundle[] | undefined;
}

/** Compares the report of a node; a bundle that it names and nobody wants counts for nothing. */
export function seenNode(node: string, reported: ReportedBundles | undefined, wanted: WantedBundles): SeenNode {
  if (reported === undefined) return { name: node, bundles: undefined };
  const lacking = new Map([...wanted.values()].map(({ of, cas }) => [of, cas]));
  const held = [...wanted].flatMap(([name, { of, cas }]): readonly HeldBundle[] => {
    const found = reported.get(name);
    if (found === undefined) return [];
    lacking.delete(of);
    const { since, loaded } = found;
    return [{ name, since, loaded, missing: cas.filter(({ print }) => !found.cas.includes(print)) }];
  });
  return {
    name: node,
    bundles: [...held, ...[...lacking].map(([name, missing]) => ({ name, loaded: true, missing }))],
  };
}

export interface FleetNode extends SeenNode {
  readonly state: NodeState;
  /** Whether it is not known to trust every wanted CA, now or once it is switched on. */
  readonly lags: boolean;
}

/** Reports of nodes about new CAs. */
export type Fleet =
  /** They can be asked, and were not yet. */
  | { readonly state: 'unasked' }
  /** None says anything, or nobody may ask them. */
  | { readonly state: 'none'; readonly why: string }
  /** They could not be asked now. */
  | { readonly state: 'unread'; readonly why: string }
  /** Nodes by CA (`print`). */
  | { readonly state: 'known'; readonly nodes: ReadonlyMap<string, readonly FleetNode[]> };

/** A CA that is to sign, of a signer that waits for nodes. */
export interface NewCa {
  readonly signer: string;
  readonly ca: WantedCa;
}

/** A kubelet renews its Lease every 10 s; clocks of machines differ by minutes. */
const offMs = 5 * 60_000;

/** `renewals`: last renewals of Leases, by node. In the order of names, nodes that lag last. */
export function judgeFleet(
  nodes: readonly SeenNode[],
  renewals: ReadonlyMap<string, Date>,
  now: Date,
): readonly FleetNode[] {
  const judged = nodes.map((seen): FleetNode => {
    const renewed = renewals.get(seen.name);
    const isOn = renewed !== undefined && now.getTime() - renewed.getTime() <= offMs;
    const state = stateOf(seen);
    const lags = state !== 'current' && (isOn || state !== 'not loaded');
    return { ...seen, state: isOn ? state : 'off', lags };
  });
  return judged.toSorted((one, other) => Number(one.lags) - Number(other.lags) || (one.name < other.name ? -1 : 1));
}

function stateOf({ bundles }: SeenNode): Exclude<NodeState, 'off'> {
  if (bundles === undefined) return 'no report';
  if (bundles.some(({ missing }) => missing.length > 0)) return 'behind';
  return bundles.every(({ loaded }) => loaded) ? 'current' : 'not loaded';
}
