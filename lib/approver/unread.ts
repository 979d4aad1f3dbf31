// Requests named by the watch that are still to be read. The watch brings rows without objects: requesters decide how
// large a request is, up to 1.5 MiB, and beside a flood of large ones a watch of whole objects falls behind until the
// server ends it.
import { bounds } from '../bounds.ts';
import { steadyMs } from '../clock.ts';
import { errorText, RecoveryError } from '../errors.ts';
import { isAway, isTooLarge } from '../kube/api-error.ts';
import { list } from '../kube/list.ts';
import { withQuery } from '../kube/resources.ts';
import { backoffMs } from '../retry.ts';
import { isMapping } from '../yaml.ts';
import { lanes, type RequestSummary } from './batch.ts';
import { requestsPath, type SigningRequest } from './request.ts';
import type { ApproverOptions } from './settings.ts';

export interface UnreadRequest {
  readonly name: string;
  readonly signer: string;
  /** Version of its last event. */
  readonly resourceVersion: string;
  readonly heardAt: Date;
  /** It was changed: a decision or a certificate may be in it, which counts for other requests of its node. */
  readonly isChanged: boolean;
}

/** Summary of a request that was not read. */
export const unreadSummary = ({ name, signer, heardAt }: UnreadRequest, size: number): RequestSummary => ({
  name,
  signer,
  uid: undefined,
  requestedAt: heardAt,
  size,
});

type Options = Pick<ApproverOptions, 'connection' | 'clock' | 'log' | 'metrics' | 'signal'>;
/** The read request; `unreadable`: the API server has refused the read; undefined: it is gone. */
export type NamedRequest = SigningRequest | 'tooLarge' | 'unreadable' | undefined;

/** New requests read in a round: the newest, and the oldest. */
const newestAtOnce = 200;
const oldestAtOnce = 200;
const retryDelay = { firstMs: 100, longestMs: 10_000, random: Math.random };

export class UnreadRequests {
  readonly #options: Options;
  readonly #changed = new Map<string, UnreadRequest>();
  readonly #added = new Map<string, UnreadRequest>();
  /** Rounds in a row in which a read failed. */
  #failures = 0;
  #failure: string | undefined;
  /** Uptime before which nothing is read, after a failure. */
  #retryAtMs = 0;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Error of the last round; empty: none. */
  get failed(): readonly string[] {
    return this.#failure === undefined ? [] : [this.#failure];
  }

  /** Whether a changed request of this signer has not been read yet. */
  hasChanged(signer: string): boolean {
    return [...this.#changed.values()].some((one) => one.signer === signer);
  }

  /** Whether all are remembered: false where the oldest one was dropped to make room. */
  add(one: UnreadRequest): boolean {
    if (one.isChanged) this.#added.delete(one.name);
    const isChanged = one.isChanged || this.#changed.has(one.name);
    const group = isChanged ? this.#changed : this.#added;
    group.set(one.name, { ...one, isChanged });
    const [oldest = ''] = group.keys();
    return group.size <= bounds.request.most.remembered || !group.delete(oldest);
  }

  delete(name: string): void {
    this.#changed.delete(name);
    this.#added.delete(name);
  }

  /** Forgets those of one signer: a list has brought them all. */
  clear(signer: string): void {
    for (const { name } of this.#all().filter((one) => one.signer === signer)) this.delete(name);
  }

  /** Milliseconds until the next round; undefined: nothing is to be read. */
  dueInMs(): number | undefined {
    if (this.#changed.size + this.#added.size === 0) return undefined;
    return Math.max(0, this.#retryAtMs - steadyMs(this.#options.clock));
  }

  /**
   * Reads one round, changed requests first. `take` receives what was read, unless another event of that name came in
   * the meantime: then it is read once more. After a failed read the rest waits for a later round. Never rejects.
   */
  async read(take: (one: UnreadRequest, found: NamedRequest) => void): Promise<void> {
    if (this.dueInMs() !== 0) return;
    const failures: unknown[] = [];
    const round = this.#round().values();
    const lane = async (): Promise<void> => {
      for (const one of round) {
        try {
          const found = await readNamed(one, this.#options);
          if (this.#get(one.name) !== one) continue;
          this.delete(one.name);
          take(one, found);
        } catch (err) {
          if (isAway(err) || this.#options.signal.aborted) {
            failures.push(err);
            return;
          }
          // This one cannot be read, whatever the reason: it is judged with the others, where each has its own retry.
          if (this.#get(one.name) !== one) continue;
          this.delete(one.name);
          take(one, 'unreadable');
        }
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    this.#ended(failures);
  }

  #ended([err]: readonly unknown[]): void {
    const { clock, log, metrics, signal } = this.#options;
    if (signal.aborted) return;
    this.#failures = err === undefined ? 0 : this.#failures + 1;
    this.#failure = err === undefined ? undefined : `new requests: ${errorText(err)}`;
    if (err === undefined) return;
    this.#retryAtMs = steadyMs(clock) + backoffMs(this.#failures, retryDelay);
    const code = err instanceof RecoveryError ? err.code : 'unknown';
    metrics?.failed('approver', code);
    const fields = { err: errorText(err), code, attempt: this.#failures };
    if (this.#failures === 1) log.warn('csr.failed', fields);
    else log.debug('csr.failed', fields);
  }

  #round(): readonly UnreadRequest[] {
    const added = [...this.#added.values()];
    const newest = added.slice(-newestAtOnce).toReversed();
    const changed = [...this.#changed.values()].slice(0, newestAtOnce + oldestAtOnce);
    return [...changed, ...newest, ...added.slice(0, -newestAtOnce).slice(0, oldestAtOnce)];
  }

  #all(): readonly UnreadRequest[] {
    return [...this.#changed.values(), ...this.#added.values()];
  }

  #get(name: string): UnreadRequest | undefined {
    return this.#changed.get(name) ?? this.#added.get(name);
  }
}

/** Of the list around one request. */
const listBytes = 1024;

/**
 * The request that an event has named, as new as that event, which the API server's watch cache has; undefined: it is
 * gone. `tooLarge`: a new one is larger than any kubelet's request, and was not read.
 */
async function readNamed(
  { name, signer, resourceVersion, isChanged }: UnreadRequest,
  { connection, signal }: Options,
): Promise<NamedRequest> {
  const version = resourceVersion === '' ? {} : { resourceVersion, resourceVersionMatch: 'NotOlderThan' };
  const path = withQuery(requestsPath(signer, name), version);
  const mostBytes = isChanged ? undefined : bounds.request.most.bytes + listBytes;
  try {
    const { objects } = await list<SigningRequest>({ connection, path, signal, mostBytes });
    return objects[0];
  } catch (err) {
    if (isTooLarge(err) && !isChanged) return 'tooLarge';
    throw err;
  }
}

interface EventTable {
  readonly metadata?: { readonly resourceVersion?: string };
  readonly rows?: readonly { readonly cells?: readonly unknown[] }[] | null;
}

/**
 * The object of an event that came as a Table with one row, whose first column is the name
 * (k8s.io/apiserver/pkg/endpoints/handlers/response.go; pkg/printers/internalversion/printers.go); undefined: the
 * server has sent the object itself. Throws RangeError for a Table without that row.
 */
export function rowOf(object: unknown): Pick<UnreadRequest, 'name' | 'resourceVersion'> | undefined {
  if (!isMapping(object) || object['kind'] !== 'Table') return undefined;
  const { metadata: { resourceVersion = '' } = {}, rows } = object as EventTable;
  const name = rows?.[0]?.cells?.[0];
  if (typeof name !== 'string') throw new RangeError('an event has no row with a name');
  return { name, resourceVersion };
}
