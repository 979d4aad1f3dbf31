// A kubeadm machine after `init adopt`: its static pods follow objects in the API. Their flags name kubeadm's files
// first and ours after them, and the last one counts. So kubeadm's files are kept valid there for the way back, but a
// component whose flags no longer name them reads them no longer: nothing has to be restarted for them, and no
// component serves them. Pure.
//
// The kubelet stays kubeadm's: its certificate is signed with the CA key on this machine. That works only while the API
// server still trusts that CA, and while the kubelet trusts the API server's certificate; else a certificate that looks
// valid would keep the kubelet from requesting a good one with its bootstrap kubeconfig.
import { readKubeconfigView } from '../../kubeconfig/document.ts';
import { type Certificate, isSameAuthority, wholeCertificates } from '../../pki/certificate.ts';
import { signatureMatches } from '../../pki/verify.ts';
import type { Endpoints } from '../model.ts';
import { containersOf, flagsOf } from './documents.ts';

/** The name of our container in a static pod (lib/adopt/static-pods.ts). */
const ownContainer = 'kube-cert-recovery';

/** Files by component: a component listed here reads only these. */
export type FilesRead = Readonly<Record<string, readonly string[]>>;

/** Returns the files of adopted components. `manifests`: their texts by component. */
export function readByAdopted(manifests: Readonly<Record<string, string | undefined>>): FilesRead {
  const adopted = Object.entries(manifests).filter(
    ([, text = '']) => text.includes(ownContainer) && containersOf(text).some(({ name }) => name === ownContainer),
  );
  return Object.fromEntries(
    adopted.map(([component, text]) => [component, [...(flagsOf(text ?? '', component)?.values() ?? [])]]),
  );
}

/** Trust that a kubelet identity of this machine would meet. Texts in PEM; undefined: it could not be read. */
export interface KubeletTrust {
  /** kubeadm's CA on this machine, which would sign. */
  readonly authority: string | undefined;
  /** Effective kube-apiserver --client-ca-file and --tls-cert-file. */
  readonly clientAuthorities: string | undefined;
  readonly served: string | undefined;
  readonly kubeletKubeconfig: string | undefined;
  /** Path of that kubeconfig. */
  readonly kubeconfigFile: string;
  readonly endpoints: Endpoints;
}

/** Why the CA on this machine must not sign for the kubelet, as the last part of a sentence; undefined: it may. */
export function signingProblem(trust: KubeletTrust): string | undefined {
  const own = wholeCertificates(trust.authority);
  const clients = wholeCertificates(trust.clientAuthorities);
  if (
    own.length > 0 &&
    clients.length > 0 &&
    !own.some((one) => clients.some((other) => isSameAuthority(one, other)))
  ) {
    return 'the API server trusts no client of that CA any more';
  }
  const [leaf] = wholeCertificates(trust.served);
  const known = authoritiesOfKubelet(trust) ?? own;
  if (leaf === undefined || known.length === 0 || known.some((one) => signatureMatches(leaf, one))) return undefined;
  return 'kubelet.conf knows the API server by that CA, which has not signed what it serves';
}

/** Returns none where it names a file: its owner keeps it up to date. Undefined where there is no CA in it. */
function authoritiesOfKubelet({
  kubeletKubeconfig,
  kubeconfigFile,
  endpoints,
}: KubeletTrust): readonly Certificate[] | undefined {
  if (kubeletKubeconfig === undefined) return undefined;
  const view = readKubeconfigView(kubeconfigFile, Buffer.from(kubeletKubeconfig), endpoints);
  if (!('authority' in view) || view.authority.kind === 'none') return undefined;
  return view.authority.kind === 'file' ? [] : wholeCertificates(view.authority.bytes);
}
