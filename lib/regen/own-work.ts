// What this process itself has left half done: a step was written, one that depends on it was not. The contradiction
// that stands then between the two is our own work and need not settle before it is repaired. It is known by what the
// rows hold: each either what we found there and judged, or what we made of it. A row that holds anything else is
// another writer's, perhaps between two of its writes and read by us half old and half new, and gets its time. Pure.
import type { ArtefactFacts, CertificateFacts, Facts } from '../plan/facts.ts';
import type { StepResult } from './execute.ts';

/** By artefact: the certificates that are known there, as one text for each state. */
export type OwnWork = ReadonlyMap<string, ReadonlySet<string>>;

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
    const states = [stateOf(facts.get(artefact.name)), textOf(certificates.map((made) => made.facts))];
    work.set(artefact.name, new Set([...(work.get(artefact.name) ?? []), ...states].filter((state) => state !== '')));
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
      if (fact.state !== 'present' || work.get(name)?.has(stateOf(fact)) !== true) return [name, fact];
      const { since: _, ...ageless } = fact;
      return [name, ageless];
    }),
  );
}
