// Foreign material in the place of a target: a kubeconfig with foreign credentials, another document, a certificate of
// another CA. It is left unchanged, and reported where a person must act. Pure.
import { otherNode } from '../inventory/fitness.ts';
import type { ResolvedTarget } from '../inventory/model.ts';
import type { CertificateFacts } from '../pki/certificate.ts';
import { locationText } from '../store/store.ts';
import {
  bring,
  type Case,
  earliest,
  type Faulty,
  idleMs,
  keep,
  laterMs,
  lookAgainMs,
  type PairCase,
  type Verdict,
} from './decision.ts';
import { certificatesOf } from './facts.ts';
import { nodePrefix } from '../well-known.ts';

/**
 * Judges a kubeconfig whose credentials another program maintains, or a document of another kind: neither is ever
 * written. A person must decide which file belongs there, and must bring a replacement for an expired one.
 */
export function fileOfOthers({ artefact, fact, now }: Case): Verdict | undefined {
  if (fact.state !== 'broken' || fact.problem !== 'foreign') return undefined;
  const [certificate] = certificatesOf(fact);
  const isExpired = certificate !== undefined && now >= certificate.notAfter;
  if (fact.isOtherDocument === true) {
    const what = artefact.location.kind === 'kubeconfig' ? 'the kubeconfig of its component by --kubeconfig' : itsFile;
    return bring('NotOurs', `${fact.message}; move it away, or name ${what}`, laterMs(now, lookAgainMs));
  }
  if (!isExpired) {
    const until = earliest(laterMs(now, idleMs), certificate?.notAfter);
    return keep('NotOurs', fact.message, until);
  }
  const message = `${fact.message}; its certificate expired at ${certificate.notAfter.toISOString()}: renew it where it was made`;
  return bring('NotOurs', message, laterMs(now, lookAgainMs));
}

const itsFile = 'the file that belongs in its place by the flag of its component';

/** Whether another CA signed it: by the name of its issuer; where a flag names a file elsewhere, by the signature. */
const hasOtherIssuer = ({ artefact, expected, facts }: PairCase, { issuer, signedBy }: CertificateFacts): boolean => {
  // A flag names the file, and no CA of this machine has signed it.
  if (artefact.kind === 'target' && artefact.isElsewhere === true && artefact.issuer === undefined) return true;
  const signer = expected.get(artefact.issuer ?? '')?.certificate;
  if (signer === undefined) return false;
  if (artefact.kind !== 'target' || artefact.isElsewhere !== true) return issuer !== signer.subject;
  return !certificatesOf(facts.get(artefact.issuer ?? '')).some(({ fingerprint }) => signedBy.includes(fingerprint));
};

/**
 * kube-controller-manager may sign for kubelets with a CA of its own (--cluster-signing-kubelet-*), which is unknown
 * here. A CA with the name of ours is a former one of ours.
 */
export function isSignedByOthers(at: PairCase, certificate: CertificateFacts): boolean {
  const { artefact, expected } = at;
  if (artefact.kind !== 'target') return false;
  if (artefact.issuer === undefined) return artefact.isElsewhere === true;
  if (artefact.rotatedBy === undefined && artefact.mayBeOfOthers !== true) return false;
  const signer = expected.get(artefact.issuer);
  return !certificate.signedBy.some((print) => signer?.trusted.has(print)) && hasOtherIssuer(at, certificate);
}

/** Only its readers know which CA they trust: the CA that has signed it so far, which may not be ours. */
export function ofOthers(at: Faulty<Case<ResolvedTarget>>): Verdict | undefined {
  const { artefact, fact, now, fault } = at;
  // A damaged manifest may name any path: nothing is made where no whole certificate shows that it belongs there.
  if (artefact.isElsewhere === true && fact.state !== 'present') {
    const wanted = `bring a certificate and its key to ${locationText(artefact.location)}, or correct the flag that names it`;
    const told = `${fault.message}; it is not where kubeadm has it, so nothing here shows which CA it needs: ${wanted}`;
    return bring('SignerExternal', told, laterMs(now, lookAgainMs));
  }
  const [certificate] = certificatesOf(fact);
  if (artefact.mayBeOfOthers !== true || certificate === undefined || !hasOtherIssuer(at, certificate))
    return undefined;
  const who = `a new certificate for "${certificate.commonName}", signed by ${certificate.issuer}`;
  const wanted = `bring ${who}, with its key to ${locationText(artefact.location)}`;
  const told = `${fault.message}; ${artefact.issuer === undefined ? 'no CA of this machine' : `another CA than ${artefact.issuer}`} has signed it: ${wanted}`;
  return (fault.reason === 'RefreshDue' ? keep : bring)('SignerExternal', told, laterMs(now, lookAgainMs));
}

/** Why a lost key is not replaced: flags name it for another certificate, too, and a new key would break that. */
export function sharedKeyLost({ artefact, fact, now, fault }: Faulty<Case<ResolvedTarget>>): Verdict | undefined {
  const isLost = fact.state === 'absent' || (fact.state === 'broken' && fact.hasSharedKey === false);
  if (artefact.sharesKey !== true || !isLost) return undefined;
  const told =
    `${fault.message}; flags name its key for another certificate or in another file as well, so no other one is made: bring the ` +
    `key back to ${locationText(artefact.location)}, or give each certificate a key of its own`;
  return bring(fault.reason, told, laterMs(now, lookAgainMs));
}

/** Keeps a certificate of another CA, such as the signer for kubelets, as long as it is valid. */
export function signedByOthers(at: PairCase, certificate: CertificateFacts): Verdict | undefined {
  if (!isSignedByOthers(at, certificate)) return undefined;
  const message = `it is signed by another CA (${certificate.issuer}), and is left alone until it ends`;
  return keep('NotOurs', message, certificate.notAfter);
}

/** Reports a valid identity of another node: only a person knows the wrong name. An expired one is remade here. */
export function ofOtherNode({ artefact, now }: PairCase, certificate: CertificateFacts): Verdict | undefined {
  const other = artefact.kind === 'target' ? otherNode(artefact, certificate) : undefined;
  if (artefact.kind !== 'target' || other === undefined) return undefined;
  const own = artefact.commonName?.slice(nodePrefix.length);
  const message =
    `it is the identity of node "${other}", and this machine is "${own}" (--hostname-override of its kubelet, --name of ` +
    `its etcd, or its host name): its kubelet is refused with it; bring that of "${own}", or move ` +
    `${locationText(artefact.location)} away: the next run makes one`;
  return bring('NotOurs', message, earliest(laterMs(now, lookAgainMs), certificate.notAfter));
}
