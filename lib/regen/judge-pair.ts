// Whether a pair from elsewhere may take the place of the one that is here, or there. Pure.
import { unfitness } from '../inventory/fitness.ts';
import type { ResolvedTarget } from '../inventory/model.ts';
import type { Certificate } from '../pki/certificate.ts';
import { verifyChain } from '../pki/verify.ts';
import { announcedPart } from '../well-known.ts';

/** A machine's clock may be behind that of the one that signed. */
const skewMs = 5 * 60_000;

/** From when on a successor is looked for: in the last fifth of its life, in which `status` announces the end. */
export function isEnding(certificate: Certificate | undefined, now: Date): boolean {
  if (certificate === undefined) return true;
  const { notBefore, notAfter } = certificate.facts;
  const life = notAfter.getTime() - notBefore.getTime();
  return notAfter.getTime() - now.getTime() < life * announcedPart;
}

interface Offer {
  readonly target: ResolvedTarget;
  readonly offered: Certificate;
  /** What is in that place, where it can be read. */
  readonly present: Certificate | undefined;
  /** The CA beside the target on this machine; none where it cannot be read. */
  readonly authorities: readonly Certificate[];
  readonly now: Date;
}

/** Why not, as the end of a sentence; undefined: it may. */
export function offerProblem({ target, offered, present, authorities, now }: Offer): string | undefined {
  const { notAfter, notBefore } = offered.facts;
  if (now >= notAfter) return `it expired at ${notAfter.toISOString()}`;
  if (notBefore.getTime() > now.getTime() + skewMs) return `it is not valid before ${notBefore.toISOString()}`;
  if (present !== undefined && notAfter <= present.facts.notAfter) return 'it ends no later than the one that is there';
  const unfit = unfitness(target, offered.facts);
  if (unfit !== undefined) return unfit;
  // Of a CA that is not here its name is all that can be compared; one with the name of ours must be ours.
  const { issuer } = offered.fields;
  const isFormer = present?.fields.issuer.der.equals(issuer.der) === true;
  const isOurs = authorities.some(({ fields: { subject } }) => subject.der.equals(issuer.der));
  if (target.mayBeOfOthers === true && isFormer && !isOurs) return undefined;
  const answer = verifyChain({ leaf: offered, intermediates: [], roots: authorities, at: now });
  return answer.ok ? undefined : `the CA on this machine would not verify it, ${answer.reason}`;
}
