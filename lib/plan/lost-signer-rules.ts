// A CA that is lost, damaged or about to expire and may not be replaced: it is put back from its copies, else a person
// brings it. Pure.
import type { ResolvedSigner, Signer } from '../inventory/model.ts';
import { isFile, isMadeHere } from '../inventory/places.ts';
import { blocked, bring, type Case, type Faulty, keep, laterMs, lookAgainMs, renew, type Verdict } from './decision.ts';
import { type Doubt, isValid } from './facts.ts';

/**
 * Restores the former certificate from its copies (signer-copies.ts). Nothing is signed and no other file changes, so
 * it needs neither the right to make a CA (`owned`) nor a confirmed clock.
 */
export function signerFromCopies(at: Faulty<Case<Signer>>): Verdict | undefined {
  const { artefact, fact, now, fault } = at;
  const copies = fact.state === 'broken' ? fact.copies : undefined;
  const certificate = copies?.certificate;
  if (copies === undefined || certificate === undefined) return undefined;
  // In the API a signer without its key is regenerated: every reader sees the same object.
  if (!copies.hasKey && !isFile(artefact.location)) return undefined;
  const message = `${fault.message}; put back as ${copies.from.join(', ')} ${copies.from.length === 1 ? 'has' : 'have'} it`;
  const trusted = new Set(isValid(certificate, now) ? [certificate.fingerprint] : []);
  const leaves = { renewed: false, hasKey: copies.hasKey, trusted, certificate };
  return renew({ ...at, fault: { ...fault, message } }, [], leaves, 'putBack');
}

/** Reports an absent CA: a second machine that lacks it so far looks like the only one, which has lost it. */
export function onOtherMachines({ artefact, now, fault }: Faulty<Case<Signer>>): Verdict | undefined {
  if (fault.reason !== 'Absent' || typeof artefact.owned !== 'object') return undefined;
  const wanted = 'copy it from another machine or from a backup; where there is no other, run "init render" again';
  return bring('NotOurs', `${fault.message}, and other machines may have it: ${wanted}`, laterMs(now, lookAgainMs));
}

const doubts: Readonly<Record<Doubt, (places: string) => string>> = {
  different: (places) => `copies in ${places} are not the same`,
  ended: (places) => `copy in ${places} is not valid now, and what is here says that it is`,
  unnamed: (places) => `copy in ${places} has another name than what it has signed knows`,
};

/** Reports a CA that is not made here, where its copies do not show the former certificate. */
export function damagedForGood({
  artefact,
  fact,
  now,
  fault: { reason, message },
}: Faulty<Case<Signer>>): Verdict | undefined {
  const copies = fact.state === 'broken' ? fact.copies : undefined;
  const isDamaged = reason === 'Damaged';
  if (isMadeHere(artefact) || (!isDamaged && copies?.doubt === undefined)) return undefined;
  const places = (copies?.from ?? []).join(', ');
  const known =
    copies === undefined ? 'there is no copy of it here' : `its ${doubts[copies.doubt ?? 'different'](places)}`;
  const wanted =
    `${known}: bring back the certificate that was there, from another control-plane machine or a backup; until then ` +
    'nothing is signed with it, and what it has signed stays';
  return bring(isDamaged ? reason : 'NotOurs', `${message}; ${wanted}`, laterMs(now, lookAgainMs));
}

/** Reported once, for the CA: the message of a leaf only refers to it. */
export function endingSigner(message: string, until: Date): Verdict {
  const wanted =
    'it is not renewed here, and nothing that it signs outlives it: renew it with the same key, and bring it to every machine';
  return keep('SignerEnding', `${message}; ${wanted}`, until);
}

export function notMadeHere({
  artefact,
  fact,
  policy,
  now,
  fault: { reason, message },
}: Faulty<Case<ResolvedSigner>>): Verdict | undefined {
  if (isMadeHere(artefact)) return undefined;
  const later = laterMs(now, lookAgainMs);
  if (reason === 'RefreshDue' && policy.ahead !== undefined && isFile(artefact.location))
    return endingSigner(message, later);
  if (reason === 'RefreshDue') return keep('NotOurs', `${message}; renew it by hand, it is not made here`, later);
  // It becomes valid in time, or when the clock is corrected.
  if (reason === 'NotYetValid')
    return blocked('NotOurs', `${message}; it is not made here: see that the clock is right`, later);
  const told = `${message}; bring a new one by hand, it is not made here: other machines may have the same one`;
  const key = fact.state === 'broken' && artefact.keyWanted !== undefined ? `; ${artefact.keyWanted}` : '';
  return bring('NotOurs', `${told}${key}`, later);
}
