// Sources of `approver.addresses`, by their kind in the configuration; and those that need no watch: the configuration
// itself, a file, and the Nodes of the cluster. Each returns a SourceAnswer for a node; addresses.ts decides.
import { stat } from 'node:fs/promises';
import { type AddressSettings, checkNodeAddresses, type NodeAddresses, inRanges } from '../config/address-settings.ts';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { errorText, RecoveryError, systemCode } from '../errors.ts';
import { list } from '../kube/list.ts';
import type { NodeObject } from '../kube/received.ts';
import { collectionPath } from '../kube/resources.ts';
import { parseYaml, yamlText } from '../yaml.ts';
import {
  type AddressQuestion,
  type AddressSource,
  answerOf,
  canonicalAddresses,
  type SourceAnswer,
  type SourceOptions,
} from './addresses.ts';
import { Machines } from './machines.ts';
import { ServedNames } from './served-names.ts';

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

type Kind = AddressSettings['kind'];
type MakeSource<K extends Kind> = (
  name: string,
  settings: Extract<AddressSettings, { readonly kind: K }>,
  options: SourceOptions,
) => AddressSource;

const sources: { readonly [K in Kind]: MakeSource<K> } = {
  nodes: (name, { nodes }) => listedAddresses(name, () => Promise.resolve(nodes)),
  file: (name, { file }) => listedAddresses(name, addressFile(name, file)),
  machines: (name, settings, options) => new Machines(name, settings, options),
  served: (name, settings, options) => new ServedNames(name, settings, options),
  cidrs: (name, settings, options) => new NodeRanges(name, settings, options),
};

/** `name`: its place in the configuration, for messages. */
export const addressSource = (name: string, settings: AddressSettings, options: SourceOptions): AddressSource =>
  (sources[settings.kind] as MakeSource<Kind>)(name, settings, options);
