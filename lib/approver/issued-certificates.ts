// The newest certificate issued to each node, in a ConfigMap: kube-controller-manager removes signed requests after an
// hour, and a process loses its memory when it exits. The entry shows that an older certificate is not the newest. It
// does not cover certificates issued while no approver ran, so entries are reasons to refuse and never to approve.
import { bounds } from '../bounds.ts';
import { issuedCertificatesName } from '../bootstrap-identity.ts';
import { steadyMs } from '../clock.ts';
import { errorText, RecoveryError } from '../errors.ts';
import { getIfPresent } from '../kube/objects.ts';
import type { NodeObject } from '../kube/received.ts';
import { resourcePath } from '../kube/resources.ts';
import { backoffMs, Wake } from '../retry.ts';
import { type RecordAccess, type Recorded, RecordObject, recordedEntry } from './record-object.ts';
import type { ApproverOptions } from './settings.ts';

export interface IssuedCertificate {
  readonly node: string;
  readonly notAfter: Date;
  /** `keyHash` */
  readonly key: string;
  /**
   * UID of the Node that had it; undefined: not known, because a first certificate is issued before there is a Node.
   */
  readonly nodeUid?: string | undefined;
}

/** Entry of the ConfigMap; without `until` where it cannot be read. */
export interface RecordedCertificate {
  readonly until?: Date;
  readonly key?: string;
  readonly nodeUid?: string;
}

/** `<notAfter> <SHA-256 of the public key> <UID of the Node>`, the UID where it is known */
export function parseRecorded(text: string): RecordedCertificate {
  const [, time = '', key = '', nodeUid] = /^(\S+) ([0-9a-f]{64})(?: ([0-9a-f-]{36}))?$/.exec(text) ?? [];
  const until = new Date(time);
  if (Number.isNaN(until.getTime())) return {};
  return { until, key, ...(nodeUid !== undefined && { nodeUid }) };
}

const entryOf = ({ notAfter, key, nodeUid }: IssuedCertificate): string =>
  [notAfter.toISOString(), key, ...(nodeUid === undefined ? [] : [nodeUid])].join(' ');

const mostCharacters = bounds.record.most.characters;

interface RecordRoom {
  /** Most characters of names and entries together. */
  readonly most: number;
  /** Names that have no Node. */
  readonly gone: ReadonlySet<string>;
}

const enough: RecordRoom = { most: mostCharacters, gone: new Set() };

/**
 * The entries updated with newer certificates; undefined: nothing is newer. Where there is no room, names without a
 * Node are removed, the most implausible notAfter first; an entry of a Node is never removed, and then a new name finds
 * no room.
 */
export function withIssued(
  entries: Recorded,
  issued: readonly IssuedCertificate[],
  { most, gone }: RecordRoom = enough,
): Recorded | undefined {
  const news = issued.filter((one) => isNews(entries, one));
  if (news.length === 0) return undefined;
  const all = new Map(Object.entries(entries));
  for (const one of news) {
    if (isNews(Object.fromEntries(all.has(one.node) ? [[one.node, all.get(one.node) ?? '']] : []), one))
      all.set(one.node, entryOf(one));
  }
  let size = sizeOf(all);
  const isNew = ([node]: readonly [string, string]): boolean => !Object.hasOwn(entries, node);
  for (const entry of [...byStrangeness(all).filter(([node]) => gone.has(node)), ...[...all].filter(isNew)]) {
    if (size <= most) break;
    if (all.delete(entry[0])) size -= lengthOf(entry);
  }
  return Object.fromEntries([...all].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

const lengthOf = ([node, text]: readonly [string, string]): number => node.length + text.length;
const sizeOf = (entries: Iterable<readonly [string, string]>): number =>
  [...entries].reduce((sum, entry) => sum + lengthOf(entry), 0);

/** Unreadable entries, then the latest notAfter: a notAfter that no certificate has was invented. */
function byStrangeness(entries: Iterable<readonly [string, string]>): readonly (readonly [string, string])[] {
  const endOf = ([, text]: readonly [string, string]): number => parseRecorded(text).until?.getTime() ?? Infinity;
  return [...entries].toSorted((a, b) => endOf(b) - endOf(a));
}

function isNews(entries: Recorded, one: IssuedCertificate): boolean {
  const text = recordedEntry(entries, one.node);
  const { until } = text === undefined ? {} : parseRecorded(text);
  return until === undefined || until < one.notAfter || (one.nodeUid !== undefined && text === withoutNode(one));
}

/** Its entry as long as the UID of the Node is not known. */
const withoutNode = (one: IssuedCertificate): string => entryOf({ ...one, nodeUid: undefined });

const objectIn = (access: RecordAccess): RecordObject =>
  new RecordObject(issuedCertificatesName, 'which certificate of a node is its newest', access);

/** Throws KubeNotFound and KubeForbidden with advice, and when the API refuses otherwise. */
export async function readIssued(access: RecordAccess): Promise<(node: string) => RecordedCertificate | undefined> {
  const entries = await objectIn(access).read();
  return (node) => {
    const text = recordedEntry(entries, node);
    return text === undefined ? undefined : parseRecorded(text);
  };
}

/** A time, a hash in hex, a UID. */
const longestEntry = 24 + 1 + 64 + 1 + 36;

/**
 * A kubelet that has just got its first certificate registers its Node; a certificate whose name has no Node by then is
 * no node's.
 */
const registersMs = 10 * 60_000;
/** Certificates of a whole cluster may be issued within a second: they are one write. */
const gatherMs = 1000;
const retryDelay = { firstMs: 1000, longestMs: 60_000, random: Math.random };

interface Pending extends IssuedCertificate {
  /** This approver or another instance has approved it: its Node need not exist yet. */
  readonly isOurs: boolean;
  readonly sinceMs: number;
}

type KeeperOptions = RecordAccess & Pick<ApproverOptions, 'clock' | 'log' | 'dryRun'>;

/** Records certificates seen to be issued. A failed write is retried, and no request waits for it. */
export class IssuedCertificates {
  readonly #options: KeeperOptions;
  /** Pending certificates by node. */
  readonly #pending = new Map<string, Pending>();
  readonly #wake = new Wake();
  /** Consecutive attempts that left something unwritten. */
  #attempts = 0;

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  see(issued: IssuedCertificate, isOurs: boolean): void {
    if (this.#options.dryRun) return;
    const known = this.#pending.get(issued.node);
    if (known !== undefined && known.notAfter >= issued.notAfter) return;
    this.#pending.set(issued.node, { ...issued, isOurs, sinceMs: steadyMs(this.#options.clock) });
    this.#wake.call();
  }

  /** Runs until the signal aborts. Never rejects. */
  async run(): Promise<void> {
    const { clock, signal } = this.#options;
    while (!signal.aborted) {
      const isLeft = this.#pending.size > 0;
      await this.#wake.wait({ clock, signal }, isLeft ? backoffMs(this.#attempts, retryDelay) : undefined);
      await clock.sleep(gatherMs, signal);
      if (!signal.aborted) await this.write();
    }
  }

  /** Writes once. Never rejects. */
  async write(): Promise<void> {
    const { log, signal } = this.#options;
    if (this.#pending.size === 0) return;
    try {
      await this.#write();
    } catch (err) {
      if (signal.aborted) return;
      const code = err instanceof RecoveryError ? err.code : 'unknown';
      const fields = { configMap: issuedCertificatesName, err: errorText(err), code, attempt: this.#attempts + 1 };
      if (this.#attempts === 0) log.warn('record.failed', fields);
      else log.debug('record.failed', fields);
    }
    this.#attempts = this.#pending.size === 0 ? 0 : this.#attempts + 1;
  }

  async #write(): Promise<void> {
    const record = objectIn(this.#options);
    const before = await record.read();
    const ready: IssuedCertificate[] = [];
    const settled: Pending[] = [];
    for (const one of this.#pending.values()) {
      const isOpen = isNews(before, one) || recordedEntry(before, one.node) === withoutNode(one);
      // Ours are noted whatever is known of their Nodes.
      const asked = isOpen ? this.#node(one.node) : undefined;
      const node = await (one.isOurs ? asked?.catch(() => undefined) : asked);
      const found = { ...one, nodeUid: node?.metadata?.uid };
      if (isNews(before, found) && (one.isOurs || node !== undefined)) ready.push(found);
      const isLate = steadyMs(this.#options.clock) - one.sinceMs >= registersMs;
      if (!isOpen || node !== undefined || isLate) settled.push(one);
    }
    if (ready.length === 0) return this.#forget(settled);
    const gone = await this.#namesWithoutNode(before, ready);
    // After a conflict the pending certificates are written at the next attempt.
    const write = (entries: Recorded): Recorded | undefined => {
      const next = withIssued(entries, ready, { most: mostCharacters, gone });
      const left = ready.filter(({ node }) => next !== undefined && !Object.hasOwn(next, node));
      if (left.length > 0)
        this.#options.log.warn('record.full', { count: left.length, configMap: issuedCertificatesName });
      return next;
    };
    if ((await record.write(write)) === 'noted') this.#forget(settled);
  }

  /** Queried only where the new entries do not fit, and only for as many names as make room. */
  async #namesWithoutNode(entries: Recorded, ready: readonly IssuedCertificate[]): Promise<ReadonlySet<string>> {
    const more = ready.reduce((sum, { node }) => sum + node.length + longestEntry, 0);
    let excess = sizeOf(Object.entries(entries)) + more - mostCharacters;
    const gone = new Set<string>();
    for (const [node, text] of excess > 0 ? byStrangeness(Object.entries(entries)) : []) {
      if (excess <= 0) break;
      if ((await this.#node(node)) !== undefined) continue;
      gone.add(node);
      excess -= lengthOf([node, text]);
    }
    return gone;
  }

  /** Drops entries unless a newer certificate of the node was seen in between. */
  #forget(some: readonly Pending[]): void {
    for (const one of some) if (this.#pending.get(one.node) === one) this.#pending.delete(one.node);
  }

  #node(name: string): Promise<NodeObject | undefined> {
    return getIfPresent(this.#options, resourcePath('Node', { name }));
  }
}
