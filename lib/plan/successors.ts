// Sources of the renewal of a CA that has expired, or expires soon, next to its own files: a successor made with the
// same key and brought to a kubeconfig, a bundle or a file next to it; and the artefacts that name the serial number of
// the CA. Pure.
import { earliestDue } from '../pki/ca-due.ts';
import { type Certificate, isSame, wholeCertificates } from '../pki/certificate.ts';
import { namesSerialOf } from '../pki/own-key.ts';
import { newestSuccessor } from '../pki/successor.ts';
import type { Found } from '../store/store.ts';
import { certificateOf, type Facts } from './facts.ts';
import type { FaultKeeper } from './faults.ts';
import { judgeSigners, type SignerSources } from './gather-signers.ts';

interface Successors {
  readonly facts: Facts;
  /** Successor by signer, where there is one. */
  readonly newer: ReadonlyMap<string, Certificate>;
}

export async function withSuccessors(
  facts: Facts,
  { resolved, found, now }: Pick<SignerSources, 'resolved' | 'found' | 'now'>,
  onFault: FaultKeeper['keep'],
): Promise<Successors> {
  const newer = new Map<string, Certificate>();
  const told = await judgeSigners(facts, { resolved }, onFault, async (signer, fact) => {
    const { name, renewAhead, validity, refresh } = signer;
    const first = certificateOf(fact);
    if (fact.state !== 'present' || first === undefined) return undefined;
    if (now < earliestDue(first, renewAhead === true ? validity - refresh : undefined)) return undefined;
    const all = [...found].flatMap(([from, { entries }]) => holdingsOf(entries).map((held) => ({ from, held })));
    const own = all.find(({ from, held }) => from === name && held.facts.fingerprint === first.fingerprint)?.held;
    if (own === undefined) return undefined;
    const namedBy = all.flatMap(({ from, held }) => (namesSerialOf(held, own) ? [from] : []));
    const held = all.map((one) => one.held);
    const best = newestSuccessor(own, held, now);
    if (best !== undefined) newer.set(name, best);
    const places = all.flatMap(({ from, held: one }) => (best !== undefined && isSame(one, best) ? [from] : []));
    return {
      ...fact,
      successor: { newer: best?.facts, from: [...new Set(places)], namedBy: [...new Set(namedBy)] },
    };
  });
  return { facts: told, newer };
}

/** All certificates of an artefact, in whichever entry. Keys are in no certificate block. */
const holdingsOf = (entries: Found['entries']): readonly Certificate[] =>
  Object.values(entries).flatMap(wholeCertificates);
