// Whether the names that a node asks for are its own, by what the sources of `approver.addresses` say. Pure. No name is
// ever looked up in DNS, and what only the node says of itself is no answer.
import { type ClusterNames, clusterNamesIn } from './cluster-names.ts';
import type { AskedName } from './serving-request.ts';

/** What one source says when a node asks. */
export interface SourceAnswer {
  /** For messages: `approver.addresses[0] (nodes)`. */
  readonly source: string;
  /** Canonical names and addresses of the node; undefined: the source does not know it. */
  readonly own: readonly string[] | undefined;
  /** Of the names that are asked for, those that belong to another node, and to which. */
  readonly others?: ReadonlyMap<string, string>;
  /** What nodes say of themselves: a node must not be able to take an address from another by claiming it. */
  readonly isWeak?: true;
  /** It names nodes by their own names, so it vouches for that name. Others vouch for it where they list it. */
  readonly namesNode?: true;
  /** The administrator has listed the node there by hand. */
  readonly isListed?: true;
  /** It cannot tell which machine the node is. */
  readonly ambiguity?: string | undefined;
}

export type AddressReason =
  'AddressNotOfNode' | 'AddressOfOtherNode' | 'NameOfCluster' | 'NodeAmbiguous' | 'NodeNotInSources';

export type AddressVerdict =
  | { readonly action: 'approve'; readonly message: string }
  | { readonly action: 'leave'; readonly reason: AddressReason; readonly message: string };

interface Asking {
  readonly node: string;
  /** An API server runs there. */
  readonly isControlPlane?: boolean;
  readonly asked: readonly AskedName[];
  readonly cluster: ClusterNames;
  readonly answers: readonly SourceAnswer[];
}

const left = (reason: AddressReason, message: string): AddressVerdict => ({ action: 'leave', reason, message });

/** Every name must be the node's by one of the sources, another node's by none, and never one of the cluster. */
export function judgeAddresses({ node, isControlPlane = false, asked, cluster, answers }: Asking): AddressVerdict {
  const listed = answers.filter(({ isListed, own }) => isListed === true && own !== undefined);
  const listedNames = new Set(listed.flatMap(({ own = [] }) => [node, ...own]));
  const ofCluster = clusterNamesIn({ asked, isControlPlane, listed: listedNames, cluster });
  if (ofCluster.length > 0) return left('NameOfCluster', `${ofCluster.join('; ')}: no node is given it`);
  const [ambiguity] = answers.flatMap((answer) => answer.ambiguity ?? []);
  if (ambiguity !== undefined) return left('NodeAmbiguous', ambiguity);
  const vouching = answers.filter(({ own }) => own !== undefined);
  const vouchesFor = ({ own = [], namesNode }: SourceAnswer, { kind, value }: AskedName): boolean =>
    own.includes(value) || (namesNode === true && kind === 'DNS' && value === node);
  const uncovered = asked.filter((one) => !vouching.some((answer) => vouchesFor(answer, one)));
  const taken = answers.flatMap(({ source, others, isWeak }) =>
    (isWeak === true ? uncovered : asked).flatMap(({ value }) => {
      const other = others?.get(value);
      return other === undefined || other === node ? [] : [`"${value}" belongs to node "${other}" (${source})`];
    }),
  );
  if (taken.length > 0) return left('AddressOfOtherNode', taken.join('; '));
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

/** Whether a further source that vouches for the node could make it an approval. */
export const canBeCovered = (verdict: AddressVerdict): boolean =>
  verdict.action === 'leave' && (verdict.reason === 'AddressNotOfNode' || verdict.reason === 'NodeNotInSources');
