// Sources of the renewal of a CA that has expired, or expires soon, next to its own files: a successor made with the
// same key and brought to a kubeconfig, a bundle or a file next to it; and the artefacts that name the serial number of
// the CA. Pure.
import type { Resolved } from '../inventory/model.ts';
import { earliestDue } from '../pki/ca-due.ts';
import { type Certificate, isSame, wholeCertificates } from '../pki/certificate.ts';
import { namesSerialOf } from '../pki/own-key.ts';
import { newestSuccessor } from '../pki/successor.ts';
import type { Found } from '../store/store.ts';
import type { Facts } from './facts.ts';
import type { FaultKeeper } from './faults.ts';

interface SuccessorSources {
  readonly resolved: Resolved;
  readonly found: ReadonlyMap<string, Found>;
  readonly now: Date;
}

interface Successors {
  readonly facts: Facts;
  /** Successor by signer, where there is one. */
  readonly newer: ReadonlyMap<string, Certificate>;
}

export function withSuccessors(
  facts: Facts,
  { resolved, found, now }: SuccessorSources,
  onFault: FaultKeeper['keep'],
): Successors {
  const told = new Map(facts);
  const newer = new Map<string, Certificate>();
  for (const artefact of resolved.artefacts) {
    const { name } = artefact;
    const fact = facts.get(name);
    const [first] = fact?.state === 'present' ? fact.certificates : [];
    if (artefact.kind !== 'signer' || fact?.state !== 'present' || first === undefined) continue;
    const ownBeforeMs = artefact.renewAhead === true ? artefact.validity - artefact.refresh : undefined;
    if (now < earliestDue(first, ownBeforeMs)) continue;
    try {
      const all = [...found].flatMap(([from, { entries }]) => holdingsOf(entries).map((held) => ({ from, held })));
      const own = all.find(({ from, held }) => from === name && held.facts.fingerprint === first.fingerprint)?.held;
      if (own === undefined) continue;
      const namedBy = all.flatMap(({ from, held }) => (namesSerialOf(held, own) ? [from] : []));
      const held = all.map((one) => one.held);
      const best = newestSuccessor(own, held, now);
      if (best !== undefined) newer.set(name, best);
      const places = all.flatMap(({ from, held: one }) => (best !== undefined && isSame(one, best) ? [from] : []));
      told.set(name, {
        ...fact,
        successor: { newer: best?.facts, from: [...new Set(places)], namedBy: [...new Set(namedBy)] },
      });
    } catch (err) {
      onFault(name, err);
    }
  }
  return { facts: told, newer };
}

/** All certificates of an artefact, in whichever entry. Keys are in no certificate block. */
const holdingsOf = (entries: Found['entries']): readonly Certificate[] =>
  Object.values(entries).flatMap(wholeCertificates);
