// When a CA in files that has expired gets a later end: with its own key, which is on this machine, and never with another
// one, because other machines have the same CA. Who has the key makes the same certificate (pki/own-key.ts), so nobody is
// asked first. Where a successor of it lies here already, that comes in its place. Pure.
import type { Signer } from '../inventory/model.ts';
import { isFile, isMadeHere } from '../inventory/places.ts';
import type { CertificateFacts } from '../pki/certificate.ts';
import { renewedNotAfter } from '../pki/own-key.ts';
import { bring, type Case, type Faulty, laterMs, lookAgainMs, renew, type Verdict } from './decision.ts';
import { certificateOf } from './facts.ts';

type Expired = Faulty<Case<Signer>>;

export function withOwnKey(at: Expired): Verdict | undefined {
  const { artefact, fact, policy, now, fault } = at;
  const certificate = certificateOf(fact);
  if (fault.reason !== 'Expired' || fact.state !== 'present' || certificate === undefined) return undefined;
  if (!isFile(artefact.location) || isMadeHere(artefact) || !isSelfSigned(certificate)) return undefined;
  if (policy.caRenewal === 'Report') {
    const wanted = 'renew it with its own key by hand, or set regen.caRenewal to SameKey';
    return bring('NotOurs', `${fault.message}; ${wanted}`, laterMs(now, lookAgainMs));
  }
  const { newer, from = [], namedBy = [] } = fact.successor ?? {};
  // What it has signed verifies under its successor: `trusted` says so by the old certificate.
  const leaves = {
    trusted: new Set([certificate.fingerprint]),
    newFrom: new Set([artefact.name]),
    keepsKey: true,
  } as const;
  if (newer !== undefined) {
    const message = `${fault.message}; its successor, valid until ${newer.notAfter.toISOString()}, is in ${from.join(', ')} and comes in its place`;
    const verdict = renew({ ...at, fault: { ...fault, message } }, [], { ...leaves, newNotAfter: newer.notAfter });
    return { ...verdict, putsBack: true, keepsKey: true };
  }
  const newNotAfter = renewedNotAfter(certificate, now);
  const serial = namedBy.length > 0 ? `the same serial, which ${namedBy.join(', ')} names` : 'a serial derived from it';
  const message = `${fault.message}; renewed with its own key until ${newNotAfter.toISOString()}, with ${serial}`;
  const verdict = renew({ ...at, fault: { ...fault, message } }, [], { ...leaves, newNotAfter });
  return { ...verdict, keepsKey: true };
}

const isSelfSigned = ({ fingerprint, signedBy }: CertificateFacts): boolean => signedBy.includes(fingerprint);
