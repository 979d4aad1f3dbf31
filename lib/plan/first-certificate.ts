// Reports a signer that is not the first certificate of its file: kubeadm takes the first of several
// (kubernetes/kubernetes cmd/kubeadm/app/util/pkiutil, TryLoadCertFromDisk), whatever key lies next to it. Pure.
import type { ArtefactFacts } from './facts.ts';

/** Suffix for a message about the signer; undefined where its certificate comes first. */
export function precedenceText(fact: ArtefactFacts | undefined): string | undefined {
  const first = fact?.state === 'present' ? fact.precededBy : undefined;
  return (
    first &&
    `kubeadm signs by the first certificate in the file, "${first}", not by this one, whose key is here; put this one in front before kubeadm is used`
  );
}
