// Whether a pair from elsewhere may replace the present pair, on this machine or another. Pure.
import { unfitness } from '../inventory/fitness.ts';
import type { ResolvedTarget } from '../inventory/model.ts';
import type { Certificate, CertificateFacts } from '../pki/certificate.ts';
import { verifyChain } from '../pki/verify.ts';
import { announcedPart } from '../well-known.ts';

/** A machine's clock may be behind the signer's clock. */
const skewMs = 5 * 60_000;

/** Whether a successor is searched for: in the last fifth of its life, in which `status` announces the expiry. */
export function isEnding(
  certificate: Pick<CertificateFacts, 'notBefore' | 'notAfter'> | undefined,
  now: Date,
): boolean {
  if (certificate === undefined) return true;
  const { notBefore, notAfter } = certificate;
  const life = notAfter.getTime() - notBefore.getTime();
  return notAfter.getTime() - now.getTime() < life * announcedPart;
}

export interface OfferedPair {
  readonly offered: Certificate;
  /** The certificate in its place, where it is whole. */
  readonly present: Certificate | undefined;
  /** The CA next to the target on this machine; none where it cannot be read. */
  readonly authorities: readonly Certificate[];
}

interface Offer extends OfferedPair {
  readonly target: ResolvedTarget;
  readonly now: Date;
}

/** Why the pair may not be used, as the last part of a sentence; undefined: it may. */
export function offerProblem({ target, offered, present, authorities, now }: Offer): string | undefined {
  const { notAfter, notBefore } = offered.facts;
  if (now >= notAfter) return `it expired at ${notAfter.toISOString()}`;
  if (notBefore.getTime() > now.getTime() + skewMs) return `it is not valid before ${notBefore.toISOString()}`;
  if (present !== undefined && notAfter <= present.facts.notAfter) return 'it ends no later than the one that is there';
  const unfit = unfitness(target, offered.facts) ?? namesProblem(target, offered, present);
  if (unfit !== undefined) return unfit;
  // Any client can write the name of a CA, and the id of its key: without the CA the signature cannot be verified.
  const { issuer } = offered.fields;
  const isFormer = present?.fields.issuer.der.equals(issuer.der) === true;
  const isHere = authorities.some(({ fields: { subject } }) => subject.der.equals(issuer.der));
  if (target.mayBeOfOthers === true && isFormer && !isHere) {
    return `its CA "${offered.facts.issuer}" is not on this machine, so its signature cannot be verified; put it in place by hand`;
  }
  const answer = verifyChain({ leaf: offered, intermediates: [], roots: authorities, at: now });
  return answer.ok ? undefined : `the CA on this machine would not verify it, ${answer.reason}`;
}

/** Why the pair does not serve its readers like the present one: another node's pair would not. */
function namesProblem(target: ResolvedTarget, offered: Certificate, present: Certificate | undefined) {
  if (target.usage !== 'client') {
    const wanted = [...target.hostnames, ...(present?.facts.hostnames ?? [])];
    const missing = wanted.filter((name) => !offered.facts.hostnames.includes(name));
    return missing.length === 0 ? undefined : `it does not name ${[...new Set(missing)].join(', ')}`;
  }
  // The names of a foreign CA's certificate are its own: etcdadm puts the member's name in front.
  if (target.mayBeOfOthers === true || present === undefined) return undefined;
  const identity = ({ facts: { commonName, organizations } }: Certificate): string =>
    [commonName, ...organizations.toSorted()].join(', ');
  const [is, was] = [identity(offered), identity(present)];
  return is === was ? undefined : `it is for "${is}", wanted one for "${was}"`;
}
