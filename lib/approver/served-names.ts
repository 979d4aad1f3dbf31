// The serving certificate that the kubelet of a node presents now, as a source of its names: its key is held by that
// kubelet, and each of its names was checked when it was issued. Only addresses that both the Node and the request have
// are contacted. A certificate that has expired, is self-signed or another node's is no evidence, and no data is sent
// to the server that presents it.
import { bounds } from '../bounds.ts';
import type { AddressSettings } from '../config/address-settings.ts';
import { steadyMs } from '../clock.ts';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { Recent } from '../recent.ts';
import { verifyChain } from '../pki/verify.ts';
import { servedChain } from '../proof/served.ts';
import { nodePrefix, nodesGroup } from '../well-known.ts';
import {
  type AddressQuestion,
  type AddressSource,
  canonicalAddresses,
  type SourceAnswer,
  type SourceOptions,
} from './addresses.ts';

const kubeletPort = 10_250;
/** A handshake in a cluster takes milliseconds, and other requests wait until then. */
const timeoutMs = 2000;
/** A node that sends many requests and does not answer must not delay the requests of other nodes. */
const quietMs = 20_000;
/** Most nodes remembered as unresponsive. */
const mostQuiet = 1000;
/** Time for which other requests wait in one pass, all nodes together: as long as for four that do not answer. */
const mostWaitedMs = 4 * timeoutMs;

export class ServedNames implements AddressSource {
  readonly isCostly = true;
  /** Uptime in milliseconds by node: when it did not answer. */
  readonly #quiet = new Recent<number>(mostQuiet);
  /** Milliseconds for which nodes were waited for in this pass. */
  #waitedMs = 0;
  /** Answers of this pass by node, address and port: requests of one node do not each wait for it. */
  readonly #asked = new Map<string, Promise<readonly Certificate[]>>();
  readonly #source: string;
  readonly #caFile: string;
  readonly #options: SourceOptions;

  constructor(source: string, { caFile }: Extract<AddressSettings, { kind: 'served' }>, options: SourceOptions) {
    this.#source = source;
    this.#caFile = caFile;
    this.#options = options;
  }

  begin(): void {
    this.#waitedMs = 0;
    this.#asked.clear();
  }

  /**
   * Throws ProofFailed when nodes have been waited for too long in this pass to ask another, and the errors of reading
   * the CAs.
   */
  async answer({ node, object, asked }: AddressQuestion): Promise<SourceAnswer> {
    const { clock } = this.#options;
    const roots = await this.#roots();
    const isAsked = (address: string): boolean => asked.some(({ kind, value }) => kind === 'IP' && value === address);
    const addresses = [...new Set(canonicalAddresses(object.status?.addresses))]
      .filter(isAsked)
      .slice(0, bounds.addresses.most.asked);
    const port = object.status?.daemonEndpoints?.kubeletEndpoint?.Port ?? kubeletPort;
    const isKnown = addresses.every((host) => this.#asked.has(placeOf(node, host, port)));
    const beganMs = steadyMs(clock);
    const isQuiet = beganMs - (this.#quiet.get(node) ?? -Infinity) < quietMs;
    if (!isQuiet && !isKnown && this.#waitedMs >= mostWaitedMs) {
      const message = `Cannot ask the kubelet of node "${node}" what it serves: others have answered late or not at all; it is asked soon`;
      throw new RecoveryError('ProofFailed', message);
    }
    const chains = isQuiet ? [] : await Promise.all(addresses.map((host) => this.#chainAt(node, host, port)));
    this.#waitedMs += steadyMs(clock) - beganMs;
    const now = clock.now();
    const own = chains.flatMap(([host, chain]) => namesOfValid(chain, { node, host, roots, now }));
    return { source: this.#source, own: own.length === 0 ? undefined : [...new Set(own)] };
  }

  /** Address and chain that is presented there, asked once in a pass; empty where nothing valid is. */
  async #chainAt(node: string, host: string, port: number): Promise<readonly [string, readonly Certificate[]]> {
    const place = placeOf(node, host, port);
    const asked = this.#asked.get(place) ?? this.#ask(node, host, port);
    this.#asked.set(place, asked);
    return [host, await asked];
  }

  async #ask(node: string, host: string, port: number): Promise<readonly Certificate[]> {
    const { clock, signal } = this.#options;
    try {
      const pem = await servedChain({ host, port, serverName: host, timeoutMs, clock, signal });
      return parseCertificates(Buffer.from(pem), `the kubelet at ${host}:${port}`);
    } catch (err) {
      if (signal.aborted) throw err;
      this.#quiet.set(node, steadyMs(clock));
      return []; // an unresponsive kubelet proves nothing
    }
  }

  async #roots(): Promise<readonly Certificate[]> {
    const what = `"${this.#caFile}" of ${this.#source}`;
    const bytes = await readRegularFile(realDisk, this.#caFile).catch((err: unknown) => {
      throw new RecoveryError('ReadFailed', `Cannot read ${what}: ${systemCode(err) ?? 'unknown'}`, { cause: err });
    });
    return parseCertificates(bytes, what, 'skipped');
  }
}

interface Expected {
  readonly node: string;
  /** Address that presented the certificate. */
  readonly host: string;
  readonly roots: readonly Certificate[];
  readonly now: Date;
}

const placeOf = (node: string, host: string, port: number): string => `${node} ${host} ${port}`;

/** Names of the certificate, where it is a valid certificate of that node; else none. */
function namesOfValid(
  [leaf, ...intermediates]: readonly Certificate[],
  { node, host, roots, now }: Expected,
): readonly string[] {
  if (leaf === undefined) return [];
  const { commonName, organizations, hostnames } = leaf.facts;
  const isOfNode = commonName === `${nodePrefix}${node}` && organizations.includes(nodesGroup);
  const chain = verifyChain({ leaf, intermediates, roots, at: now, usage: 'serverAuth', hostname: host });
  return isOfNode && chain.ok ? hostnames : [];
}
