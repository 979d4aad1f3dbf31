// The reaction to changes of one artefact: wait until its files agree, then prove that every reader uses them. Only
// success is done; everything else is retried, quickly at first, and slowly once it has been reported. Only the newest
// state counts: a change during an attempt voids the attempt, so a burst leads to one reaction.
import { errorText, faultText } from '../errors.ts';
import type { Reader, ResolvedArtefact } from '../inventory/model.ts';
import type { Log, Running } from '../log.ts';
import type { Prove } from '../proof/prove.ts';
import type { ArtefactFiles } from '../inventory/places.ts';
import { proofKinds } from '../inventory/reader.ts';
import type { InputChange } from '../restart/pod-restarts.ts';
import { backoffMs, Wake } from '../retry.ts';
import { type FilesState, inspectFiles, type Inspection } from './inspect.ts';

interface ReactionFacts {
  readonly files: FilesState;
  /** `found`: present when we started, so a reader that needs a restart may well have started after them. */
  readonly since: 'found' | 'changed';
  readonly readers: readonly Reader[];
  /** Whether processes are checked before a restart: then files that were found are reported, too. */
  readonly canRestart: boolean;
}

type Reaction =
  /** No reader, or nothing to prove for one. */
  | { readonly kind: 'none' }
  /** Waits for the reason in `problem`. */
  | { readonly kind: 'wait'; readonly problem: string }
  | { readonly kind: 'react'; readonly prove: readonly Reader[]; readonly restart: readonly Reader[] };

const problems: Readonly<Partial<Record<FilesState, string>>> = {
  partial: 'a file is missing; wanted all of them',
  mismatched: 'the certificate and the key on disk do not belong together; wanted one generation of both',
  unreadable: 'a file cannot be read; wanted readable files',
};

/** The reaction to a change of an artefact's files. Pure. */
export function decideReaction({ files, since, readers, canRestart }: ReactionFacts): Reaction {
  if (readers.length === 0 || files === 'absent') return { kind: 'none' };
  const { [files]: problem } = problems;
  if (problem !== undefined) return { kind: 'wait', problem };
  const prove = readers.filter(({ needs, proof }) => needs === 'nothing' && proof.kind !== 'none');
  const restart = since === 'changed' || canRestart ? readers.filter(({ needs }) => needs === 'restart') : [];
  return prove.length + restart.length === 0 ? { kind: 'none' } : { kind: 'react', prove, restart };
}

/** Delay between the first attempts: a lease is renewed every two seconds. */
const quick = { firstMs: 10, longestMs: 1_000 };
/** Time after which a missing proof is reported: a failed start of a component shows within a minute. */
const boundMs = 60_000;
/** Delay between attempts after the report. */
const slowMs = 30_000;
/** Delay where a proof of use needs an action of other clients. */
const patient = { firstMs: 2_000, longestMs: slowMs };

/** Request to restart a component that reads the files of a change. */
export interface RestartRequest extends InputChange {
  readonly component: string;
}

export interface ReactorOptions extends Running {
  readonly artefact: ResolvedArtefact;
  readonly files: ArtefactFiles;
  readonly prove: Prove;
  /** Handles restarts that readers need. Must not block. Without it such readers are only reported. */
  readonly restart?: ((request: RestartRequest) => void) | undefined;
}

interface Noticed {
  readonly since: 'found' | 'changed';
  readonly at: Date;
  readonly inspection: Inspection | undefined;
}

type Outcome =
  | { readonly done: true; readonly digest: string; readonly proven?: string | undefined }
  | {
      readonly done: false;
      readonly event: 'reaction.failed' | 'proof.missing';
      readonly message: string;
      readonly waitsForOthers?: boolean;
    };

export class Reactor {
  readonly #options: ReactorOptions;
  readonly #log: Log;
  #newest: Noticed | undefined;
  readonly #wake = new Wake();
  /**
   * Digest of the files for which the last reaction succeeded: observed again (the second half of a pair), they need
   * none.
   */
  #settled = '';
  /** Digest of the files for which a restart has been requested, by component. */
  readonly #restartTold = new Map<string, string>();

  constructor(options: ReactorOptions) {
    this.#options = options;
    this.#log = options.log.with({ artefact: options.artefact.name });
  }

  get name(): string {
    return this.#options.artefact.name;
  }

  get files(): ArtefactFiles {
    return this.#options.files;
  }

  /** Whether use of the newest files has not been proven yet. */
  get isPending(): boolean {
    return this.#newest !== undefined;
  }

  /**
   * Called when the files changed; `inspection` is their state at that read, and saves the first attempt a read. Never
   * blocks; the newest notice replaces earlier ones.
   */
  notice(since: 'found' | 'changed', at: Date, inspection?: Inspection): void {
    const before = this.#newest;
    this.#newest = {
      since: before?.since === 'changed' ? 'changed' : since,
      at: before !== undefined && before.at > at ? before.at : at,
      inspection,
    };
    this.#wake.call();
  }

  /** Reacts until the signal aborts. */
  async run(): Promise<void> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      const change = this.#newest;
      if (change === undefined) await this.#wake.wait(this.#options);
      else if ((await this.#settle(change)) && this.#newest === change) this.#newest = undefined;
    }
  }

  /** Attempts until one succeeds (true), or until a newer change or an abort makes it void (false). */
  async #settle(change: Noticed): Promise<boolean> {
    const { artefact, clock, signal } = this.#options;
    const begun = clock.now().getTime();
    // Files found at the start may have been put in place before the machine was booted.
    const from = change.since === 'found' ? begun : change.at.getTime();
    const elapsed = (): number => clock.now().getTime() - from;
    let reported = false;
    let waits = 0;
    for (let attempt = 1; ; attempt += 1) {
      const inspection = attempt === 1 ? change.inspection : undefined;
      const outcome = await this.#attempt(change, inspection).catch((err: unknown) => this.#fault(err));
      if (signal.aborted || this.#newest !== change) return false;
      if (outcome.done) {
        this.#settled = outcome.digest;
        const fields = { duration: elapsed(), attempt };
        if (outcome.proven !== undefined) this.#log.info('proof.succeeded', { ...fields, message: outcome.proven });
        return true;
      }
      if (!reported && clock.now().getTime() - begun >= boundMs) {
        reported = true;
        const fields = { duration: elapsed(), attempt, message: outcome.message };
        if (outcome.event === 'proof.missing' && artefact.readers.every(waitsForOthers)) {
          this.#log.info(outcome.event, fields);
        } else this.#log.warn(outcome.event, fields);
      }
      if (outcome.waitsForOthers) waits += 1;
      const patientMs = outcome.waitsForOthers ? backoffMs(waits, patient) : 0;
      await this.#wake.wait(this.#options, Math.max(reported ? slowMs : backoffMs(attempt, quick), patientMs));
      if (signal.aborted || this.#newest !== change) return false;
    }
  }

  /** An error thrown for one artefact is retried like a failed reaction; other artefacts are not concerned. */
  #fault(err: unknown): Outcome {
    const { name } = this.#options.artefact;
    const message = `Cannot react to the files of "${name}": fault of this program, ${faultText(err)}; please report it`;
    return { done: false, event: 'reaction.failed', message };
  }

  async #attempt(change: Noticed, inspection?: Inspection): Promise<Outcome> {
    const { artefact, files, prove, restart } = this.#options;
    const { state: filesState, digest, changedAt = change.at } = inspection ?? (await inspectFiles(files));
    const canRestart = restart !== undefined;
    const reaction = decideReaction({ files: filesState, since: change.since, readers: artefact.readers, canRestart });
    if (reaction.kind === 'none' || (digest !== '' && digest === this.#settled)) return { done: true, digest };
    if (reaction.kind === 'wait') {
      const message = `Cannot use the files of "${artefact.name}": ${reaction.problem}`;
      return { done: false, event: 'reaction.failed', message };
    }
    if (this.#newest !== change) return { done: true, digest }; // void: the caller detects it too
    for (const { component } of reaction.restart) {
      if (this.#restartTold.get(component) === digest) continue;
      this.#restartTold.set(component, digest);
      if (restart !== undefined) {
        restart({ component, artefact: artefact.name, digest, changedAt, since: change.since });
        continue;
      }
      const message = `${component} reads "${artefact.name}" only at its start: it must be restarted to use the new files`;
      this.#log.error('reaction.failed', { component, reason: 'RestartNeeded', message });
    }
    if (reaction.prove.length === 0) return { done: true, digest };
    try {
      const proven: string[] = [];
      // Proofs that need other clients are read last, and seldom: a list of all requests is not for a busy API server.
      const groups = [
        reaction.prove.filter((reader) => !waitsForOthers(reader)),
        reaction.prove.filter(waitsForOthers),
      ];
      for (const readers of groups.filter(({ length }) => length > 0)) {
        const { state, message } = await prove(artefact, change.at, readers);
        const others = readers.every(waitsForOthers);
        if (state === 'unproven') return { done: false, event: 'proof.missing', message, waitsForOthers: others };
        if (state === 'proven') proven.push(message);
      }
      if ((await inspectFiles(files)).digest !== digest) {
        return { done: false, event: 'proof.missing', message: 'the files have changed while their use was proven' };
      }
      return { done: true, digest, proven: proven.length > 0 ? proven.join('; ') : undefined };
    } catch (err) {
      return { done: false, event: 'proof.missing', message: errorText(err) };
    }
  }
}

/** Whether a proof reads actions of other clients: their absence is no fault. */
const waitsForOthers = ({ proof }: Reader): boolean => proofKinds[proof.kind].waitsForOthers;
