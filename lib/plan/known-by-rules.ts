// Whether a file of CA certificates holds the CAs of the peers of its readers: a server whose CA is not in it is
// refused, and so is a client. Pure.
import type { External, ResolvedTarget } from '../inventory/model.ts';
import { isFile, pathOf } from '../inventory/places.ts';
import { locationText } from '../store/store.ts';
import { type Case, validNow } from './decision.ts';
import { certificateOf, isValid } from './facts.ts';

/** Returns the first target that the readers of the file cannot verify, as a sentence; undefined: there is none. */
export function unknownToReaders(at: Case<External>): string | undefined {
  const { resolved, artefact, facts } = at;
  const { location } = artefact;
  const flags = isFile(location) ? (resolved.flagsByFile?.[pathOf(location)] ?? []) : [];
  for (const target of resolved.artefacts) {
    if (target.kind !== 'target') continue;
    const flag = target.knownBy?.map((one) => `${one.component} --${one.flag}`).find((one) => flags.includes(one));
    const signer = flag === undefined ? undefined : missingSigner(target, at);
    if (signer === undefined) continue;
    const issuer = resolved.artefacts.find(({ name }) => name === target.issuer);
    const isOurs = issuer !== undefined && facts.get(issuer.name) !== undefined && signer === issuer.name;
    const place = isOurs ? `${issuer.name} (${locationText(issuer.location)})` : `"${signer}"`;
    return (
      `it does not hold the CA by which ${flag} must know ${target.name}: add the certificate of ${place} to ` +
      `${locationText(location)}, or correct the flag`
    );
  }
  return undefined;
}

/**
 * Returns the signer of a target that the file lacks: the entry that renews the target, else the issuer by name. The
 * signature of a valid certificate shows its signer; a certificate that is to be made gets its issuer's.
 */
function missingSigner(target: ResolvedTarget, { fact, facts, now }: Case<External>): string | undefined {
  const held = validNow(fact, now);
  const known = facts.get(target.name);
  const certificate = certificateOf(known);
  if (certificate !== undefined && [certificate.fingerprint, ...certificate.signedBy].some((print) => held.has(print)))
    return undefined;
  const ofIssuer = target.issuer === undefined ? new Set<string>() : validNow(facts.get(target.issuer), now);
  const isHeld = [...ofIssuer].some((print) => held.has(print));
  if (isValid(certificate, now)) {
    const isOfIssuer = certificate.signedBy.some((print) => ofIssuer.has(print));
    if (isOfIssuer || target.issuer === undefined || target.mayBeOfOthers === true)
      return isOfIssuer ? target.issuer : certificate.issuer;
    return isHeld ? undefined : target.issuer;
  }
  const isMade =
    known?.state === 'present' ||
    (known?.state === 'absent' && target.presence !== 'optional') ||
    (known?.state === 'broken' && known.problem !== 'foreign');
  return isMade && ofIssuer.size > 0 && !isHeld ? target.issuer : undefined;
}
