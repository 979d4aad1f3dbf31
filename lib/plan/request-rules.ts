// The client certificate of a kubelet on a machine without the key of the CA (`obtainedBy: request`): when it is
// requested, and whether the issued certificate is the requested one. The key stays: possession of it, with the
// certificate issued for it, is all that such a machine can prove of itself (the approver judges it). So the expired pair
// stays until the issued certificate is known to be of use. Pure.
import type { ResolvedTarget } from '../inventory/model.ts';
import { byHandAdvice } from '../next-command.ts';
import type { Certificate, CertificateFacts } from '../pki/certificate.ts';
import { locationText } from '../store/store.ts';
import { nodePrefix, nodesGroup } from '../well-known.ts';
import { blocked, bring, type Case, keep, laterMs, lookAgainMs, nothing, renew, type Verdict } from './decision.ts';
import { certificatesOf } from './facts.ts';
import { isShutOut } from './follow-rules.ts';

export function judgeRequested(at: Case<ResolvedTarget>): Verdict {
  const { artefact, fact, offers, now } = at;
  const [leaf] = certificatesOf(fact);
  const isLost = fact.state === 'present' && fact.isLost === true;
  const cannot = (problem: string): Verdict => {
    const what = `Cannot renew the kubelet's certificate in ${locationText(artefact.location)}: ${problem}`;
    const message = `${what}; ${byHandAdvice(kubeletOf(leaf))}`;
    return bring(leaf === undefined ? 'Unreadable' : 'NotOurs', message, laterMs(now, lookAgainMs));
  };
  if (leaf === undefined)
    return cannot(
      fact.state === 'broken'
        ? 'certificate or key cannot be read'
        : 'there is none: its file is absent, empty or holds something else',
    );
  const ended = leaf.notAfter.toISOString();
  if (now < leaf.notAfter) {
    if (!isLost) return keep('Healthy', `valid until ${ended}`, leaf.notAfter);
    const message = `its file holds none; an earlier one, valid until ${ended}, is put back`;
    return renew({ ...at, fault: { reason: 'Absent', message } }, [], {}, 'putBack');
  }
  const state = `it expired at ${ended}`;
  if (kubeletOf(leaf) === undefined)
    return cannot(`it is that of "${leaf.subject}", wanted one of a node (CN=${nodePrefix}..., O=${nodesGroup})`);
  if (fact.state === 'broken' && fact.problem === 'mismatchedPair')
    return cannot('it has expired, and the key beside it belongs to another one');
  if (fact.state !== 'present') return cannot('it has expired, and there is no key that can be used beside it');
  const shutOut = isShutOut(at);
  if (shutOut === 'forNow')
    return blocked('SignerUnusable', `${state}; a valid CA comes first`, laterMs(now, lookAgainMs));
  const answer = offers?.get(artefact.name)?.answer;
  if (answer === undefined) {
    const when = shutOut === undefined ? '' : ', once a CA is valid';
    const message = `${state}; a new one is requested with its key${when}`;
    return {
      ...renew({ ...at, fault: { reason: 'Expired', message } }, [], {}, 'request'),
      obtains: 'request',
      leaves: nothing,
    };
  }
  if (!('offered' in answer)) {
    const problem = 'problem' in answer ? answer.problem : 'no certificate was issued';
    return blocked('SignerExternal', `${state}; ${problem}`, laterMs(now, lookAgainMs));
  }
  const { offered, present } = answer;
  const problem = present === undefined ? 'it is for another key' : issuedProblem(offered, present, now);
  if (problem !== undefined)
    return blocked('SignerExternal', `${state}; the issued one cannot be used, ${problem}`, laterMs(now, lookAgainMs));
  const newNotAfter = offered.facts.notAfter;
  const message = `${state}; issued by "${offered.facts.issuer}" until ${newNotAfter.toISOString()}`;
  return renew({ ...at, fault: { reason: 'Expired', message } }, [], { newNotAfter }, 'request');
}

/** Name of the node whose client certificate it is; undefined: that of another client. */
export function kubeletOf(leaf: CertificateFacts | undefined): string | undefined {
  if (leaf?.commonName.startsWith(nodePrefix) !== true || !leaf.organizations.includes(nodesGroup)) return undefined;
  return leaf.commonName.slice(nodePrefix.length) || undefined;
}

/** How a certificate differs from the one that was requested by the expired pair; undefined: it is that one. */
export function issuedProblem(made: Certificate, expired: Certificate, now: Date): string | undefined {
  const { commonName, organizations, notAfter, usages } = made.facts;
  const wanted = expired.facts;
  if (!made.fields.publicKeyInfo.equals(expired.fields.publicKeyInfo)) return 'it is for another key';
  if (commonName !== wanted.commonName || organizations.join() !== wanted.organizations.join())
    return `it is for "${made.facts.subject}", wanted "${wanted.subject}"`;
  if (made.facts.isCa) return 'it is one of a CA';
  if (usages?.includes('clientAuth') === false) return 'it is for no client';
  return now < notAfter ? undefined : `it has expired at ${notAfter.toISOString()}`;
}
