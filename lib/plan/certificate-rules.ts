// When a pair (a signer or a leaf certificate with its key) is made anew. Pure.
// The checks are read from top to bottom; the first that finds something decides. Two policies: OnlyWhenExpired touches
// what is absent, broken, expired or untrusted; BeforeExpiry also renews ahead of time (library-go's certrotation rules).
import type { CaBundle, ResolvedTarget, Signer } from '../inventory/model.ts';
import { clockSkewMs } from './clock-rules.ts';
import type { CertificateFacts } from './facts.ts';
import { blocked, type Case, earliest, type Expected, isApi, keep, laterMs, renew } from './judgement.ts';
import { settlesAt, type Verdict } from './judgement.ts';
import type { Reason } from './plan-types.ts';

type Pair = Signer | ResolvedTarget;
type PairCase = Case<Pair>;
/** A check's finding: renew for this reason, or leave it alone until then. */
type Finding = { readonly reason: Reason; readonly message: string; readonly keepUntil?: Date };
type Check = (at: PairCase, certificate: CertificateFacts) => Finding | undefined;

const lookAgainMs = 30_000;

export function judgeSigner(at: Case<Signer>): Verdict {
  return judgePair(at, [notYetValid, expired, notTrusted, refreshDue]);
}

export function judgeTarget(at: Case<ResolvedTarget>): Verdict {
  return judgePair(at, [notYetValid, expired, hostnameMissing, notTrusted, refreshDue]);
}

function judgePair(at: PairCase, checks: readonly Check[]): Verdict {
  const { fact, now } = at;
  if (fact.state === 'absent') return renewed(at, { reason: 'Absent', message: 'it is absent' });
  if (fact.state === 'broken') {
    const reason = fact.problem === 'mismatchedPair' ? 'MismatchedPair' : 'Unreadable';
    return renewed(at, { reason, message: `it is broken: ${fact.message}` });
  }
  const certificate = fact.state === 'present' ? fact.certificates[0] : undefined;
  if (certificate === undefined) return blocked('Unavailable', 'it could not be read', laterMs(now, lookAgainMs));
  for (const check of checks) {
    const finding = check(at, certificate);
    if (finding === undefined) continue;
    if (finding.keepUntil !== undefined) return keep(finding.reason, finding.message, finding.keepUntil);
    return renewed(at, finding);
  }
  const until = earliest(expiryWithGrace(at, certificate), ...(owned(at) ? [refreshAt(at, certificate)] : []));
  return keep('Healthy', `valid until ${certificate.notAfter.toISOString()}`, until);
}

const owned = ({ policy }: PairCase): boolean => policy.kind === 'BeforeExpiry';

/** In the API the cluster's own rotator has its turn first; files have no other rotator. */
function expiryWithGrace({ artefact, policy }: PairCase, { notAfter }: CertificateFacts): Date {
  return isApi(artefact.truth) ? laterMs(notAfter, policy.graceMs) : notAfter;
}

const notYetValid: Check = ({ now }, { notBefore }) => {
  if (notBefore <= now) return undefined;
  const message = `it is not valid before ${notBefore.toISOString()}`;
  // A few minutes are another machine's clock: it becomes valid by itself. More is for the clock rules to judge.
  const withinSkew = notBefore.getTime() <= now.getTime() + clockSkewMs;
  return withinSkew ? { reason: 'NotYetValid', message, keepUntil: notBefore } : { reason: 'NotYetValid', message };
};

const expired: Check = (at, certificate) => {
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
  const missing = artefact.hostnames.filter((name) => !hostnames.includes(name));
  return missing.length === 0
    ? undefined
    : { reason: 'HostnameMissing', message: `it does not hold ${missing.join(', ')}` };
};

/** A leaf (or an intermediate) that no valid certificate of its own bundle has signed: readers refuse it. */
const notTrusted: Check = (at, { signedBy }) => {
  const { artefact, facts, expected, now } = at;
  if (artefact.issuer === undefined) return undefined;
  const bundles = bundlesOf(at, artefact.issuer);
  const unknown = bundles.some(({ name }) => facts.get(name)?.state === 'unavailable');
  const trusted = bundles.some(({ name }) => signedBy.some((print) => expected.get(name)?.trusted.has(print)));
  if (unknown || trusted || bundles.length === 0) return undefined;
  const names = bundles.map(({ name }) => name);
  const message = `no valid certificate in ${names.join(', ')} has signed it`;
  // A bundle that is remade has lost its former signers for good; otherwise another writer may be at work.
  if (names.some((name) => expected.get(name)?.renewed)) return { reason: 'IssuerNotTrusted', message };
  const until = settlesAt(at, [artefact.name, artefact.issuer, ...names]);
  return until === undefined || until <= now
    ? { reason: 'IssuerNotTrusted', message }
    : { reason: 'Settling', message: `${message}; looked at again before it is believed`, keepUntil: until };
};

/** BeforeExpiry only: past its refresh time, its signer old enough for everyone to trust it, and something is gained. */
const refreshDue: Check = (at, certificate) => {
  const { artefact, now } = at;
  if (!owned(at) || now < refreshAt(at, certificate)) return undefined;
  const ends = newNotAfter(at);
  const gain = ends.getTime() - certificate.notAfter.getTime();
  if (gain < artefact.validity / 10) {
    const until = earliest(expiryWithGrace(at, certificate), laterMs(now, 3_600_000));
    return {
      reason: 'SignerEnding',
      message: `its signer ends at ${ends.toISOString()}, so a renewal would gain nothing; the signer must be renewed first`,
      keepUntil: until,
    };
  }
  const trustedFrom = signerTrustedFrom(at);
  if (trustedFrom !== undefined && now < trustedFrom) {
    return {
      reason: 'SignerTooYoung',
      message: `due for refresh; its signer is trusted everywhere from ${trustedFrom.toISOString()}`,
      keepUntil: earliest(trustedFrom, expiryWithGrace(at, certificate)),
    };
  }
  return {
    reason: 'RefreshDue',
    message: `due for refresh since ${refreshAt(at, certificate).toISOString()}, ends at ${certificate.notAfter.toISOString()}`,
  };
};

/**
 * In the API a certificate's own dates say its age: after its refresh time, or 80 % of its life, whichever is first.
 * On disk NotBefore may be the CA's (kubeadm's kubeconfigs, etcdadm), so only the remaining time counts there.
 */
function refreshAt({ artefact }: PairCase, { notBefore, notAfter }: CertificateFacts): Date {
  if (!isApi(artefact.truth)) return laterMs(notAfter, artefact.refresh - artefact.validity);
  const life = notAfter.getTime() - notBefore.getTime();
  return laterMs(notBefore, Math.min(artefact.refresh, life * 0.8));
}

/** A tenth of the refresh time after the signer was made (library-go certrotation/target.go: refresh / 10). */
function signerTrustedFrom({ artefact, expected, now }: PairCase): Date | undefined {
  if (artefact.issuer === undefined) return undefined;
  const signer = expected.get(artefact.issuer);
  const spread = artefact.refresh / 10;
  if (signer?.renewed === true) return laterMs(now, spread);
  return signer?.certificate === undefined ? undefined : laterMs(signer.certificate.notBefore, spread);
}

/** The end of a certificate made now: its validity, capped at its signer's end. */
function newNotAfter({ artefact, expected, now }: PairCase): Date {
  const own = laterMs(now, artefact.validity);
  if (artefact.issuer === undefined) return own;
  const signer = expected.get(artefact.issuer);
  return earliest(own, signer?.renewed === true ? signer.newNotAfter : signer?.certificate?.notAfter);
}

/** The bundles by which its readers know the signer; not one that holds the artefact itself, which comes after it. */
function bundlesOf({ resolved, artefact }: PairCase, signer: string): readonly CaBundle[] {
  return resolved.artefacts.filter(
    (row): row is CaBundle =>
      row.kind === 'caBundle' && row.signers.includes(signer) && !row.signers.includes(artefact.name),
  );
}

/** The renewal, if its signer can sign and every bundle of that signer holds it; otherwise what it waits for. */
function renewed(at: PairCase, { reason, message }: Finding): Verdict {
  const { artefact, expected, now } = at;
  const leaves = { trusted: new Set<string>(), newFrom: new Set([artefact.name]), newNotAfter: newNotAfter(at) };
  const { issuer } = artefact;
  if (issuer === undefined) return renew({ reason, message, now, after: [], leaves });
  const signer = expected.get(issuer);
  const later = laterMs(now, lookAgainMs);
  if (signer === undefined || !canSign(signer)) {
    return blocked('SignerUnusable', `${message}; its signer ${issuer} cannot be used now`, later);
  }
  const bundles = bundlesOf(at, issuer);
  const without = bundles.find(({ name }) => !holds(expected.get(name), issuer, signer));
  if (without !== undefined) {
    const until = settlesAt(at, [issuer, without.name]) ?? later;
    return blocked('SignerMissingFromBundle', `${message}; ${without.name} does not hold its signer ${issuer}`, until);
  }
  const after = [issuer, ...bundles.map(({ name }) => name)].filter((name) => expected.get(name)?.renewed === true);
  return renew({ reason, message, now, after, leaves });
}

function canSign({ renewed: isNew, certificate, trusted }: Expected): boolean {
  return isNew || (certificate !== undefined && trusted.has(certificate.fingerprint));
}

function holds(bundle: Expected | undefined, issuer: string, signer: Expected): boolean {
  if (bundle === undefined) return false;
  if (signer.renewed) return bundle.newFrom.has(issuer);
  return (
    bundle.newFrom.has(issuer) ||
    (signer.certificate !== undefined && bundle.trusted.has(signer.certificate.fingerprint))
  );
}
