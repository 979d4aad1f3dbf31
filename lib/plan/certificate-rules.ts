// When a pair (a signer or a leaf certificate with its key) is made anew. Pure.
// The checks are read from top to bottom; the first that finds something decides. Two policies: OnlyWhenExpired touches
// what is absent, broken, expired or untrusted; BeforeExpiry also renews ahead of time (refresh-rules.ts).
import { isIP } from 'node:net';
import type { ResolvedTarget, Signer } from '../inventory/model.ts';
import { isFile, isMadeHere } from '../inventory/places.ts';
import { bundlesAbove, madeOf } from '../inventory/order.ts';
import { dnsNameCovers } from '../pki/hostname.ts';
import { locationText } from '../store/store.ts';
import { clockSkewMs, doubt } from './clock-rules.ts';
import { type CertificateFacts, isClosed } from './facts.ts';
import { blocked, bring, type Case, certificatesOf, earliest, type Expected, keep, laterMs } from './judgement.ts';
import { reasonOf, refusedByNewer, renew, settlesAt, type Verdict } from './judgement.ts';
import type { Check, Finding, PairCase } from './judgement.ts';
import { judgePutBack, wantedFormer } from './put-back-rules.ts';
import { expiryWithGrace, isOwner, newNotAfter, refreshAt, refreshDue } from './refresh-rules.ts';
import { authorityDiffers, holds, isKeyElsewhere, notTrusted, signedByOthers, unfit } from './trust-rules.ts';

const lookAgainMs = 30_000;
const idleMs = 3_600_000;
/** What a cluster that is being put together lacks comes soon. */
const soonMs = 5000;

export function judgeSigner(at: Case<Signer>): Verdict {
  const verdict = judgePair(at, [notYetValid, expired, notTrusted, undated, refreshDue]);
  if (verdict.action !== 'renew') return verdict;
  const putBack = judgePutBack(at, verdict);
  if (putBack !== undefined) return putBack;
  const { reason, message } = verdict;
  const later = laterMs(at.now, lookAgainMs);
  // A second machine that does not have it yet looks just like the only one, which has lost it.
  if (reason === 'Absent' && typeof at.artefact.owned === 'object') {
    const wanted = 'copy it from another machine or from a backup; where there is no other, run "init render" again';
    return bring('NotOurs', `${message}, and other machines may have it: ${wanted}`, later);
  }
  if (isMadeHere(at.artefact)) return verdict;
  if (reason === 'RefreshDue') return keep('NotOurs', `${message}; renew it by hand, it is not made here`, later);
  // What has only not begun comes by itself, or with the right time.
  const told = reason === 'NotYetValid' ? blocked : bring;
  if (reason === 'Damaged') return bring(reason, `${message}; ${wantedFormer(at)}`, later);
  if (at.fact.state === 'broken' && at.fact.copies?.doubt !== undefined) {
    return bring('NotOurs', `${message}; ${wantedFormer(at)}`, later);
  }
  return told(
    'NotOurs',
    `${message}; bring a new one by hand, it is not made here: other machines may have the same one`,
    later,
  );
}

export function judgeTarget(at: Case<ResolvedTarget>): Verdict {
  const { artefact, fact, facts, now } = at;
  if (fact.state === 'absent' && artefact.presence === 'optional') {
    return keep('Healthy', 'absent, as it may be', laterMs(now, idleMs));
  }
  if (fact.state === 'broken' && fact.problem === 'foreign') {
    return keep('NotOurs', fact.message, laterMs(now, idleMs));
  }
  const successor = artefact.supersededBy;
  if (successor !== undefined && facts.get(successor)?.state !== 'absent') {
    return keep('Healthy', `nobody reads it any more: ${successor} is in its place`, laterMs(now, idleMs));
  }
  const trust = [notTrusted, authorityDiffers, signedByOthers];
  const verdict = judgePair(at, [notYetValid, expired, unfit, hostnameMissing, ...trust, undated, refreshDue]);
  if (verdict.action === 'renew') return namesUnknown(at, verdict) ?? serverUnknown(at, verdict) ?? verdict;
  const unknown = artefact.namesUnknown;
  if (unknown === undefined || verdict.action !== 'keep') return verdict;
  const message = `${verdict.message}; whether it holds all its names is not known, because ${unknown}`;
  return {
    ...verdict,
    reason: 'HostnameUnknown',
    message,
    recheckAt: earliest(verdict.recheckAt, laterMs(now, lookAgainMs)),
  };
}

/** A renewal keeps the names of the certificate that is there; without one there are none to go by. */
function namesUnknown({ artefact, fact, now }: Case<ResolvedTarget>, verdict: Verdict): Verdict | undefined {
  if (artefact.namesUnknown === undefined || certificatesOf(fact).length > 0) return undefined;
  const message = `${verdict.message}; its names are not known, because ${artefact.namesUnknown}`;
  return blocked('HostnameUnknown', message, laterMs(now, soonMs));
}

/** A kubeconfig that has to be made from nothing names a server; without one each attempt would be refused. */
function serverUnknown({ artefact, fact, resolved, now }: Case<ResolvedTarget>, verdict: Verdict): Verdict | undefined {
  const { location } = artefact;
  if (location.kind !== 'kubeconfig' || resolved.endpoints?.[location.endpoint] !== undefined) return undefined;
  if ((fact.state !== 'absent' && fact.state !== 'broken') || fact.madeFromNothing !== true) return undefined;
  const wanted =
    'give the parameter "advertiseAddress" (--parameter advertiseAddress=ADDRESS), or bring a kubeconfig from another machine';
  const message = `${verdict.message}, there is no backup of it, and the address of the API server is unknown; ${wanted}`;
  return blocked(verdict.reason, message, laterMs(now, lookAgainMs));
}

function judgePair(at: PairCase, checks: readonly Check[]): Verdict {
  const { artefact, fact, now } = at;
  if (fact.state === 'absent') return renewed(at, { reason: 'Absent', message: 'it is absent' });
  const certificate = certificatesOf(fact)[0];
  if (fact.state === 'broken') {
    const isElsewhere = isClosed(fact) && artefact.kind === 'signer' && isFile(artefact.location);
    if (isElsewhere && certificate !== undefined && now < certificate.notAfter) {
      return keep('NotOurs', `valid, but ${fact.message}: what it signs cannot be renewed here`, certificate.notAfter);
    }
    const message = `it is broken: ${fact.message}`;
    const until = settlesAt(at, [artefact.name]);
    if (until !== undefined) return keep('Settling', `${message}; looked at again before it is believed`, until);
    return renewed(at, { reason: reasonOf(fact), message });
  }
  if (certificate === undefined) return blocked('Unavailable', 'it could not be read', laterMs(now, lookAgainMs));
  for (const check of checks) {
    const finding = check(at, certificate);
    if (finding === undefined) continue;
    const left = finding.isBlocked === true ? blocked : keep;
    if (finding.keepUntil !== undefined) return left(finding.reason, finding.message, finding.keepUntil);
    return renewed(at, finding, certificate);
  }
  const refresh = isOwner(at) ? refreshAt(at, certificate) : now;
  const until = earliest(expiryWithGrace(at, certificate), refresh > now ? refresh : undefined);
  const from = fact.state === 'present' ? fact.differingCopies?.join(', ') : undefined;
  const differing =
    from === undefined
      ? ''
      : `; its copies in ${from} differ from it in a few bytes, and nothing here shows which of them are right`;
  const told = `${refusedByNewer([certificate])}${differing}`;
  return keep('Healthy', `valid until ${certificate.notAfter.toISOString()}${told}`, until);
}

/** Unless the clock is in doubt: that is looked at after all else that may be wrong with it (`undated`). */
export const notYetValid: Check = (at, certificate) => {
  const { now } = at;
  const { notBefore } = certificate;
  if (notBefore <= now || undated(at, certificate) !== undefined) return undefined;
  const message = `it is not valid before ${notBefore.toISOString()}`;
  // A few minutes are another machine's clock: it becomes valid by itself.
  return isSoon(notBefore, now)
    ? { reason: 'NotYetValid', message, keepUntil: notBefore }
    : { reason: 'NotYetValid', message };
};

/** It begins in the future, or our clock is behind: nobody knows. */
export const undated: Check = ({ artefact, clock, now }, certificate) => {
  const { notBefore } = certificate;
  const isMine = artefact.kind === 'target' || isMadeHere(artefact);
  if (!isMine || notBefore <= now || isSoon(notBefore, now)) return undefined;
  const message = doubt(certificate, clock, now);
  const keepUntil = earliest(notBefore, laterMs(now, lookAgainMs));
  return message === undefined ? undefined : { reason: 'ClockImplausible', message, keepUntil, isBlocked: true };
};

const isSoon = (notBefore: Date, now: Date): boolean => notBefore.getTime() <= now.getTime() + clockSkewMs;

export const expired: Check = (at, certificate) => {
  if (at.now < certificate.notAfter) return undefined;
  const message = `it expired at ${certificate.notAfter.toISOString()}`;
  const graceEnds = expiryWithGrace(at, certificate);
  if (at.now < graceEnds) {
    return {
      reason: 'InGrace',
      message: `${message}; its own rotator has until ${graceEnds.toISOString()}`,
      keepUntil: graceEnds,
    };
  }
  return { reason: 'Expired', message };
};

const hostnameMissing: Check = ({ artefact }, { hostnames }) => {
  if (artefact.kind !== 'target' || artefact.usage === 'client') return undefined;
  // What is there is the declaration then: names that people added or took away by hand stay as they are.
  if (artefact.template === 'present') return undefined;
  const missing = artefact.hostnames.filter((name) => !hostnames.some((held) => covers(held, name)));
  return missing.length === 0
    ? undefined
    : { reason: 'HostnameMissing', message: `it does not hold ${missing.join(', ')}` };
};

const covers = (held: string, name: string): boolean =>
  held === name || (isIP(name) === 0 && dnsNameCovers(held, name));

/**
 * The renewal, if its signer can sign and everything that must hold the signer does; otherwise what it waits for.
 * `present` is the certificate that is there. While that still works, readers must be able to check its successor first:
 * they may read a bundle composed of the signer's own, or a copy.
 */
function renewed(at: PairCase, { reason, message }: Finding, present?: CertificateFacts): Verdict {
  const { artefact, expected, resolved, now } = at;
  const leaves = { trusted: new Set<string>(), newFrom: new Set([artefact.name]), newNotAfter: newNotAfter(at) };
  const { issuer } = artefact;
  if (issuer === undefined) return renew({ reason, message, now, after: [], leaves });
  const signer = expected.get(issuer);
  if (isKeyElsewhere(at, issuer)) return bringByHand(at, issuer, { reason, message });
  if (signer === undefined || !canSign(signer, now)) {
    const begins = signer?.certificate?.notBefore;
    const until = begins !== undefined && begins > now ? begins : laterMs(now, lookAgainMs);
    const told = signer?.byHand === true ? bring : blocked;
    return told('SignerUnusable', `${message}; its signer ${issuer} cannot be used now`, until);
  }
  const bundles = bundlesAbove(resolved.artefacts, artefact);
  const works = present !== undefined && artefact.kind === 'target' && now < present.notAfter;
  const readers = works ? [...bundles, ...madeOf(resolved.artefacts, bundles)] : bundles;
  const without = readers.find(({ name }) => !holds(expected.get(name), issuer, signer));
  if (without !== undefined) return waitFor(at, { without: without.name, issuer, message });
  const after = [issuer, ...readers.map(({ name }) => name)].filter((name) => {
    const before = expected.get(name);
    return before?.renewed === true || before?.isPutBack === true;
  });
  return renew({ reason, message, now, after, leaves });
}

/** What still works is left alone; it is said beforehand, because nobody here can renew it. */
function bringByHand({ artefact, facts, now }: PairCase, issuer: string, { reason, message }: Finding): Verdict {
  const fact = facts.get(issuer);
  const subject = fact === undefined ? undefined : certificatesOf(fact)[0]?.subject;
  const signer = subject === undefined ? issuer : `${issuer} (${subject})`;
  const name = artefact.kind === 'target' ? artefact.commonName : undefined;
  const what = name === undefined ? 'a new certificate' : `a new certificate for "${name}"`;
  const wanted = `bring ${what}, signed by ${signer}, with its key to ${locationText(artefact.location)}`;
  const isEncrypted = fact?.state === 'broken' && fact.problem === 'keyEncrypted';
  const key = isEncrypted ? 'encrypted' : 'not on this machine';
  const other = isEncrypted ? '; or bring that key here without its passphrase' : '';
  const told = `${message}; the key of its signer is ${key}: ${wanted}${other}`;
  const later = laterMs(now, lookAgainMs);
  return reason === 'RefreshDue' ? keep('SignerExternal', told, later) : bring('SignerExternal', told, later);
}

interface Waiting {
  readonly without: string;
  readonly issuer: string;
  readonly message: string;
}

function waitFor(at: PairCase, { without, issuer, message }: Waiting): Verdict {
  const state =
    at.facts.get(without)?.state === 'unavailable'
      ? `${without}, which must hold its signer ${issuer}, could not be read`
      : `${without} does not hold its signer ${issuer}`;
  const until = settlesAt(at, [issuer, without]) ?? laterMs(at.now, lookAgainMs);
  return blocked('SignerMissingFromBundle', `${message}; ${state}`, until);
}

function canSign({ renewed: isNew, hasKey, certificate, trusted }: Expected, now: Date): boolean {
  if (isNew) return true;
  return hasKey && certificate !== undefined && certificate.notBefore <= now && trusted.has(certificate.fingerprint);
}
