// Requests for kubelets' client certificates by whoever is not in `approver.requesters`. They are left to
// kube-controller-manager, which approves a kubelet's own renewal and those of kubeadm's tokens within seconds, or to a
// person. One that nobody has decided in a minute is reported, once for each requester. Pure.
import type { RequestSummary } from './batch.ts';
import { isDecided, type SigningRequest } from './request.ts';

/** kube-controller-manager that has just been started decides within this time. */
const graceMs = 60_000;
/** Requesters that are remembered; whoever may create requests as more than so many is reported no more. */
const mostRequesters = 100;

export interface OtherRequest extends Pick<RequestSummary, 'name' | 'uid'> {
  readonly username: string;
}

interface Undecided extends OtherRequest {
  /** Uptime in milliseconds. */
  readonly sinceMs: number;
}

export class OtherRequesters {
  /** By username the first of its requests that nobody has decided. */
  readonly #undecided = new Map<string, Undecided>();
  readonly #reported = new Set<string>();

  /** `nowMs`: uptime, as everywhere here. */
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

  /** Until the next one is to be reported; undefined: there is none. */
  dueInMs(nowMs: number): number | undefined {
    const [first] = [...this.#undecided.values()].map(({ sinceMs }) => sinceMs).toSorted((a, b) => a - b);
    return first === undefined ? undefined : Math.max(0, first + graceMs - nowMs);
  }

  /** Those to report now, each once. */
  due(nowMs: number): readonly OtherRequest[] {
    const due = [...this.#undecided.values()].filter(({ sinceMs }) => sinceMs + graceMs <= nowMs);
    for (const { username } of due) {
      this.#undecided.delete(username);
      this.#reported.add(username);
    }
    return due;
  }
}
