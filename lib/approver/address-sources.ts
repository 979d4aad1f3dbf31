// Sources of `approver.addresses` that need no watch: the configuration itself, a file, and the Nodes of the cluster.
// Each source returns a SourceAnswer for a node; addresses.ts decides.
import { stat } from 'node:fs/promises';
import { bounds } from '../bounds.ts';
import { type AddressSettings, checkNodeAddresses, type NodeAddresses, inRanges } from '../config/address-settings.ts';
import { bareHost } from '../address.ts';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { errorText, RecoveryError, systemCode } from '../errors.ts';
import { checkedHostname } from '../inventory/values.ts';
import { list } from '../kube/list.ts';
import type { WatchStatus } from '../kube/list-watch.ts';
import type { NodeObject } from '../kube/received.ts';
import { collectionPath } from '../kube/resources.ts';
import { parseYaml, yamlText } from '../yaml.ts';
import type { SourceAnswer } from './addresses.ts';
import type { AskedName } from './serving-request.ts';
import type { ApproverOptions } from './settings.ts';

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

/** Names and addresses by node that the administrator has listed. */
export const listedAddresses = (source: string, read: () => Promise<NodeAddresses>): AddressSource => ({
  answer: async (question) => ({ ...answerOf(question, source, await read()), namesNode: true, isListed: true }),
});

/** Reads a file again whenever it changes: a mounted ConfigMap, or the output of a script. */
export function addressFile(source: string, path: string): () => Promise<NodeAddresses> {
  const what = `"${path}" of ${source}`;
  let last: { readonly version: string; readonly nodes: NodeAddresses } | undefined;
  return async () => {
    try {
      const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
      const version = [dev, ino, size, mtimeNs, ctimeNs].join(' ');
      if (last?.version === version) return last.nodes;
      const checked = checkNodeAddresses(parseYaml(yamlText(await readRegularFile(realDisk, path)), 'ours'));
      if ('problems' in checked) {
        const [first] = checked.problems;
        throw new RecoveryError('MaterialInvalid', `${first?.path ?? ''} ${first?.message ?? ''}`.trim());
      }
      last = { version, nodes: checked.value };
      return checked.value;
    } catch (err) {
      const code = systemCode(err);
      if (code !== undefined) throw new RecoveryError('ReadFailed', `Cannot read ${what}: ${code}`, { cause: err });
      const message = `Cannot use ${what}: ${errorText(err)}; wanted names and addresses by node`;
      throw new RecoveryError('MaterialInvalid', message);
    }
  };
}

/** A Node may be 20 kB of JSON: images, labels, conditions. */
const pageSize = 100;

/**
 * The weakest source: a kubelet writes the addresses of its own Node. An address in the ranges is believed while no
 * other Node has it, so that no node gets a certificate for the address of an existing node.
 */
export class NodeRanges implements AddressSource {
  readonly #source: string;
  readonly #cidrs: readonly string[];
  readonly #options: SourceOptions;
  /** Addresses by node, listed once a pass. */
  #nodes: Promise<NodeAddresses> | undefined;

  constructor(source: string, { cidrs }: Extract<AddressSettings, { kind: 'cidrs' }>, options: SourceOptions) {
    this.#source = source;
    this.#cidrs = cidrs;
    this.#options = options;
  }

  begin(): void {
    this.#nodes = undefined;
  }

  async answer(question: AddressQuestion): Promise<SourceAnswer> {
    this.#nodes ??= this.#list();
    const { own = [], others, source } = answerOf(question, this.#source, await this.#nodes);
    const isInRanges = inRanges(this.#cidrs);
    const free = own.filter((address) => isInRanges(address) && !others?.has(address));
    return {
      source,
      own: free.length === 0 ? undefined : free,
      ...(others && { others }),
      isWeak: true,
      namesNode: true,
    };
  }

  async #list(): Promise<NodeAddresses> {
    const { connection, signal } = this.#options;
    const keep = ({ metadata, status }: NodeObject) =>
      [metadata?.name ?? '', canonicalAddresses(status?.addresses)] as const;
    const path = collectionPath('Node');
    const { objects } = await list<NodeObject, ReturnType<typeof keep>>({
      connection,
      path,
      pages: { size: pageSize, keep },
      signal,
    });
    return Object.fromEntries(objects);
  }
}
