// Whether the peers of a certificate can verify it: its signer is in the bundle that they read, or in the file of CA
// certificates that a flag names, and the holder of a kubeconfig knows its server. Pure.
import { bareHost, isLoopbackHost } from '../address.ts';
import { flagName } from '../inventory/file-flags.ts';
import { unfitness } from '../inventory/fitness.ts';
import { bundlesAbove } from '../inventory/order.ts';
import { isFile, pathOf } from '../inventory/places.ts';
import { type Case, type Expected, type Fault, type Finding, type PairCase, validNow } from './decision.ts';
import { settled } from './settling.ts';
import type { CertificateFacts } from '../pki/certificate.ts';
import { constraintProblem } from '../pki/name-constraints.ts';
import { hostnameDer } from '../pki/names.ts';
import { certificateOf, certificatesOf, isClosed, isValid } from './facts.ts';
import { isSignedByOthers } from './others-rules.ts';
import type { External, ResolvedTarget } from '../inventory/model.ts';
import { locationText } from '../store/store.ts';

/**
 * Finds a leaf (or an intermediate) that no valid certificate of its own bundle has signed: readers refuse it. Without
 * a bundle, readers of a signer on disk read the signer's own file.
 */
export function notTrusted(at: PairCase, certificate: CertificateFacts): Finding | undefined {
  const { signedBy } = certificate;
  const { artefact, facts, expected, resolved } = at;
  if (artefact.issuer === undefined || isSignedByOthers(at, certificate)) return undefined;
  const bundles = bundlesAbove(resolved.artefacts, artefact).map(({ name }) => name);
  const trustees = bundles.length === 0 && isOwnBundle(at, artefact.issuer) ? [artefact.issuer] : bundles;
  if (trustees.some((name) => facts.get(name)?.state === 'unavailable')) return undefined;
  // Each bundle has readers of its own, so each must trust it.
  const names = trustees.filter((name) => !signedBy.some((print) => expected.get(name)?.trusted.has(print)));
  if (names.length === 0) return undefined;
  const fault = {
    reason: 'IssuerNotTrusted',
    message: `no valid certificate in ${names.join(', ')} has signed it`,
  } as const;
  // A bundle that is rewritten has lost its former signers for good; otherwise another writer may be active.
  if (names.some((name) => expected.get(name)?.renewed)) return fault;
  return settled(at, [artefact.name, artefact.issuer, ...names], fault);
}

/** Finds a usage or subject that its readers refuse, whichever CA has signed it. */
export function unfit({ artefact }: PairCase, certificate: CertificateFacts): Fault | undefined {
  const problem = artefact.kind === 'target' ? (certificate.refused ?? unfitness(artefact, certificate)) : undefined;
  return problem === undefined ? undefined : { reason: 'Unfit', message: problem };
}

/** Finds names that its readers refuse by the name constraints of the CA that has signed it. */
export function namesNotPermitted(at: PairCase, { hostnames, signedBy }: CertificateFacts): Fault | undefined {
  const signer = at.expected.get(at.artefact.issuer ?? '')?.certificate;
  if (signer === undefined || !signedBy.includes(signer.fingerprint)) return undefined;
  const problem = constrainedNames(signer, hostnames);
  return problem === undefined ? undefined : { reason: 'Unfit', message: `its CA has name constraints: ${problem}` };
}

/** Why the CA may not sign for these host names and addresses; undefined: it may sign for all of them. */
export const constrainedNames = (
  { nameConstraints }: Pick<CertificateFacts, 'nameConstraints'>,
  hostnames: readonly string[],
): string | undefined => nameConstraints && constraintProblem(hostnames.map(hostnameDer), nameConstraints);

/** Whether readers of this signer's leaves can have its own file, and the file holds a certificate to compare with. */
function isOwnBundle({ resolved, facts }: PairCase, issuer: string): boolean {
  const signer = resolved.artefacts.find(({ name }) => name === issuer);
  return signer !== undefined && isFile(signer.location) && certificatesOf(facts.get(issuer)).length > 0;
}

/**
 * Finds a kubeconfig that knows its server by another CA than the present signer: its holder refuses the server. While
 * the CA is being replaced both are valid, and the former is enough as long as the servers show its certificates. A
 * kubeconfig with a foreign CA, or the system's, reaches its server through something that shows certificates of that
 * CA, unless it names the API server of this machine: no proxy stands before that.
 */
export function authorityDiffers(at: PairCase): Fault | undefined {
  const { artefact, fact, facts, expected, resolved, policy, now } = at;
  if (fact.state !== 'present' || fact.authorities === undefined || fact.authorityIsForeign === true) return undefined;
  const { authorities, othersAuthorityEnds } = fact;
  const worksWithOthers = othersAuthorityEnds !== undefined && now < othersAuthorityEnds;
  const { issuer = '' } = artefact;
  if (worksWithOthers && policy.kind === 'OnlyWhenExpired' && !isServedHere(at, fact.server)) return undefined;
  const signer = expected.get(issuer);
  if (
    (signer?.origin === 'ownKey' || signer?.origin === 'follow') &&
    authorities.some((print) => signer.trusted.has(print))
  ) {
    return { reason: 'AuthorityDiffers', message: `${issuer}, by which it knows its server, is renewed` };
  }
  const live = signer?.certificate?.fingerprint;
  if (signer === undefined || live === undefined || !signer.trusted.has(live) || authorities.includes(live)) {
    return undefined;
  }
  const former = authorities.filter((print) => signer.trusted.has(print));
  const served = resolved.artefacts.flatMap((other) =>
    other.kind === 'target' &&
    other.usage !== 'client' &&
    other.issuer === issuer &&
    expected.get(other.name)?.renewed === false
      ? certificatesOf(facts.get(other.name)).slice(0, 1)
      : [],
  );
  const willDo = served.length > 0 && served.every(({ signedBy }) => former.some((print) => signedBy.includes(print)));
  if (willDo) return undefined;
  return { reason: 'AuthorityDiffers', message: `it does not know its server by the certificate of ${issuer}` };
}

/**
 * Whether this URL leads to the API server of this machine, and that shows a certificate of the kubeconfig's own issuer
 * for it. The name of the control plane in such a certificate proves nothing: a load balancer may answer under that
 * name.
 */
function isServedHere({ artefact, facts, expected, resolved }: PairCase, server: string | undefined): boolean {
  const [url, local] = [server, resolved.endpoints?.local].map((text) => (text === undefined ? null : URL.parse(text)));
  if (!url || !local || url.protocol !== 'https:') return false;
  if (url.host !== local.host && !(isLoopbackHost(bareHost(url)) && url.port === local.port)) return false;
  const signer = expected.get(artefact.issuer ?? '')?.certificate?.fingerprint;
  return resolved.artefacts.some((other) => {
    if (other.kind !== 'target' || other.usage === 'client' || other.issuer !== artefact.issuer) return false;
    const [served] = certificatesOf(facts.get(other.name));
    const isRead = other.readers.some(({ proof }) => proof.kind === 'served');
    return isRead && served !== undefined && signer !== undefined && served.signedBy.includes(signer);
  });
}

/** Whether a CA on disk is whole except for its key: kubeadm's external CA. */
export function isKeyElsewhere({ facts, resolved }: PairCase, issuer: string): boolean {
  const location = resolved.artefacts.find(({ name }) => name === issuer)?.location;
  return location !== undefined && isFile(location) && isClosed(facts.get(issuer));
}

/** Whether a bundle will hold the certificate of this signer, also where it is not made yet. */
export function holds(bundle: Expected | undefined, issuer: string, signer: Expected): boolean {
  if (bundle === undefined) return false;
  if (signer.renewed) return bundle.newFrom.has(issuer);
  return signer.certificate !== undefined && bundle.trusted.has(signer.certificate.fingerprint);
}

/** Returns the first target that the readers of the file cannot verify, as a sentence; undefined: there is none. */
export function unknownToReaders(at: Case<External>): string | undefined {
  const { resolved, artefact, facts } = at;
  const { location } = artefact;
  const flags = isFile(location) ? (resolved.flagsByFile?.[pathOf(location)] ?? []) : [];
  for (const target of resolved.artefacts) {
    if (target.kind !== 'target') continue;
    const flag = target.knownBy?.map(flagName).find((one) => flags.includes(one));
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
