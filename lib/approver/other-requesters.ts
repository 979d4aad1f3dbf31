// Requests for kubelets' client certificates by users not in `approver.requesters`. They are left to
// kube-controller-manager, which approves a kubelet's own renewal and requests of kubeadm's tokens within seconds, or
// to the administrator. A request undecided after a minute is reported, once for each requester. Pure.
import type { RequestSummary } from './batch.ts';
import { isDecided, type SigningRequest } from './request.ts';

/** Time in which a kube-controller-manager that has just been started decides. */
const graceMs = 60_000;
/** Requesters that are remembered; a user who can create requests as more than so many is no longer reported. */
const mostRequesters = 100;

export interface OtherRequest extends Pick<RequestSummary, 'name' | 'uid'> {
  readonly username: string;
}

interface Undecided extends OtherRequest {
  /** Uptime in milliseconds. */
  readonly sinceMs: number;
}

export class OtherRequesters {
  /** First undecided request of each username. */
  readonly #undecided = new Map<string, Undecided>();
  readonly #reported = new Set<string>();

  /** `nowMs`: uptime, as in all of this file. */
  see(request: SigningRequest, nowMs: number): void {
    const { name, uid } = request.metadata;
    const { username = '' } = request.spec;
    const known = this.#undecided.get(username);
    if (known?.name === name && (isDecided(request) || known.uid !== uid)) this.#undecided.delete(username);
    const isFull = this.#reported.size + this.#undecided.size >= mostRequesters;
    if (isDecided(request) || this.#reported.has(username) || this.#undecided.has(username) || isFull) return;
    this.#undecided.set(username, { name, uid, username, sinceMs: nowMs });
  }

  remove(name: string): void {
    for (const { name: known, username } of this.#undecided.values()) {
      if (known === name) this.#undecided.delete(username);
    }
  }

  /** Milliseconds until the next request is to be reported; undefined: there is none. */
  dueInMs(nowMs: number): number | undefined {
    const [first] = [...this.#undecided.values()].map(({ sinceMs }) => sinceMs).toSorted((a, b) => a - b);
    return first === undefined ? undefined : Math.max(0, first + graceMs - nowMs);
  }

  /** Requests to report now, each once. */
  due(nowMs: number): readonly OtherRequest[] {
    const due = [...this.#undecided.values()].filter(({ sinceMs }) => sinceMs + graceMs <= nowMs);
    for (const { username } of due) {
      this.#undecided.delete(username);
      this.#reported.add(username);
    }
    return due;
  }
}
