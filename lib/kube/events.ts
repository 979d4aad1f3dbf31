// Kubernetes Events (events.k8s.io/v1) in the namespace of the object they are about, `default` where it has none. They
// inform people and decide nothing: recording never waits and never fails; events that the API does not take are kept
// while there is room and dropped, counted, when there is not. An event has its name from the start, so that sending it
// twice makes one event.
import { randomBytes } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { errorText, isCode } from '../errors.ts';
import { type Log, withoutPem } from '../log.ts';
import { backoffMs, Wake } from '../retry.ts';
import type { KubeConnection } from './kube.ts';
import { microTime } from './objects.ts';
import { collectionPath, type Kind, type NamespacedKind, typeMeta } from './resources.ts';

/** Reasons of OpenShift's certificate rotation (library-go, pkg/operator/certrotation), and of the approver. */
export type EventReason =
  | 'CertificateUpdated'
  | 'CertificateRemoved'
  | 'CertificateUpdateFailed'
  | 'SignerUpdateRequired'
  | 'CABundleUpdateRequired'
  | 'TargetUpdateRequired'
  | 'CertificateRequestApproved'
  | 'CertificateRequestPending'
  /** As k3s warns (pkg/certmonitor). */
  | 'CertificateExpirationWarning';

interface Named {
  readonly name: string;
  readonly uid?: string;
}

type EventSubject =
  | (Named & { readonly kind: NamespacedKind; readonly namespace: string })
  | (Named & { readonly kind: Exclude<Kind, NamespacedKind> });

export interface RecordedEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: EventReason;
  readonly regarding: EventSubject;
  readonly note: string;
}

interface EventRecorderOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  /** Name of the pod, or of the host. */
  readonly instance: string;
  /** Most events that wait; the oldest are dropped first. Default 256. */
  readonly limit?: number;
}

const controller = 'kube-cert-recovery';
/** Limits of the API: pkg/apis/core/validation/events.go. */
const longestNote = 1024;
const longestInstance = 128;
/** Limit of retries after refusals: authorisation is ready late when an API server starts; but not for ever. */
const mostRefusals = 10;
const firstRetryMs = 1000;
const longestRetryMs = 30_000;
/** Every event is one more write for etcd: events of a recovery are sent after its own writes. */
const afterWorkMs = 1000;

/** The name of an object as the beginning of an Event's: some kinds take names that are no DNS subdomain. */
function eventPrefix(name: string): string {
  const labels = name
    .slice(0, 230)
    .toLowerCase()
    .replaceAll(/[^-a-z0-9.]+/g, '-')
    .split('.');
  const fitting = labels.map((label) => label.replaceAll(/^-+|-+$/g, '')).filter((label) => label !== '');
  return fitting.join('.') || 'object';
}

/**
 * Namespace in which the API keeps Events about an object; `default` for objects without one
 * (pkg/apis/core/validation/events.go).
 */
const namespaceOf = (subject: EventSubject): string => ('namespace' in subject ? subject.namespace : 'default');

interface Queued {
  readonly namespace: string;
  readonly body: unknown;
  refusals: number;
}

export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #queue: Queued[] = [];
  #dropped = 0;
  readonly #wake = new Wake();
  #flushing: Promise<number> | undefined;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
  }

  /** Number of events that wait for the API. */
  get waiting(): number {
    return this.#queue.length;
  }

  record(event: RecordedEvent): void {
    const namespace = namespaceOf(event.regarding);
    this.#queue.push({ namespace, body: this.#body(event), refusals: 0 });
    if (this.#queue.length > (this.#options.limit ?? 256)) {
      this.#queue.shift();
      this.#drop('too many events wait for the API');
    }
    this.#wake.call();
  }

  /** Sends queued events as soon as the API takes them, until `signal` aborts. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const delay = { firstMs: firstRetryMs, longestMs: longestRetryMs, random: Math.random };
    for (let failures = 0; !signal.aborted;) {
      this.#wake.clear();
      if (this.#queue.length === 0) {
        await this.#wake.wait({ clock, signal });
        await clock.sleep(afterWorkMs, signal);
      }
      if (signal.aborted) break;
      failures = (await this.flush(signal)) === 0 ? 0 : failures + 1;
      if (failures > 0) await clock.sleep(backoffMs(failures, delay), signal);
    }
  }

  /** Tries to send the queued events, once; for two seconds without a signal. Resolves with the number that still wait. */
  flush(signal = AbortSignal.timeout(2000)): Promise<number> {
    this.#flushing ??= this.#flush(signal).finally(() => (this.#flushing = undefined));
    return this.#flushing;
  }

  async #flush(signal: AbortSignal): Promise<number> {
    for (let next = this.#queue[0]; next !== undefined && !signal.aborted; next = this.#queue[0]) {
      if (!(await this.#send(next, signal))) break;
      // The oldest may have been dropped in the meantime, to make room.
      const at = this.#queue.indexOf(next);
      if (at >= 0) this.#queue.splice(at, 1);
    }
    return this.#queue.length;
  }

  /** Whether the event is done with: sent, or given up. */
  async #send(event: Queued, signal: AbortSignal): Promise<boolean> {
    const path = collectionPath('Event', event.namespace);
    try {
      await this.#options.connection.request({ method: 'POST', path, body: event.body, signal });
      return true;
    } catch (err) {
      if (isCode(err, 'KubeConflict')) return true; // it arrived the first time, only the answer was lost
      if (isCode(err, 'KubeRejected', 'KubeNotFound', 'KubeForbidden')) event.refusals += 1;
      const givenUp = isCode(err, 'KubeRejected') || event.refusals >= mostRefusals;
      if (givenUp) this.#drop(errorText(err));
      else this.#options.log.debug('api.waiting', { err: errorText(err), count: this.#queue.length });
      return givenUp;
    }
  }

  #drop(err: string): void {
    this.#dropped += 1;
    this.#options.log.warn('event.dropped', { err, count: this.#dropped });
  }

  #body({ type, reason, regarding, note }: RecordedEvent): unknown {
    const { clock, instance } = this.#options;
    return {
      ...typeMeta('Event'),
      metadata: {
        namespace: namespaceOf(regarding),
        name: `${eventPrefix(regarding.name)}.${randomBytes(8).toString('hex')}`,
      },
      eventTime: microTime(clock.now()),
      reportingController: controller,
      reportingInstance: instance.slice(0, longestInstance),
      action: 'CertificateRecovery',
      reason,
      type,
      regarding: { ...typeMeta(regarding.kind), ...regarding },
      note: withoutPem(note).slice(0, longestNote),
    };
  }
}
