// Restarts of a component in our pod after a change of its start-up inputs: once for all changes that belong together,
// and last of all. Changes are gathered until none has come for a while; then the processes decide (decide.ts), not the
// report of the observer. Only a new process that runs is success; everything else is retried, and reported once. A
// change during an attempt is gathered again.
import { type Clock, steadyMs } from '../clock.ts';
import { RecoveryError, errorText, isCode } from '../errors.ts';
import type { ProcessId } from '../host/proc.ts';
import type { Log } from '../log.ts';
import { backoffMs, poll, Wake } from '../retry.ts';
import {
  type CannotReason,
  inputsHash,
  isSameProcess,
  judgeRestart,
  type RestartVerdict,
  secondsOfChange,
  type WrittenInput,
} from './decide.ts';
import { processesInPod } from './processes.ts';
import { restart } from './restart.ts';
import type { MachineLease } from './machine-lease.ts';

/** Change of files that the component reads at its start only, whole on disk. */
export interface InputChange {
  readonly artefact: string;
  /** Digest of the contents. */
  readonly digest: string;
  /** Newest ctime of the files. */
  readonly changedAt: Date;
  readonly since: WrittenInput['since'];
}

/** All in milliseconds. */
interface PodRestartPace {
  /** A recovery is over after so long without a change. */
  readonly quietMs: number;
  /** Longest wait for changes that follow each other. */
  readonly gatherMs: number;
  /** Delay between attempts; doubled after each. */
  readonly firstMs: number;
  readonly mostMs: number;
  /** Time after which a restart that does not succeed is reported. */
  readonly boundMs: number;
  /** The same where another machine holds the Lease: a machine that has died keeps it for minutes. */
  readonly leaseBoundMs: number;
  /**
   * Limit until the new process runs and is ready: kube-apiserver waits up to a minute for watches before it exits
   * (k8s.io/apiserver: pkg/server/genericapiserver.go), the kubelet's longest back-off is 300 s, and a minute for the
   * start.
   */
  readonly successorMs: number;
}

/** The API server has just been restarted: a single refusal is not final. */
const giveBackMs = 60_000;

const podRestartPace: PodRestartPace = {
  quietMs: 3_000,
  gatherMs: 30_000,
  firstMs: 1_000,
  mostMs: 60_000,
  boundMs: 60_000,
  leaseBoundMs: 900_000,
  successorMs: 420_000,
};

export interface PodRestartOptions {
  readonly component: string;
  readonly manifest: string | undefined;
  readonly hasShortBackOff: boolean;
  /** Whether the API server reports ready: without it a component would exit again immediately. */
  readonly isApiReady: () => Promise<boolean>;
  /** Acquired before a restart, so that the machines of a cluster restart one after the other. */
  readonly lease?: Pick<MachineLease, 'acquire' | 'giveBack' | 'release'> | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly processes?: typeof processesInPod;
  readonly pace?: Partial<PodRestartPace>;
}

/** `LeaseHeld`: by another machine of the cluster. */
type FailureReason = 'RestartFailed' | 'LeaseHeld';

interface Failure {
  readonly reason: CannotReason | FailureReason;
  readonly message: string;
}

export class PodRestarter {
  readonly #options: PodRestartOptions;
  readonly #pace: PodRestartPace;
  readonly #log: Log;
  readonly #processes: typeof processesInPod;
  readonly #observedSince: number;
  readonly #inputs = new Map<string, { readonly digest: string; readonly writtenSeconds: number }>();
  readonly #wake = new Wake();
  /** Counts changes; an attempt settles the changes before its start. */
  #changes = 0;
  #settled = 0;
  #isReported = false;

  constructor(options: PodRestartOptions) {
    this.#options = options;
    this.#pace = { ...podRestartPace, ...options.pace };
    this.#log = options.log.with({ component: options.component });
    this.#processes = options.processes ?? processesInPod;
    this.#observedSince = options.clock.uptimeSeconds() ?? 0;
  }

  /** Never blocks. The same content again is no change. */
  notice({ artefact, digest, changedAt, since }: InputChange): void {
    if (this.#inputs.get(artefact)?.digest === digest) return;
    const { clock } = this.#options;
    const uptimeSeconds = clock.uptimeSeconds() ?? 0;
    const observedSinceSeconds = this.#observedSince;
    const times = { since, changedAt, now: clock.now(), uptimeSeconds, observedSinceSeconds };
    this.#inputs.set(artefact, { digest, writtenSeconds: secondsOfChange(times) });
    this.#changes += 1;
    this.#wake.call();
  }

  /** Runs until the signal aborts. */
  async run(): Promise<void> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      if (this.#settled === this.#changes) await this.#wake.wait(this.#options);
      else {
        await this.#gather();
        await this.#settle();
      }
    }
  }

  async #gather(): Promise<void> {
    const { clock, signal } = this.#options;
    const { quietMs, gatherMs } = this.#pace;
    const until = steadyMs(clock) + gatherMs;
    for (let before = -1; before !== this.#changes && !signal.aborted;) {
      before = this.#changes;
      await clock.sleep(Math.max(Math.min(quietMs, until - steadyMs(clock)), 0), signal);
      if (steadyMs(clock) >= until) return;
    }
  }

  /** Attempts until one succeeds, an input changes, or the signal aborts. */
  async #settle(): Promise<void> {
    const { clock, signal } = this.#options;
    const begun = steadyMs(clock);
    const { firstMs, mostMs, boundMs, leaseBoundMs } = this.#pace;
    for (let attempt = 1; ; attempt += 1) {
      const changes = this.#changes;
      const failure = await this.#attempt().catch(failureOf);
      if (signal.aborted) return;
      if (failure === undefined) {
        this.#settled = changes;
        this.#isReported = false;
        return;
      }
      const { reason, message } = failure;
      const isFinal = reason === 'RestartNeeded';
      const waits = reason === 'LeaseHeld';
      const duration = Math.round(steadyMs(clock) - begun);
      if (!this.#isReported && (isFinal || duration >= (waits ? leaseBoundMs : boundMs))) {
        this.#isReported = true;
        this.#log.error('reaction.failed', { reason, message, attempt, duration });
      }
      if (isFinal) this.#settled = changes;
      if (isFinal || this.#changes !== changes) return;
      const pauseMs = waits ? firstMs : backoffMs(attempt, { firstMs, longestMs: mostMs });
      await this.#wake.wait(this.#options, pauseMs);
      if (signal.aborted || this.#changes !== changes) return;
    }
  }

  /** Undefined when every process has started since the newest change. */
  async #attempt(): Promise<Failure | undefined> {
    const { component, isApiReady, lease, signal } = this.#options;
    const first = this.#judge();
    if (first.kind === 'cannot') return first;
    if (first.kind === 'none') {
      // An earlier container of ours may have acquired it: it was terminated with the pod that it had replaced.
      if (lease !== undefined && (await this.#waitForApi(Infinity, 1_000))) await lease.release(giveBackMs);
      return undefined;
    }
    if (!(await isApiReady())) {
      const message = `${component} is not restarted before the API server is ready: it would end again at once`;
      throw new RecoveryError('KubeUnavailable', message);
    }
    await lease?.acquire();
    let mustRelease = true;
    try {
      const verdict = this.#judge(); // it may have been restarted while we waited for the Lease
      if (verdict.kind === 'none') return undefined;
      if (verdict.kind === 'cannot') return verdict;
      const advice = 'this program must run as the same user, in the pod of the component';
      const message = await restart(verdict.means, { component, advice, log: this.#log, signal });
      mustRelease = false; // the next machine waits until this one is back
      const successor = await this.#comesBack(verdict.due);
      mustRelease = successor !== undefined;
      if (successor !== undefined) this.#log.info('restart.done', { message: `${message}; ${successor.pid} runs` });
      return undefined;
    } finally {
      // A refused return is tried again: the next attempt finds nothing to restart, and gives the Lease back.
      if (mustRelease) await lease?.giveBack(giveBackMs);
    }
  }

  #judge(): RestartVerdict {
    const { component, manifest, hasShortBackOff, clock } = this.#options;
    return judgeRestart({
      component,
      processes: this.#processes(component),
      uptimeSeconds: clock.uptimeSeconds(),
      writtenSeconds: Math.max(...[...this.#inputs.values()].map((input) => input.writtenSeconds)),
      hasShortBackOff,
      manifest,
      hash: inputsHash(new Map([...this.#inputs].map(([artefact, { digest }]) => [artefact, digest]))),
    });
  }

  /** The new process, once the API server is ready again; undefined when the signal aborts. Throws ProofFailed. */
  async #comesBack(due: readonly ProcessId[]): Promise<ProcessId | undefined> {
    const { component, clock, signal } = this.#options;
    const atMostMs = this.#pace.successorMs;
    const until = steadyMs(clock) + atMostMs;
    let hasEnded = false;
    const look = (): ProcessId | undefined => {
      const running = this.#processes(component);
      hasEnded = !running.some((one) => due.some((old) => isSameProcess(old, one)));
      return hasEnded ? running[0] : undefined;
    };
    const successor = await poll(look, { forMs: atMostMs, everyMs: 200, clock, signal });
    if (signal.aborted) return undefined;
    if (successor === undefined) {
      const state = hasEnded ? 'no new process has come' : 'the process has not ended';
      const message = `Cannot restart ${component}: ${state} within ${atMostMs / 1000} s; look at the kubelet's log`;
      throw new RecoveryError('ProofFailed', message);
    }
    if (!(await this.#waitForApi(until - steadyMs(clock), 500)) && !signal.aborted) {
      const message = `${component} runs again as process ${successor.pid}, but the API server is not ready`;
      throw new RecoveryError('ProofFailed', `${message}; look at its log`);
    }
    return signal.aborted ? undefined : successor;
  }

  /** Whether the API server is ready in time, before the signal aborts. */
  async #waitForApi(atMostMs: number, everyMs: number): Promise<boolean> {
    const { isApiReady, clock, signal } = this.#options;
    const look = async (): Promise<true | undefined> => ((await isApiReady()) ? true : undefined);
    return (await poll(look, { forMs: atMostMs, everyMs, clock, signal })) === true && !signal.aborted;
  }
}

function failureOf(err: unknown): Failure {
  return { reason: isCode(err, 'KubeConflict') ? 'LeaseHeld' : 'RestartFailed', message: errorText(err) };
}
