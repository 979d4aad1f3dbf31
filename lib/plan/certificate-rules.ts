// When a pair (a signer or a leaf certificate with its key) is renewed, and the obstacles to that. Pure. Two policies:
// OnlyWhenExpired touches absent, broken, expired or untrusted pairs; BeforeExpiry also renews ahead of time
// (refresh-rules.ts).
import type { ResolvedArtefact, ResolvedSigner, ResolvedTarget } from '../inventory/model.ts';
import { bundlesAbove, madeOf } from '../inventory/order.ts';
import { isFile, isMadeHere } from '../inventory/places.ts';
import { uncoveredHostnames } from '../pki/names.ts';
import { locationText } from '../store/store.ts';
import { broughtByOthers } from './brought-signer-rules.ts';
import { doubt } from './clock-rules.ts';
import { isRenewedAhead, postponed, renewalAt } from './ahead-rules.ts';
import { blocked, bring, type Case, type Check, decide, earliest, type Fault, type Faulty } from './decision.ts';
import { type Finding, firstOf, idleMs, keep, laterMs, lookAgainMs, type PairCase } from './decision.ts';
import { refusedByNewer, renew, soonMs, type Verdict, writtenOf } from './decision.ts';
import { settlesAt, stillUnusable } from './settling.ts';
import { type CertificateFacts, clockSkewMs } from '../pki/certificate.ts';
import { certificateOf, certificatesOf, isClosed, precedenceText } from './facts.ts';
import { withOwnKey } from './own-key-rules.ts';
import { expiryWithGrace, isDueAnyway, isOwner, newNotAfter, refreshAt, refreshDue } from './refresh-rules.ts';
import { ofOtherNode, ofOthers, sharedKeyLost, signedByOthers } from './others-rules.ts';
import { damagedForGood, endingSigner, notMadeHere, onOtherMachines, signerFromCopies } from './lost-signer-rules.ts';
import { authorityDiffers, constrainedNames, holds, isKeyElsewhere, namesNotPermitted } from './trust-rules.ts';
import { notTrusted, unfit } from './trust-rules.ts';

export const certificateIs = (
  ...checks: readonly ((at: PairCase, certificate: CertificateFacts) => Finding | undefined)[]
): readonly Check<PairCase>[] =>
  checks.map((check) => (at) => {
    const certificate = certificateOf(at.fact);
    return certificate && check(at, certificate);
  });

export function judgeSigner(at: Case<ResolvedSigner>): Verdict {
  return decide(at, {
    checks: [keyElsewhere, stillUnusable, ...certificateIs(notYetValid, expired, notTrusted, undated, refreshDue)],
    otherwise: healthy,
    obstacles: [
      ...issuerObstacles,
      signerFromCopies,
      withOwnKey,
      broughtByOthers,
      onOtherMachines,
      damagedForGood,
      notMadeHere,
      postponed,
    ],
    renewal: renewed,
  });
}

export function judgeTarget(at: Case<ResolvedTarget>): Verdict {
  const leftAlone = firstOf(at, [absentAsItMayBe, superseded]);
  if (leftAlone !== undefined) return leftAlone;
  const trust = [notTrusted, authorityDiffers, signedByOthers];
  const looks = certificateIs(
    notYetValid,
    expired,
    unfit,
    namesNotPermitted,
    ofOtherNode,
    hostnameMissing,
    ...trust,
    undated,
    refreshDue,
  );
  const verdict = decide(at, {
    checks: [stillUnusable, ...looks],
    otherwise: healthy,
    obstacles: [ofOthers, sharedKeyLost, ...issuerObstacles, issuerMayNotName, namesUnknown, serverUnknown, postponed],
    renewal: renewed,
  });
  const unknown = at.artefact.namesUnknown;
  // The present certificate is the declaration of a `present` target.
  if (unknown === undefined || verdict.action !== 'keep' || at.artefact.template === 'present') return verdict;
  const message = `${verdict.message}; whether it holds all its names is not known, because ${unknown}`;
  const recheckAt = earliest(verdict.recheckAt, laterMs(at.now, lookAgainMs));
  return { ...verdict, reason: 'HostnameUnknown', message, recheckAt };
}

function absentAsItMayBe({ artefact, fact, now }: Case<ResolvedTarget>): Verdict | undefined {
  if (fact.state !== 'absent' || artefact.presence !== 'optional') return undefined;
  return keep('Healthy', 'absent, as it may be', laterMs(now, idleMs));
}

export function superseded({
  artefact: { supersededBy: successor },
  facts,
  now,
}: Case<ResolvedTarget>): Verdict | undefined {
  if (successor === undefined || facts.get(successor)?.state === 'absent') return undefined;
  return keep('Healthy', `nobody reads it any more: ${successor} is in its place`, laterMs(now, idleMs));
}

function keyElsewhere(at: PairCase): Verdict | undefined {
  const { artefact, fact, policy, now } = at;
  const [certificate] = certificatesOf(fact);
  if (fact.state !== 'broken' || !isClosed(fact) || !isFile(artefact.location)) return undefined;
  if (certificate === undefined || now >= certificate.notAfter) return undefined;
  if (artefact.kind === 'signer' && artefact.keyWanted !== undefined)
    return bring('NotOurs', `${fact.message}; ${artefact.keyWanted}`, laterMs(now, lookAgainMs));
  const isEnding = policy.ahead !== undefined && now >= refreshAt(at, certificate);
  if (isEnding) return endingSigner(`valid until ${certificate.notAfter.toISOString()}`, certificate.notAfter);
  return keep('NotOurs', `valid, but ${fact.message}: what it signs cannot be renewed here`, certificate.notAfter);
}

function healthy(at: PairCase): Verdict {
  const { fact, now } = at;
  const certificate = certificateOf(fact);
  if (certificate === undefined) return blocked('Unavailable', 'it could not be read', laterMs(now, lookAgainMs));
  const refresh = isOwner(at) ? refreshAt(at, certificate) : now;
  const until = earliest(expiryWithGrace(at, certificate), refresh > now ? refresh : undefined);
  const renewsAt = refresh > now ? renewalAt(at.policy, refresh) : undefined;
  const from = fact.state === 'present' ? fact.differingCopies?.join(', ') : undefined;
  const differing =
    from === undefined
      ? ''
      : `; its copies in ${from} differ from it in a few bytes, and nothing here shows which of them are right`;
  const order = precedenceText(fact);
  const told = `${refusedByNewer([certificate])}${differing}${order === undefined ? '' : `; ${order}`}`;
  const verdict = keep('Healthy', `valid until ${certificate.notAfter.toISOString()}${told}`, until);
  const isAhead = renewsAt !== undefined && isRenewedAhead(at.artefact, at.policy);
  return isAhead ? { ...verdict, renewsAt } : verdict;
}

/** Finds a future notBefore, unless the clock is in doubt: `undated` reports that after all other faults. */
export function notYetValid(at: PairCase, certificate: CertificateFacts): Finding | undefined {
  const { now } = at;
  const { notBefore } = certificate;
  if (notBefore <= now || undated(at, certificate) !== undefined) return undefined;
  const message = `it is not valid before ${notBefore.toISOString()}`;
  // A few minutes are the skew of another machine's clock: it becomes valid by itself.
  return isSoon(notBefore, now) ? keep('NotYetValid', message, notBefore) : { reason: 'NotYetValid', message };
}

/** Blocks a certificate that begins in the future where our clock may be behind. */
export function undated({ artefact, clock, now }: PairCase, certificate: CertificateFacts): Verdict | undefined {
  const { notBefore } = certificate;
  const isMine = artefact.kind === 'target' || isMadeHere(artefact);
  if (!isMine || notBefore <= now || isSoon(notBefore, now)) return undefined;
  const message = doubt(certificate, clock, now);
  return message === undefined ? undefined : blocked('ClockImplausible', message, laterMs(now, lookAgainMs));
}

const isSoon = (notBefore: Date, now: Date): boolean => notBefore.getTime() <= now.getTime() + clockSkewMs;

export function expired(at: PairCase, certificate: CertificateFacts): Finding | undefined {
  if (at.now < certificate.notAfter) return undefined;
  const message = `it expired at ${certificate.notAfter.toISOString()}`;
  const graceEnds = expiryWithGrace(at, certificate);
  if (at.now >= graceEnds) return { reason: 'Expired', message };
  return keep('InGrace', `${message}; its own rotator has until ${graceEnds.toISOString()}`, graceEnds);
}

function hostnameMissing({ artefact }: PairCase, { hostnames }: CertificateFacts): Fault | undefined {
  if (artefact.kind !== 'target' || artefact.usage === 'client') return undefined;
  // Go reads no name from a common name: a client accepts no server without alternative names (crypto/x509,
  // VerifyHostname).
  if (hostnames.length === 0 && artefact.hostnames.length > 0) {
    return { reason: 'HostnameMissing', message: 'it holds no host name and no address (subject alternative names)' };
  }
  // The present certificate is the declaration then: names that people added or removed by hand stay.
  const wanted = artefact.template === 'present' ? (artefact.demandedHostnames ?? []) : artefact.hostnames;
  const missing = uncoveredHostnames(wanted, hostnames);
  if (missing.length === 0) return undefined;
  return { reason: 'HostnameMissing', message: `it does not hold ${missing.join(', ')}` };
}

const issuerObstacles = [keyOfIssuerElsewhere, issuerCannotSign, issuerUnknownToReaders];

function renewed(at: Faulty<PairCase>): Verdict {
  const { issuer, name } = at.artefact;
  const before = issuer === undefined ? [] : [issuer, ...readersOf(at).map((reader) => reader.name)];
  const after = writtenOf(before, at);
  const origin = at.fault.reason === 'AuthorityDiffers' && !isDueAnyway(at) ? 'authority' : 'sign';
  return renew(at, after, { newFrom: new Set([name]), newNotAfter: newNotAfter(at) }, origin);
}

/**
 * Artefacts that must hold the issuer before it signs. While a leaf still works, its readers must be able to verify its
 * successor first: they may read a composition or a copy of the issuer's bundle.
 */
function readersOf({ artefact, fact, resolved, now }: PairCase): readonly ResolvedArtefact[] {
  const bundles = bundlesAbove(resolved.artefacts, artefact);
  const present = certificateOf(fact);
  const works = present !== undefined && artefact.kind === 'target' && now < present.notAfter;
  return works ? [...bundles, ...madeOf(resolved.artefacts, bundles)] : bundles;
}

/** Name of the certificate to bring: a foreign certificate's present name; a declared one is a guess. */
const nameToBring = ({ mayBeOfOthers, commonName }: ResolvedTarget, fact: PairCase['fact']): string | undefined =>
  (mayBeOfOthers === true && certificatesOf(fact)[0]?.commonName) || commonName;

/** Keeps a leaf that still works, and reports early that it cannot be renewed here. */
function keyOfIssuerElsewhere(at: Faulty<PairCase>): Verdict | undefined {
  const { artefact, facts, now, fault } = at;
  const { issuer } = artefact;
  if (issuer === undefined || !isKeyElsewhere(at, issuer)) return undefined;
  const fact = facts.get(issuer);
  const subject = certificatesOf(fact)[0]?.subject;
  const signer = subject === undefined ? issuer : `${issuer} (${subject})`;
  const name = artefact.kind === 'target' ? nameToBring(artefact, at.fact) : undefined;
  const what = name === undefined ? 'a new certificate' : `a new certificate for "${name}"`;
  const wanted = `bring ${what}, signed by ${signer}, with its key to ${locationText(artefact.location)}`;
  const isEncrypted = fact?.state === 'broken' && fact.problem === 'keyEncrypted';
  const key = isEncrypted ? 'encrypted' : 'not on this machine';
  const other = isEncrypted ? '; or bring that key here without its passphrase' : '';
  const told = `${fault.message}; the key of its signer is ${key}: ${wanted}${other}`;
  return (fault.reason === 'RefreshDue' ? keep : bring)('SignerExternal', told, laterMs(now, lookAgainMs));
}

function issuerCannotSign({ artefact: { issuer }, expected, now, fault }: Faulty<PairCase>): Verdict | undefined {
  const signer = expected.get(issuer ?? '');
  const certificate = signer?.certificate;
  const begun = certificate !== undefined && certificate.notBefore <= now && signer?.hasKey === true;
  const canSign = signer?.renewed === true || (begun && signer.trusted.has(certificate.fingerprint));
  if (issuer === undefined || canSign) return undefined;
  const begins = certificate?.notBefore;
  const until = begins !== undefined && begins > now ? begins : laterMs(now, lookAgainMs);
  const told = `${fault.message}; its signer ${issuer} cannot be used now`;
  return (signer?.byHand === true ? bring : blocked)('SignerUnusable', told, until);
}

/** Readers would refuse the new certificate, too: a person chooses another CA, or other names. */
function issuerMayNotName(at: Faulty<Case<ResolvedTarget>>): Verdict | undefined {
  const { artefact, expected, fact, now, fault } = at;
  const signer = expected.get(artefact.issuer ?? '');
  const [present] = artefact.template === 'present' ? certificatesOf(fact) : [];
  const names =
    present === undefined ? artefact.hostnames : [...present.hostnames, ...(artefact.demandedHostnames ?? [])];
  const problem = signer?.certificate && constrainedNames(signer.certificate, names);
  if (problem === undefined) return undefined;
  const wanted = `bring a certificate of a CA that may, to ${locationText(artefact.location)}, or take those names out`;
  const told = `${fault.message}; its signer ${artefact.issuer} may not sign for its names (${problem}): ${wanted}`;
  return bring('SignerUnusable', told, laterMs(now, lookAgainMs));
}

function issuerUnknownToReaders(at: Faulty<PairCase>): Verdict | undefined {
  const { artefact, expected, facts, now, fault } = at;
  const { issuer = '' } = artefact;
  const signer = expected.get(issuer);
  const without = readersOf(at).find(({ name }) => signer && !holds(expected.get(name), issuer, signer))?.name;
  if (without === undefined) return undefined;
  const state =
    facts.get(without)?.state === 'unavailable'
      ? `${without}, which must hold its signer ${issuer}, could not be read`
      : `${without} does not hold its signer ${issuer}`;
  const until = settlesAt(at, [issuer, without]) ?? laterMs(now, lookAgainMs);
  return blocked('SignerMissingFromBundle', `${fault.message}; ${state}`, until);
}

/** A renewal keeps the names of the present certificate, or of its backup; without both it has no names. */
function namesUnknown({ artefact, fact, now, fault }: Faulty<Case<ResolvedTarget>>): Verdict | undefined {
  if (artefact.namesUnknown === undefined || hasNamesToKeep(artefact, fact)) return undefined;
  const message = `${fault.message}; its names are not known, because ${artefact.namesUnknown}`;
  return blocked('HostnameUnknown', message, laterMs(now, soonMs));
}

function hasNamesToKeep({ template }: ResolvedTarget, fact: PairCase['fact']): boolean {
  const certificates = certificatesOf(fact);
  if (template !== 'present') return certificates.length > 0;
  if (certificates.length > 0) return certificates.some(({ hostnames }) => hostnames.length > 0);
  return (fact.state !== 'absent' && fact.state !== 'broken') || fact.madeFromNothing !== true;
}

/** A kubeconfig without any template must name a server; without one each attempt would be refused. */
function serverUnknown({ artefact, fact, resolved, now, fault }: Faulty<Case<ResolvedTarget>>): Verdict | undefined {
  const { location } = artefact;
  if (location.kind !== 'kubeconfig' || resolved.endpoints?.[location.endpoint] !== undefined) return undefined;
  if ((fact.state !== 'absent' && fact.state !== 'broken') || fact.madeFromNothing !== true) return undefined;
  const wanted =
    'give the parameter "advertiseAddress" (--parameter advertiseAddress=ADDRESS), or bring a kubeconfig from another machine';
  const message = `${fault.message}, there is no backup of it, and the address of the API server is unknown; ${wanted}`;
  return blocked(fault.reason, message, laterMs(now, lookAgainMs));
}
