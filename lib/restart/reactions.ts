// Restarts a component in our pod after a change of what it reads at its start only: once for all changes that belong
// together, and last of all. Changes are gathered until none has come for a while; then what the processes show decides
// (reaction.ts), not what was told. Done is only a new process that runs; everything else is tried again, and reported
// once. A change during an attempt is gathered anew.
import { type Clock, steadyMs } from '../clock.ts';
import { RecoveryError, errorText, isCode } from '../errors.ts';
import type { Log } from '../log.ts';
import { processesBesideUs } from './beside.ts';
import { awaitSuccessor, terminate } from './in-pod.ts';
import type { ProcessId } from './judge.ts';
import { rewriteManifest } from './manifest.ts';
import { type CannotReason, heldBack, inputsHash, judgeRestart, secondsOfChange, type Verdict } from './reaction.ts';

/** Files that the component reads at its start only are whole on disk. */
export interface InputChange {
  readonly artefact: string;
  /** Of the contents. */
  readonly digest: string;
  /** Their newest ctime. */
  readonly changedAt: Date;
  readonly since: 'found' | 'changed';
}

/** Who asks before a restart, so that the machines of a cluster do it one after the other. */
export interface Turn {
  /** Throws when the API cannot be asked, and KubeConflict while it is somebody else's turn. */
  take(): Promise<void>;
  /** Never rejects: what is not given back is over after its time. */
  giveBack(): Promise<void>;
}

/** Milliseconds. */
export interface ReactionPace {
  /** Without a change for so long, a recovery is over. */
  readonly quietMs: number;
  /** The longest that changes one after the other are waited out. */
  readonly gatherMs: number;
  /** Between attempts; doubled after each. */
  readonly firstMs: number;
  readonly mostMs: number;
  /** When a restart that does not succeed is reported. */
  readonly boundMs: number;
  /** When it is, where it waits for the turn of others: a dead one keeps it for minutes. */
  readonly turnBoundMs: number;
  /** Until the new process runs and is ready: longer than the kubelet's longest back-off, 300 s. */
  readonly successorMs: number;
}

export const reactionPace: ReactionPace = {
  quietMs: 3_000,
  gatherMs: 30_000,
  firstMs: 1_000,
  mostMs: 60_000,
  boundMs: 60_000,
  turnBoundMs: 900_000,
  successorMs: 330_000,
};

export interface ReactionOptions {
  readonly component: string;
  readonly manifest: string | undefined;
  readonly hasShortBackOff: boolean;
  /** Whether the API server answers that it is ready: without it a component would end again at once. */
  readonly isApiReady: () => Promise<boolean>;
  readonly turn?: Turn;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly processes?: (component: string) => Promise<readonly ProcessId[]>;
  readonly pace?: Partial<ReactionPace>;
}

/** `TurnOfAnother`: of another machine of the cluster. */
export type FailureReason = 'RestartFailed' | 'TurnOfAnother';

type Outcome =
  | { readonly done: true }
  | { readonly done: false; readonly reason: CannotReason | FailureReason; readonly message: string };

export class RestartReaction {
  readonly #options: ReactionOptions;
  readonly #pace: ReactionPace;
  readonly #log: Log;
  readonly #processes: (component: string) => Promise<readonly ProcessId[]>;
  readonly #observedSince: number;
  readonly #inputs = new Map<string, { readonly digest: string; readonly writtenSeconds: number }>();
  #wake = Promise.withResolvers<void>();
  /** Counts changes; an attempt settles those that there were when it began. */
  #changes = 0;
  #settled = 0;
  #isReported = false;

  constructor(options: ReactionOptions) {
    this.#options = options;
    this.#pace = { ...reactionPace, ...options.pace };
    this.#log = options.log.with({ component: options.component });
    this.#processes = options.processes ?? processesBesideUs;
    this.#observedSince = options.clock.uptimeSeconds() ?? 0;
  }

  /** Never blocks. The same content told again is no change. */
  notice({ artefact, digest, changedAt, since }: InputChange): void {
    if (this.#inputs.get(artefact)?.digest === digest) return;
    const { clock } = this.#options;
    const uptimeSeconds = clock.uptimeSeconds() ?? 0;
    const observedSinceSeconds = this.#observedSince;
    const times = { since, changedAt, now: clock.now(), uptimeSeconds, observedSinceSeconds };
    this.#inputs.set(artefact, { digest, writtenSeconds: secondsOfChange(times) });
    this.#changes += 1;
    this.#wake.resolve();
  }

  /** Until the signal aborts. */
  async run(): Promise<void> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      if (this.#settled === this.#changes) await this.#sleep(idleMs);
      else {
        await this.#gather();
        await this.#settle();
      }
    }
  }

  async #gather(): Promise<void> {
    const { clock, signal } = this.#options;
    const { quietMs, gatherMs } = this.#pace;
    const until = steadyMs(this.#options.clock) + gatherMs;
    for (let before = -1; before !== this.#changes && !signal.aborted;) {
      before = this.#changes;
      await clock.sleep(Math.max(Math.min(quietMs, until - steadyMs(this.#options.clock)), 0), signal);
      if (steadyMs(this.#options.clock) >= until) return;
    }
  }

  /** Attempts until one succeeds, something changes, or the end. */
  async #settle(): Promise<void> {
    const { signal } = this.#options;
    const begun = steadyMs(this.#options.clock);
    for (let attempt = 1, delay = this.#pace.firstMs; ; attempt += 1, delay = Math.min(delay * 2, this.#pace.mostMs)) {
      const changes = this.#changes;
      const outcome = await this.#attempt().catch((err: unknown): Outcome => failure(err));
      if (signal.aborted) return;
      if (outcome.done) {
        this.#settled = changes;
        this.#isReported = false;
        return;
      }
      const { reason, message } = outcome;
      const isFinal = reason === 'RestartNeeded';
      const waits = reason === 'TurnOfAnother';
      const duration = Math.round(steadyMs(this.#options.clock) - begun);
      if (!this.#isReported && (isFinal || duration >= (waits ? this.#pace.turnBoundMs : this.#pace.boundMs))) {
        this.#isReported = true;
        this.#log.error('reaction.failed', { reason, message, attempt, duration });
      }
      if (isFinal) this.#settled = changes;
      if (isFinal || this.#changes !== changes) return;
      await this.#sleep(waits ? this.#pace.firstMs : delay);
      if (signal.aborted || this.#changes !== changes) return;
    }
  }

  async #attempt(): Promise<Outcome> {
    const { component, isApiReady, turn } = this.#options;
    const first = await this.#judge();
    if (first.kind === 'cannot') return { done: false, ...first };
    if (first.kind === 'none') {
      // An earlier container of ours may have taken it: it ended with the pod that it had replaced.
      if (turn !== undefined) await this.#giveBackWhenReady(turn);
      return { done: true };
    }
    if (!(await isApiReady())) {
      const message = `${component} is not restarted before the API server is ready: it would end again at once`;
      throw new RecoveryError('KubeUnavailable', message);
    }
    await turn?.take();
    let mustReturn = true;
    try {
      const verdict = await this.#judge(); // it may have been restarted while we waited for our turn
      if (verdict.kind === 'none') return { done: true };
      if (verdict.kind === 'cannot') return { done: false, ...verdict };
      const message = await this.#restart(verdict);
      mustReturn = false; // whoever comes next waits until this one is back
      const successor = await this.#comesBack(verdict.due);
      mustReturn = successor !== undefined;
      if (successor !== undefined) this.#log.info('restart.done', { message: `${message}; ${successor.pid} runs` });
      return { done: true };
    } finally {
      if (mustReturn) await turn?.giveBack();
    }
  }

  async #judge(): Promise<Verdict> {
    const { component, manifest, hasShortBackOff, clock } = this.#options;
    return judgeRestart({
      component,
      processes: await this.#processes(component),
      uptimeSeconds: clock.uptimeSeconds(),
      writtenSeconds: Math.max(...[...this.#inputs.values()].map((input) => input.writtenSeconds)),
      hasShortBackOff,
      manifest,
    });
  }

  /** Says what was done. */
  async #restart(verdict: Verdict & { kind: 'signal' | 'rewriteManifest' }): Promise<string> {
    const { component } = this.#options;
    const why = verdict.kind === 'signal' ? verdict.message : await this.#annotate(verdict.manifest);
    if (why === undefined) return `manifest "${(verdict as { manifest: string }).manifest}" was rewritten`;
    await terminate(component, verdict.due);
    return why;
  }

  /** Undefined when the kubelet will replace the pod; otherwise why a signal must do. */
  async #annotate(path: string): Promise<string | undefined> {
    const { component } = this.#options;
    const hash = inputsHash(new Map([...this.#inputs].map(([artefact, { digest }]) => [artefact, digest])));
    let outcome;
    try {
      outcome = await rewriteManifest({ path, component, hash });
    } catch (err) {
      const code = isCode(err, 'ReadFailed', 'MaterialInvalid') ? err.code : 'WriteFailed';
      this.#log.warn('restart.failed', { path, code, err: errorText(err) });
      return `SIGTERM, because the manifest cannot be rewritten: ${heldBack}`;
    }
    if (outcome === 'conflict') {
      const message = `Cannot write manifest "${path}": somebody else has just written it; looking again`;
      throw new RecoveryError('WriteFailed', message);
    }
    // A manifest that has the hash of older days (contents came back) replaces nothing.
    if (outcome === 'unchanged') return `SIGTERM: ${heldBack}`;
    const message = 'manifest rewritten; the kubelet replaces the pod, and this process';
    this.#log.info('restart.done', { path, message });
    return undefined;
  }

  /** The new process, once the API server is ready again; undefined when the signal aborts. */
  async #comesBack(due: readonly ProcessId[]): Promise<ProcessId | undefined> {
    const { component, isApiReady, clock, signal } = this.#options;
    const atMostMs = this.#pace.successorMs;
    const until = steadyMs(this.#options.clock) + atMostMs;
    const processes = this.#processes;
    const successor = await awaitSuccessor({ component, due, processes, atMostMs, clock, signal });
    if (successor === undefined) return undefined;
    while (!signal.aborted && !(await isApiReady())) {
      if (steadyMs(this.#options.clock) >= until) {
        const message = `${component} runs again as process ${successor.pid}, but the API server is not ready`;
        throw new RecoveryError('ProofFailed', `${message}; look at its log`);
      }
      await clock.sleep(500, signal);
    }
    return signal.aborted ? undefined : successor;
  }

  async #giveBackWhenReady(turn: Turn): Promise<void> {
    const { isApiReady, clock, signal } = this.#options;
    while (!signal.aborted && !(await isApiReady())) await clock.sleep(1_000, signal);
    if (!signal.aborted) await turn.giveBack();
  }

  /** Sleeps until the time is over, a change comes, or the end. */
  async #sleep(ms: number): Promise<void> {
    const { clock, signal } = this.#options;
    const done = new AbortController();
    await Promise.race([this.#wake.promise, clock.sleep(ms, AbortSignal.any([signal, done.signal]))]);
    done.abort();
    this.#wake = Promise.withResolvers<void>();
  }
}

function failure(err: unknown): Outcome {
  return {
    done: false,
    reason: isCode(err, 'KubeConflict') ? 'TurnOfAnother' : 'RestartFailed',
    message: errorText(err),
  };
}

const idleMs = 3_600_000;
