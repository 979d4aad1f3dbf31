// Carries out a plan: one write for each decision to renew, in the order signer, bundle, target. A step that fails or
// meets a conflict stops the steps that depend on it, so no target is ever signed by a signer that no bundle holds; all
// other steps go on, independent ones in parallel. Results are returned as values: nothing is thrown, nothing logged.
import { leastVerifiedBits } from '../pki/verify.ts';
import { prepareSigning } from '../pki/encode.ts';
import { RecoveryError, errorText } from '../errors.ts';
import type { Lock } from '../host/lock.ts';
import type { IssuedPair, ResolvedArtefact, Resolved } from '../inventory/model.ts';
import type { Issued } from '../issue/ingredients.ts';
import { make } from '../issue/issue.ts';
import { origins } from '../origin/origins.ts';
import { algorithmText, type KeyAlgorithm, type PrivateKey } from '../pki/key.ts';
import type { KeyPool } from '../pki/key-pool.ts';
import type { CertificateFacts } from '../pki/certificate.ts';
import { type ArtefactFacts, type Facts, usableCertificates } from '../plan/facts.ts';
import type { Gathered } from '../plan/gather.ts';
import type { Sources } from '../plan/gather-offers.ts';
import type { Decision } from '../plan/decision.ts';
import type { Plan } from '../plan/plan.ts';
import type { Material, Store } from '../store/store.ts';
import { isFile } from '../inventory/places.ts';
import { defaultKeyAlgorithm } from '../well-known.ts';

export type StepOutcome = 'written' | 'conflict' | 'failed' | 'skipped';

export interface StepResult {
  readonly artefact: ResolvedArtefact;
  readonly decision: Decision;
  readonly outcome: StepOutcome;
  /** Error of a failed step. */
  readonly err?: RecoveryError;
  /** Reason for a skipped step: the step it waited for, or a request to stop. */
  readonly because?: string;
  /**
   * Certificates made: also by a failed step, because a write whose answer is lost may have been carried out. No keys.
   */
  readonly certificates?: Issued['certificates'];
}

interface Execution {
  readonly resolved: Resolved;
  readonly plan: Plan;
  readonly gathered: Gathered;
  readonly store: Store;
  readonly keys: KeyPool;
  /** Keys of failed attempts by artefact: the next attempt takes them, so failures over weeks make one key. */
  readonly keptKeys?: Map<string, PrivateKey>;
  /** Absent: the algorithm of the certificate that is replaced is kept. */
  readonly keyAlgorithm?: KeyAlgorithm | undefined;
  readonly now: Date;
  readonly signal: AbortSignal;
  /** Sources whose answers are written where the plan chooses them. */
  readonly sources?: Sources | undefined;
  /** Why files of this host may not be written now. */
  readonly diskRefused?: RecoveryError | undefined;
  /** Lock of the files of this host, where held. */
  readonly lock?: Pick<Lock, 'confirm'> | undefined;
  /** Called with the result of each step. */
  readonly onStep?: (result: StepResult) => void;
}

export async function execute(execution: Execution): Promise<readonly StepResult[]> {
  const { resolved, plan, gathered, onStep } = execution;
  const artefacts = new Map(resolved.artefacts.map((artefact) => [artefact.name, artefact]));
  const material = new Map<string, Material>(gathered.found);
  const steps = new Map<string, Promise<StepResult>>();
  const signs = plan.decisions.some(({ action }) => action === 'renew');
  // Decisions are in topological order: the steps that a step waits for have been started before it.
  for (const decision of plan.decisions) {
    const artefact = artefacts.get(decision.artefact);
    // Obtained between two passes, and then decided again.
    if (decision.action !== 'renew' || decision.obtains !== undefined || artefact === undefined) continue;
    const before = decision.after.flatMap((name) => steps.get(name) ?? []);
    steps.set(
      artefact.name,
      Promise.all(before).then(async (results) => {
        const result = await step({ artefact, decision, results, material, execution });
        onStep?.(result);
        return result;
      }),
    );
  }
  // While other threads make keys, there is time to load the modules that sign with them. A step that cannot load them
  // reports it.
  if (signs) void prepareSigning().catch(() => undefined);
  return Promise.all(steps.values());
}

interface Step {
  readonly artefact: ResolvedArtefact;
  readonly decision: Decision;
  /** Results of the steps that this one waits for. */
  readonly results: readonly StepResult[];
  /** Shared by all steps: a step adds the material that it has written. */
  readonly material: Map<string, Material>;
  readonly execution: Execution;
}

async function step({ artefact, decision, results, material, execution }: Step): Promise<StepResult> {
  const { resolved, store, gathered, keptKeys, now, signal } = execution;
  const result = { artefact, decision };
  const stopped = results.find(({ outcome }) => outcome !== 'written');
  if (stopped !== undefined) {
    return { ...result, outcome: 'skipped', because: `${stopped.artefact.name} was not written` };
  }
  if (signal.aborted) return { ...result, outcome: 'skipped', because: 'asked to stop' };
  const { diskRefused } = execution;
  if (diskRefused !== undefined && isFile(artefact.location)) return { ...result, outcome: 'failed', err: diskRefused };
  let certificates: Issued['certificates'] = [];
  try {
    const takeKey = (pair: IssuedPair, like?: KeyAlgorithm): Promise<PrivateKey> =>
      keyFor(pair, algorithmOf(pair, execution, like), execution);
    const lost = (name: string): boolean => usableCertificates(gathered.facts.get(name)).length === 0;
    const { backups, signerCopies } = gathered;
    const { origin = 'sign', holder, becomes } = decision;
    const { answer } = execution.sources?.get(artefact.name) ?? {};
    const obtained = answer !== undefined && 'key' in answer ? answer : undefined;
    const from = { resolved, material, backups, takeKey, lost, now, signerCopies, holder, becomes, obtained };
    const issued = await make(artefact, from, origins[origin].make);
    const seen = gathered.found.get(artefact.name) ?? 'absent';
    const { certificates: made, ...next } = issued;
    certificates = made;
    if (isFile(artefact.location)) await execution.lock?.confirm();
    const outcome = await store.write(artefact.location, next, seen, signal);
    if (outcome === 'written') material.set(artefact.name, next);
    keptKeys?.delete(artefact.name); // the key is in use, or another writer's is
    return { ...result, outcome, certificates };
  } catch (err) {
    const known = err instanceof RecoveryError ? err : new RecoveryError('WriteFailed', errorText(err), { cause: err });
    return { ...result, outcome: 'failed', err: known, certificates };
  }
}

async function keyFor(
  { name }: IssuedPair,
  algorithm: KeyAlgorithm,
  { keys, keptKeys }: Execution,
): Promise<PrivateKey> {
  const kept = keptKeys?.get(name);
  const fits = kept !== undefined && algorithmText(kept.algorithm) === algorithmText(algorithm);
  const key = fits ? kept : await keys.take(algorithm);
  keptKeys?.set(name, key);
  return key;
}

/**
 * Algorithm of a new key: as configured, else as in the replaced certificate, else as in the certificate used as a
 * model (`like`).
 */
function algorithmOf({ name }: IssuedPair, { gathered, keyAlgorithm }: Execution, like?: KeyAlgorithm): KeyAlgorithm {
  const fact = gathered.facts.get(name);
  const present = fact !== undefined && 'certificates' in fact ? fact.certificates?.[0]?.key : undefined;
  const isTooSmall = present?.name === 'RSA' && present.bits < leastVerifiedBits;
  const replaced = isTooSmall ? undefined : present;
  return keyAlgorithm ?? replaced ?? like ?? defaultKeyAlgorithm;
}

// Own work left half done by this process: a step was written, a step that depends on it was not. The contradiction
// between the two is our own and need not settle before it is repaired. It is recognised by the content of the
// artefacts: each either as we found and judged it, or as we made it. Any other content is another writer's, perhaps
// read between two of its writes, half old and half new, and gets its time to settle.

/**
 * Known certificates by artefact, as one text for each state. Two at most, however long a write fails: those found by
 * the last pass, and those made last.
 */
export type OwnWork = ReadonlyMap<string, { readonly found: string; readonly made: string }>;

export const noOwnWork: OwnWork = new Map();

const textOf = (certificates: readonly Pick<CertificateFacts, 'fingerprint'>[]): string =>
  certificates.map(({ fingerprint }) => fingerprint).join(' ');

/** Empty for content that could not be recognised again, such as a copy without certificates. */
function stateOf(fact: ArtefactFacts | undefined): string {
  return fact?.state === 'present' ? textOf(fact.certificates) : '';
}

/** Own work after a pass that planned with `facts` and carried these steps out. */
export function ownWork(before: OwnWork, steps: readonly StepResult[], facts: Facts): OwnWork {
  if (steps.every(({ outcome }) => outcome === 'written')) return onlyUnread(before, facts);
  const work = new Map(before);
  for (const { artefact, certificates = [] } of steps) {
    const made = textOf(certificates.map(({ facts: each }) => each));
    const found = stateOf(facts.get(artefact.name));
    // A step that was not tried made nothing: an earlier write may have been carried out all the same.
    work.set(artefact.name, { found, made: made === '' ? (before.get(artefact.name)?.made ?? '') : made });
  }
  return work;
}

/**
 * Nothing is half done in artefacts that could be read; unreadable artefacts are remembered until they can be read
 * again.
 */
function onlyUnread(before: OwnWork, facts: Facts): OwnWork {
  return new Map([...before].filter(([name]) => (facts.get(name)?.state ?? 'unavailable') === 'unavailable'));
}

/** The facts without the age of artefacts in a state that we know: without an age there is no time to settle. */
export function withoutWaiting(facts: Facts, work: OwnWork): Facts {
  if (work.size === 0) return facts;
  return new Map(
    [...facts].map(([name, fact]): [string, ArtefactFacts] => {
      const known = work.get(name);
      const state = stateOf(fact);
      if (fact.state !== 'present' || state === '') return [name, fact];
      if (state !== known?.found && state !== known?.made) return [name, fact];
      const { since: _, ...ageless } = fact;
      return [name, ageless];
    }),
  );
}
