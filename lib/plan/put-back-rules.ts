// A signer whose certificate cannot be used gets back the one that was there, from its copies. Nothing is signed for that
// and no other file changes, so it needs no right to make a CA (`owned`) and no clock that is known to be right. Which copy
// that is copy-evidence.ts decides. Pure.
import type { Signer } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import type { Doubt } from './copy-evidence.ts';
import { type Case, renew, type Verdict } from './judgement.ts';

/** In place of a renewal of this signer; undefined where there is nothing to put back. */
export function judgePutBack({ artefact, fact, now }: Case<Signer>, { reason, message }: Verdict): Verdict | undefined {
  const copies = fact.state === 'broken' ? fact.copies : undefined;
  const certificate = copies?.certificate;
  if (copies === undefined || certificate === undefined) return undefined;
  // In the API a signer without its key is made anew: everybody sees the same object.
  if (!copies.hasKey && !isFile(artefact.location)) return undefined;
  const told = `${message}; put back as ${copies.from.join(', ')} ${copies.from.length === 1 ? 'has' : 'have'} it`;
  const isValid = certificate.notBefore <= now && now < certificate.notAfter;
  const leaves = {
    trusted: new Set(isValid ? [certificate.fingerprint] : []),
    newFrom: new Set<string>(),
    certificate,
    isPutBack: true,
  } as const;
  const verdict = renew({ reason, message: told, now, after: [], leaves });
  return { ...verdict, putsBack: true, leaves: { ...verdict.leaves, renewed: false, hasKey: copies.hasKey } };
}

const doubts: Readonly<Record<Doubt, (places: string) => string>> = {
  different: (places) => `copies in ${places} are not the same`,
  ended: (places) => `copy in ${places} is not valid now, and what is here says that it is`,
  unnamed: (places) => `copy in ${places} has another name than what it has signed knows`,
};

/** What a damaged CA needs from people, where its copies do not tell it and it is not made here. */
export function wantedFormer({ fact }: Case<Signer>): string {
  const copies = fact.state === 'broken' ? fact.copies : undefined;
  const places = (copies?.from ?? []).join(', ');
  const known =
    copies === undefined ? 'there is no copy of it here' : `its ${doubts[copies.doubt ?? 'different'](places)}`;
  return (
    `${known}: bring back the certificate that was there, from another control-plane machine or a backup; until then ` +
    'nothing is signed with it, and what it has signed stays'
  );
}
