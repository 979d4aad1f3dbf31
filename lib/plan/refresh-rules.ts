// When the owner of a pair renews it ahead of time (BeforeExpiry, or entries marked `renewAhead`), by library-go's
// certrotation rules: past its refresh time, when its signer is old enough to be trusted everywhere, and something is
// gained. Pure.
import type { IssuedPair } from '../inventory/model.ts';
import { bundlesAbove } from '../inventory/order.ts';
import { isFile } from '../inventory/places.ts';
import { type CertificateFacts, madeAt } from '../pki/certificate.ts';
import { batchMs, isLastCall, isRenewedAhead, postponed, thresholdMs } from './ahead-rules.ts';
import { earliest, type Finding, idleMs, isVerdict, keep, laterMs, type PairCase } from './decision.ts';
import { certificateOf } from './facts.ts';
import { byAge, mayNewCaSign, type Permission } from './fleet-rules.ts';

/** Whether this program renews a pair ahead of time: the kubelet does so itself, and two owners would conflict. */
export const isOwner = ({ artefact, policy }: PairCase): boolean =>
  !(artefact.kind === 'target' && artefact.rotatedBy !== undefined) &&
  (policy.kind === 'BeforeExpiry' || artefact.renewAhead === true || thresholdMs({ artefact, policy }) !== undefined);

/** Returns notAfter plus grace. The cluster's own rotator comes first in the API; files have no other rotator. */
export function expiryWithGrace({ artefact, policy }: PairCase, { notAfter }: CertificateFacts): Date {
  return !isFile(artefact.location) ? laterMs(notAfter, policy.graceMs) : notAfter;
}

export function refreshDue(at: PairCase, certificate: CertificateFacts): Finding | undefined {
  const { artefact, now } = at;
  const soonest = earliest(expiryWithGrace(at, certificate), laterMs(now, idleMs));
  if (!isOwner(at) || (now < refreshAt(at, certificate) && !goesAlong(at, certificate))) return undefined;
  const ends = newNotAfter(at);
  const gain = ends.getTime() - certificate.notAfter.getTime();
  if (gain < artefact.validity / 10 && !isLastCall(at, certificate, gain)) {
    if (ends.getTime() >= laterMs(now, artefact.validity).getTime()) return undefined; // it outlives a new one anyway
    const told = `its signer ${artefact.issuer ?? ''} ends at ${ends.toISOString()}, so a renewal would gain nothing; the signer must be renewed first`;
    return keep('SignerEnding', told, soonest);
  }
  const { wait, note } = maySignerSign(at, certificate);
  if (wait !== undefined) return wait;
  return {
    reason: 'RefreshDue',
    message: `due for refresh since ${refreshAt(at, certificate).toISOString()}, ends at ${certificate.notAfter.toISOString()}${note}`,
  };
}

/** Whether its signer is used yet. Nothing changes for nodes with the present signer. */
function maySignerSign(at: PairCase, certificate: CertificateFacts): Permission {
  const { artefact, expected, now } = at;
  const { issuer: signer = '' } = artefact;
  const trustedFrom = signerTrustedFrom(at);
  const latest = latestRenewal(artefact, certificate);
  const told = `due for refresh; its signer is trusted everywhere from ${trustedFrom?.toISOString() ?? ''}`;
  const isYoung = trustedFrom !== undefined && now < trustedFrom && now < latest;
  const young = isYoung ? keep('SignerTooYoung', told, earliest(trustedFrom, latest)) : undefined;
  const next = expected.get(signer)?.certificate;
  if (next !== undefined && certificate.signedBy.includes(next.fingerprint)) return byAge(young);
  return mayNewCaSign(at, { signer, certificate: next, young, latest });
}

/**
 * Returns the refresh time. In the API a certificate's own dates show its age: after its refresh time, or 80 % of its
 * life, whichever is first; its back-dating is no age. On disk NotBefore may be the CA's (kubeadm's kubeconfigs,
 * etcdadm), so only the remaining time counts there. Never before a renewal gains a tenth of the validity: an adopted
 * certificate may outlive those made here.
 */
export function refreshAt(
  { artefact, policy }: Pick<PairCase, 'artefact' | 'policy'>,
  certificate: CertificateFacts,
): Date {
  const { location, refresh, validity } = artefact;
  const { notAfter } = certificate;
  const gains = laterMs(notAfter, -0.9 * validity);
  const due = isFile(location)
    ? laterMs(notAfter, -(thresholdMs({ artefact, policy }) ?? validity - refresh))
    : laterMs(madeAt(certificate), Math.min(refresh, lifeOf(certificate) * 0.8));
  return due > gains ? due : gains;
}

/** Whether an artefact rewritten for another reason is renewed along, so that its readers are restarted once. */
export function isDueAnyway(at: PairCase): boolean {
  const certificate = certificateOf(at.fact);
  const due = certificate && refreshDue(at, certificate);
  return due !== undefined && !isVerdict(due) && postponed({ ...at, fault: due }) === undefined;
}

/** Whether another leaf of this host is renewed ahead of time now, and this one is due within a day. */
function goesAlong(at: PairCase, certificate: CertificateFacts): boolean {
  const { artefact, resolved, facts, policy, now } = at;
  const soonMs = Math.min(batchMs, artefact.validity / 10);
  if (!isRenewedAhead(artefact, policy) || now < laterMs(refreshAt(at, certificate), -soonMs)) return false;
  return resolved.artefacts.some((other) => {
    const found = certificateOf(facts.get(other.name));
    if (other.kind !== 'target' || found === undefined || !isRenewedAhead(other, policy)) return false;
    return now >= refreshAt({ artefact: other, policy }, found) && now < found.notAfter;
  });
}

/** Milliseconds, without the back-dating. */
const lifeOf = (certificate: CertificateFacts): number =>
  Math.max(0, certificate.notAfter.getTime() - madeAt(certificate).getTime());

/**
 * Latest time to wait for a fresh signer to spread: a leaf that expires during the wait is of no use. So the wait stops
 * as long before notAfter as it lasts at most: a tenth of the refresh time, or of its life where that is shorter.
 * library-go does not wait past 80 % of a life (pkg/operator/certrotation/target.go); this waits longer, because
 * readers on other machines gain by it, and is as safe: the date is known, and needs no answer from another machine.
 */
export function latestRenewal({ location, refresh, validity }: IssuedPair, certificate: CertificateFacts): Date {
  const life = isFile(location) ? validity : lifeOf(certificate);
  return laterMs(certificate.notAfter, -Math.min(refresh, life) / 10);
}

/** Time from which the signer is trusted: refresh / 10 after it was made (library-go certrotation/target.go). */
function signerTrustedFrom({ artefact, expected, resolved, now }: PairCase): Date | undefined {
  // Without a bundle nothing has to spread: readers of the signer's own file know it.
  if (artefact.issuer === undefined || bundlesAbove(resolved.artefacts, artefact).length === 0) return undefined;
  const signer = expected.get(artefact.issuer);
  const spread = artefact.refresh / 10;
  if (signer?.renewed === true) return laterMs(now, spread);
  return signer?.certificate === undefined ? undefined : laterMs(madeAt(signer.certificate), spread);
}

/** notAfter of a certificate made now: its validity, capped at its signer's notAfter. */
export function newNotAfter({ artefact, expected, now }: PairCase): Date {
  const own = laterMs(now, artefact.validity);
  if (artefact.issuer === undefined) return own;
  const signer = expected.get(artefact.issuer);
  return earliest(own, signer?.renewed === true ? signer.newNotAfter : signer?.certificate?.notAfter);
}
