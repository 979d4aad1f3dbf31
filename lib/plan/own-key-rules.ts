// When a CA in files is renewed: with its own key, which is on this machine, and never with another one, because other
// machines have the same CA. Every machine with the key makes the same certificate (pki/own-key.ts), so no agreement is
// needed. A successor that lies here already takes its place. It is renewed as soon as it has expired; before that
// where renewal ahead of time is configured, like leaves: in this node's window and with the Lease, because its readers
// are restarted. Where nothing here restarts a reader before the CA expires (etcd as a service of its own) the file is
// renewed all the same, so that the reader's next start finds it, and the message names the readers that a person must
// restart. Pure.
import type { Signer } from '../inventory/model.ts';
import { hasKubelet, isFile, isMadeHere } from '../inventory/places.ts';
import type { CertificateFacts } from '../pki/certificate.ts';
import { renewedNotAfter } from '../pki/own-key.ts';
import { postponed, renewalAt, thresholdMs } from './ahead-rules.ts';
import { bring, type Case, earliest, type Faulty, idleMs, keep, laterMs } from './decision.ts';
import { lookAgainMs, renew, type Verdict } from './decision.ts';
import { certificateOf } from './facts.ts';

type FaultySigner = Faulty<Case<Signer>>;

export function withOwnKey(at: FaultySigner): Verdict | undefined {
  const { artefact, fact, policy, now, fault } = at;
  const certificate = certificateOf(fact);
  if (fact.state !== 'present' || certificate === undefined) return undefined;
  if (!isFile(artefact.location) || isMadeHere(artefact) || !isSelfSigned(certificate)) return undefined;
  if (fault.reason !== 'Expired') {
    if (!isAheadOfTime(at)) return undefined;
    const later = notYet(at, certificate) ?? postponed(at);
    if (later !== undefined) return later;
  }
  if (policy.caRenewal === 'Report') {
    const wanted = 'renew it with its own key by hand, or set regen.caRenewal to SameKey';
    return bring('NotOurs', `${fault.message}; ${wanted}`, laterMs(now, lookAgainMs));
  }
  const { newer, from = [], namedBy = [] } = fact.successor ?? {};
  // Certificates of the CA verify under its successor: `trusted` holds the old certificate to express that.
  const leaves = {
    trusted: new Set([certificate.fingerprint]),
    newFrom: new Set([artefact.name]),
  };
  if (newer !== undefined) {
    const message = `${fault.message}; its successor, valid until ${newer.notAfter.toISOString()}, is in ${from.join(', ')} and comes in its place`;
    return renew({ ...at, fault: { ...fault, message } }, [], { ...leaves, newNotAfter: newer.notAfter }, 'follow');
  }
  const newNotAfter = renewedNotAfter(certificate, now);
  const serial = namedBy.length > 0 ? `the same serial, which ${namedBy.join(', ')} names` : 'a serial derived from it';
  const made = `renewed with its own key until ${newNotAfter.toISOString()}, with ${serial}`;
  const message = `${fault.message}; ${made}${restartWanted(at, certificate)}`;
  return renew({ ...at, fault: { ...fault, message } }, [], { ...leaves, newNotAfter }, 'ownKey');
}

const isAheadOfTime = ({ policy, fault: { reason } }: FaultySigner): boolean =>
  reason === 'RefreshDue' && policy.ahead !== undefined && policy.caRenewal !== 'Report';

/** Readers that load the CA at their start fail at its expiry. A kubelet restarts them; `status` reports the rest. */
function restartWanted({ artefact, resolved, fault }: FaultySigner, { notAfter }: CertificateFacts): string {
  const names = artefact.readers.flatMap(({ component, needs }) => (needs === 'restart' ? [component] : []));
  if (names.length === 0 || hasKubelet(resolved.artefacts)) return '';
  const wanted =
    fault.reason === 'Expired'
      ? 'what runs is restarted with --restart, as a unit of systemd'
      : `restart it before ${notAfter.toISOString()}, one machine after the other`;
  return `; ${names.join(', ')} reads it at its start only: ${wanted}`;
}

/** Kept: more of its own life is left than the threshold. */
function notYet({ artefact, policy, now }: FaultySigner, certificate: CertificateFacts): Verdict | undefined {
  const due = laterMs(certificate.notAfter, -(thresholdMs({ artefact, policy }, certificate) ?? 0));
  const told = `valid until ${certificate.notAfter.toISOString()}; renewed with its own key from ${due.toISOString()}`;
  if (now >= due) return undefined;
  return { ...keep('Healthy', told, earliest(due, laterMs(now, idleMs))), renewsAt: renewalAt(policy, due) };
}

const isSelfSigned = ({ fingerprint, signedBy }: CertificateFacts): boolean => signedBy.includes(fingerprint);
