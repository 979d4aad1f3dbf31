// State of a row of a kubeadm machine, and the time from which an expiry is announced. Pure.
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { CertificateFacts } from '../pki/certificate.ts';
import { announcedAs } from '../plan/reasons.ts';
import { type ArtefactFacts, displayedCertificate, isClosed } from '../plan/facts.ts';
import { announcedPart, latePart } from '../well-known.ts';
import { isKeptByOthers, type ReportInput, type RowState, stateOfOthers, type StatusRow } from './report.ts';

interface Judging extends Pick<ReportInput, 'resolved' | 'now'> {
  /** Default: true. */
  readonly isArmed?: boolean | undefined;
}

export function rowStateOf(
  row: StatusRow,
  artefact: ResolvedArtefact,
  fact: ArtefactFacts,
  { resolved, now, isArmed = true }: Judging,
): RowState {
  const certificate = displayedCertificate(artefact, fact);
  if (fact.state === 'unavailable') return 'UNKNOWN';
  if (isKeptByOthers(fact)) return stateOfOthers(fact, now);
  const isWhole = fact.state === 'present' || (artefact.kind === 'signer' && isClosed(fact));
  if (!isWhole || certificate === undefined) return isWhole ? row.state : 'BROKEN';
  if (now >= certificate.notAfter) return 'EXPIRED';
  if (now < certificate.notBefore) return 'NOT YET VALID';
  if (row.action !== 'keep' && row.isAhead !== true) return 'BROKEN';
  // The administrator's own threshold, which may come long before ours.
  const announced = announcedAs(row);
  if (announced === 'due') return 'EXPIRING';
  if (isArmed && announced === 'renewed') return 'OK'; // long before its expiry
  if (row.reason === 'SignerEnding' && artefact.kind === 'signer') return 'EXPIRING';
  const left = certificate.notAfter.getTime() - now.getTime();
  return left < warningMs(artefact, certificate, resolved) ? 'EXPIRING' : 'OK';
}

/**
 * Remaining life at which an expiry is announced. A kubeconfig's NotBefore may be its CA's, so the declared validity
 * bounds its life. A certificate that its component rotates by itself is announced when that is late. A CA is announced
 * when a leaf made now would outlive it.
 */
function warningMs(
  artefact: ResolvedArtefact,
  { notBefore, notAfter }: CertificateFacts,
  { artefacts }: Resolved,
): number {
  const life = notAfter.getTime() - notBefore.getTime();
  if (artefact.kind === 'target') {
    return Math.min(life, artefact.validity) * (artefact.rotatedBy === undefined ? announcedPart : latePart);
  }
  const leaves = artefacts.flatMap((row) =>
    row.kind === 'target' && (row.issuer === artefact.name || row.obtainedBy !== undefined) ? [row.validity] : [],
  );
  return Math.min(life * announcedPart, ...(leaves.length === 0 ? [] : [Math.max(...leaves)]));
}
