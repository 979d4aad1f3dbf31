// Whether the names that a node requests are its own, according to the sources of `approver.addresses`. Pure. No name
// is ever resolved by DNS, and a node's own word about itself is no evidence.
import { bareHost } from '../address.ts';
import { bounds } from '../bounds.ts';
import type { NodeAddresses } from '../config/address-settings.ts';
import { checkedHostname } from '../inventory/values.ts';
import type { WatchStatus } from '../kube/list-watch.ts';
import type { NodeObject } from '../kube/received.ts';
import { type ClusterNames, clusterNamesIn } from './cluster-names.ts';
import type { AskedName } from './serving-request.ts';
import type { ApproverOptions } from './settings.ts';

/** Answer of one source about a requesting node. */
export interface SourceAnswer {
  /** Name in messages: `approver.addresses[0] (nodes)`. */
  readonly source: string;
  /** Canonical names and addresses of the node; undefined: the source does not know it. */
  readonly own: readonly string[] | undefined;
  /** Requested names that belong to another node, each with that node. */
  readonly others?: ReadonlyMap<string, string>;
  /**
   * The source repeats claims of nodes: a node must not be able to take an address from another node by claiming it.
   */
  readonly isWeak?: true;
  /**
   * The source lists nodes by their own names, so it vouches for the node's name. Other sources vouch for that name
   * only where they list it.
   */
  readonly namesNode?: true;
  /** The administrator has listed the node there by hand. */
  readonly isListed?: true;
  /** Why the source cannot determine which machine the node is. */
  readonly ambiguity?: string | undefined;
}

export interface AddressQuestion {
  readonly node: string;
  readonly object: NodeObject;
  readonly asked: readonly AskedName[];
}

export interface Following {
  /** Called when requests that were left may be judged differently now. */
  readonly changed: () => void;
  readonly onStatus: (what: string, status: WatchStatus) => void;
}

export interface AddressSource {
  /** Slow, and the node decides how slow: queried only where the other sources are not enough. */
  readonly isCostly?: true;
  /** Called when a pass of the queue begins: drops the data read for the last pass. */
  begin?(): void;
  /** Throws when it cannot answer: then the owner of a name is unknown. */
  answer(question: AddressQuestion): Promise<SourceAnswer>;
  /** Runs until the process stops. */
  follow?(following: Following): Promise<void>;
}

export type SourceOptions = Pick<ApproverOptions, 'connection' | 'clock' | 'log' | 'signal' | 'connect'>;

/** Each name and address that can be compared, once; all other entries of the list are left out. */
export function canonicalAddresses(addresses: unknown): string[] {
  if (!Array.isArray(addresses)) return [];
  const found = addresses.slice(0, bounds.addresses.most.addresses).flatMap((one: unknown) => {
    const address = typeof one === 'object' && one !== null ? (one as { address?: unknown }).address : undefined;
    return typeof address === 'string' ? (checkedHostname(bareHost({ hostname: address })) ?? []) : [];
  });
  return [...new Set(found)];
}

/** Answer of a source that lists addresses by node. `whose` has canonical names. */
export function answerOf(
  { node, asked }: Pick<AddressQuestion, 'node' | 'asked'>,
  source: string,
  whose: NodeAddresses,
): SourceAnswer {
  const wanted = new Set(asked.map(({ value }) => value));
  const others = new Map(
    Object.entries(whose).flatMap(([other, addresses]) =>
      other === node ? [] : addresses.flatMap((value) => (wanted.has(value) ? [[value, other] as const] : [])),
    ),
  );
  return { source, own: Object.hasOwn(whose, node) ? whose[node] : undefined, others };
}

export type AddressReason =
  'AddressNotOfNode' | 'AddressOfOtherNode' | 'NameOfCluster' | 'NodeAmbiguous' | 'NodeNotInSources';

export type AddressVerdict =
  | { readonly action: 'approve'; readonly message: string }
  | {
      readonly action: 'leave';
      readonly reason: AddressReason;
      readonly message: string;
      /** Only nodes claim it for themselves: a source that vouches for the node outweighs them. */
      readonly isClaimed?: boolean;
    };

interface Asking {
  readonly node: string;
  /** An API server runs on the node. */
  readonly isControlPlane?: boolean;
  readonly asked: readonly AskedName[];
  readonly cluster: ClusterNames;
  readonly answers: readonly SourceAnswer[];
}

const left = (reason: AddressReason, message: string) => ({ action: 'leave', reason, message }) as const;

/** Every name must belong to the node by one source, to another node by no source, and never to the cluster. */
export function judgeAddresses({ node, isControlPlane = false, asked, cluster, answers }: Asking): AddressVerdict {
  const listed = answers.filter(({ isListed, own }) => isListed === true && own !== undefined);
  const listedNames = new Set(listed.flatMap(({ own = [] }) => [node, ...own]));
  const ofCluster = clusterNamesIn({ node, asked, isControlPlane, listed: listedNames, cluster });
  if (ofCluster.length > 0) return left('NameOfCluster', `${ofCluster.join('; ')}: no node is given it`);
  const [ambiguity] = answers.flatMap((answer) => answer.ambiguity ?? []);
  if (ambiguity !== undefined) return left('NodeAmbiguous', ambiguity);
  const vouching = answers.filter(({ own }) => own !== undefined);
  const vouchesFor = ({ own = [], namesNode }: SourceAnswer, { kind, value }: AskedName): boolean =>
    own.includes(value) || (namesNode === true && kind === 'DNS' && value === node);
  const uncoveredBy = (sources: readonly SourceAnswer[]): readonly AskedName[] =>
    asked.filter((one) => !sources.some((answer) => vouchesFor(answer, one)));
  const uncovered = uncoveredBy(vouching);
  const isClaim = ({ isWeak }: SourceAnswer): boolean => isWeak === true;
  // A node vouches for its own name no more than another one that claims it.
  const claimable = uncoveredBy(vouching.filter((one) => !isClaim(one)));
  const takenFrom = (sources: readonly SourceAnswer[], names: readonly AskedName[]): readonly string[] =>
    sources.flatMap(({ source, others }) =>
      names.flatMap(({ value }) => {
        const other = others?.get(value);
        return other === undefined || other === node ? [] : [`"${value}" belongs to node "${other}" (${source})`];
      }),
    );
  const taken = takenFrom(
    answers.filter((one) => !isClaim(one)),
    asked,
  );
  if (taken.length > 0) return left('AddressOfOtherNode', taken.join('; '));
  const claimed = takenFrom(answers.filter(isClaim), claimable);
  if (claimed.length > 0) return { ...left('AddressOfOtherNode', claimed.join('; ')), isClaimed: true };
  const sources = answers.map(({ source }) => source).join(', ');
  if (vouching.length === 0) {
    return left('NodeNotInSources', `no source knows node "${node}": asked were ${sources}`);
  }
  if (uncovered.length > 0) {
    const names = uncovered.map(({ kind, value }) => `${kind}:${value}`).join(', ');
    const known = vouching.map(({ source, own = [] }) => `${own.join(', ') || 'nothing'} (${source})`).join('; ');
    return left('AddressNotOfNode', `${names}: no source says that it is of node "${node}", which has ${known}`);
  }
  const used = vouching.filter((answer) => asked.some((one) => vouchesFor(answer, one)));
  const names = asked.map(({ value }) => value).join(', ');
  return {
    action: 'approve',
    message: `the node asks for itself, and ${names} is its own by ${used.map(({ source }) => source).join(', ')}`,
  };
}

/** Whether a further source that vouches for the node could turn the verdict into an approval. */
export const canBeCovered = (verdict: AddressVerdict): boolean =>
  verdict.action === 'leave' &&
  (verdict.reason === 'AddressNotOfNode' || verdict.reason === 'NodeNotInSources' || verdict.isClaimed === true);
