// What this process itself has left half done: a step was written, one that depends on it was not. The contradiction
// that stands then between the two is our own work and need not settle before it is repaired. It is known by what the
// rows hold: each either what we found there and judged, or what we made of it. A row that holds anything else is
// another writer's, perhaps between two of its writes and read by us half old and half new, and gets its time. Pure.
import type { ArtefactFacts, CertificateFacts, Facts } from '../plan/facts.ts';
import type { StepResult } from './execute.ts';

/**
 * By artefact: the certificates that are known there, as one text for each state. Two at most, however long a write
 * fails: what was found at the last look, and what was made last.
 */
export type OwnWork = ReadonlyMap<string, { readonly found: string; readonly made: string }>;

export const noOwnWork: OwnWork = new Map();

const textOf = (certificates: readonly Pick<CertificateFacts, 'fingerprint'>[]): string =>
  certificates.map(({ fingerprint }) => fingerprint).join(' ');

/** What is known of a row that holds nothing we could know again, such as a copy without certificates: nothing. */
function stateOf(fact: ArtefactFacts | undefined): string {
  return fact?.state === 'present' ? textOf(fact.certificates) : '';
}

/** After a look that planned with `facts` and carried these steps out. */
export function ownWork(before: OwnWork, steps: readonly StepResult[], facts: Facts): OwnWork {
  if (steps.every(({ outcome }) => outcome === 'written')) return onlyUnread(before, facts);
  const work = new Map(before);
  for (const { artefact, certificates = [] } of steps) {
    const made = textOf(certificates.map(({ facts: each }) => each));
    const found = stateOf(facts.get(artefact.name));
    // A step that was not tried made nothing: a write before it may have been carried out all the same.
    work.set(artefact.name, { found, made: made === '' ? (before.get(artefact.name)?.made ?? '') : made });
  }
  return work;
}

/** Nothing is half done in what could be read; the rest is remembered until it can be read again. */
function onlyUnread(before: OwnWork, facts: Facts): OwnWork {
  return new Map([...before].filter(([name]) => (facts.get(name)?.state ?? 'unavailable') === 'unavailable'));
}

/** The facts without the age of what is as we left it: what has no age settles nothing. */
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
