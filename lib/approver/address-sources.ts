// Sources of `approver.addresses`, by their kind in the configuration; and those that need no watch: the configuration
// itself, a file, and the Nodes of the cluster. Each returns a SourceAnswer for a node; addresses.ts decides.
import { stat } from 'node:fs/promises';
import { type AddressSettings, checkNodeAddresses, type NodeAddresses, inRanges } from '../config/address-settings.ts';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { RecoveryError, systemCode } from '../errors.ts';
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

class ListedAddresses implements AddressSource {
  readonly #source: string;
  readonly #nodes: NodeAddresses;

  constructor(source: string, { nodes }: Extract<AddressSettings, { kind: 'nodes' }>) {
    this.#source = source;
    this.#nodes = nodes;
  }

  answer(question: AddressQuestion): Promise<SourceAnswer> {
    return Promise.resolve({ ...answerOf(question, this.#source, this.#nodes), namesNode: true, isListed: true });
  }
}

/**
 * File of names and addresses by node, read again whenever it changes: a mounted ConfigMap, or the output of a script.
 */
class AddressFile implements AddressSource {
  readonly #source: string;
  readonly #path: string;
  #read: { readonly version: string; readonly nodes: NodeAddresses } | undefined;

  constructor(source: string, { file }: Extract<AddressSettings, { kind: 'file' }>) {
    this.#source = source;
    this.#path = file;
  }

  async answer(question: AddressQuestion): Promise<SourceAnswer> {
    return { ...answerOf(question, this.#source, await this.#nodes()), namesNode: true, isListed: true };
  }

  async #nodes(): Promise<NodeAddresses> {
    const what = `"${this.#path}" of ${this.#source}`;
    try {
      const { dev, ino, size, mtimeNs, ctimeNs } = await stat(this.#path, { bigint: true });
      const version = [dev, ino, size, mtimeNs, ctimeNs].join(' ');
      if (this.#read?.version === version) return this.#read.nodes;
      const checked = checkNodeAddresses(parseYaml(yamlText(await readRegularFile(realDisk, this.#path)), 'ours'));
      if ('problems' in checked) {
        const [first] = checked.problems;
        throw new RecoveryError('MaterialInvalid', `${first?.path ?? ''} ${first?.message ?? ''}`.trim());
      }
      this.#read = { version, nodes: checked.value };
      return checked.value;
    } catch (err) {
      const code = systemCode(err);
      if (code !== undefined) throw new RecoveryError('ReadFailed', `Cannot read ${what}: ${code}`, { cause: err });
      const text = err instanceof Error ? err.message : String(err);
      throw new RecoveryError('MaterialInvalid', `Cannot use ${what}: ${text}; wanted names and addresses by node`);
    }
  }
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

type SourceClass<Settings> = new (name: string, settings: Settings, options: SourceOptions) => AddressSource;

const sources = {
  nodes: ListedAddresses,
  file: AddressFile,
  machines: Machines,
  served: ServedNames,
  cidrs: NodeRanges,
} satisfies { readonly [K in AddressSettings['kind']]: SourceClass<Extract<AddressSettings, { readonly kind: K }>> };

/** `name`: its place in the configuration, for messages. */
export const addressSource = (name: string, settings: AddressSettings, options: SourceOptions): AddressSource =>
  new (sources[settings.kind] as SourceClass<AddressSettings>)(name, settings, options);
