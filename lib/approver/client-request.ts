// Whether a request is what a kubelet sends when it has no client certificate: from one of `approver.requesters`, for the
// signer of kubelets' client certificates. Pure. As kube-controller-manager asks before it signs
// (pkg/apis/certificates/helpers.go, ValidateKubeletClientCSR), and without attributes or extensions.
import { isDeepStrictEqual } from 'node:util';
import { isOf, kubeletClientSigner, type Requester } from '../bootstrap-identity.ts';
import { type CertificateRequest, readRequestSubject } from '../pki/csr.ts';
import { isClusterName } from './cluster-names.ts';
import {
  type Content,
  judgeKey,
  judgeSignature,
  judgeSpec,
  judgeSubject,
  nodeOf,
  nodeOfClusterName,
  quoted,
  type SigningRequest,
  type Unsuitable,
  unsuitable,
} from './request.ts';

/** By name alone: what asks with the right name and other groups is looked at, and reported. */
export const requesterIn = ({ spec }: SigningRequest, requesters: readonly Requester[]): Requester | undefined =>
  spec.signerName === kubeletClientSigner ? requesters.find((one) => isOf(one, spec.username)) : undefined;

/** The node that it asks for; its subject only: the signature is checked when it is judged. */
export function askedNode({ spec }: SigningRequest): string | undefined {
  try {
    return nodeOf(readRequestSubject(Buffer.from(spec.request, 'base64')).commonName);
  } catch {
    return undefined; // its look will say what it is
  }
}

type Shape = Unsuitable | { readonly action: 'judge'; readonly node: string; readonly content: CertificateRequest };

/** The rules in their order; the first that fails is the reason. `read`: what it holds, which is asked for after who asks. */
export function judgeClientRequest(request: SigningRequest, read: () => Content, requester: Requester): Shape {
  const { groups = [] } = request.spec;
  if (!isDeepStrictEqual(new Set(groups), new Set(requester.groups))) {
    const message = `its requester has the groups ${quoted(groups)}, wanted ${quoted(requester.groups)}`;
    return unsuitable('RequesterDiffers', message);
  }
  const content = read();
  if ('problem' in content) return unsuitable('RequestUnreadable', content.problem);
  const node = nodeOf(content.subject.commonName);
  const refused =
    judgeSignature(content) ??
    judgeSubject(content) ??
    judgeExtensions(content) ??
    judgeSpec(request, 'client auth') ??
    judgeKey(content);
  if (refused !== undefined || node === undefined)
    return refused ?? unsuitable('SubjectUnsuitable', 'it names no node');
  if (isClusterName(node)) return unsuitable('NameOfCluster', nodeOfClusterName(node));
  return { action: 'judge', node, content };
}

function judgeExtensions(content: CertificateRequest): Unsuitable | undefined {
  if (content.alternativeNames.length > 0) {
    const names = content.alternativeNames.map(({ kind, value }) => `${kind} ${value}`);
    return unsuitable('NamesForbidden', `it asks for alternative names (${quoted(names)}), a client has none`);
  }
  if (content.wantsCa) return unsuitable('ExtensionForbidden', 'it asks for the rights of a CA');
  if (content.extensions.length > 0) {
    const message = `it asks for extensions, a kubelet for none: ${quoted(content.extensions)}`;
    return unsuitable('ExtensionForbidden', message);
  }
  if (content.attributes.length === 0) return undefined;
  const message = `it has attributes that no kubelet sends: ${quoted(content.attributes)}`;
  return unsuitable('ExtensionForbidden', message);
}
