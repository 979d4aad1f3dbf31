// Whether a request is one that a kubelet without client certificate sends: from one of `approver.requesters`, for the
// signer of kubelets' client certificates. Pure. The same checks as kube-controller-manager's before it signs
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

/** Matches by name alone: a request with the right name and other groups is judged, and reported. */
export const requesterIn = ({ spec }: SigningRequest, requesters: readonly Requester[]): Requester | undefined =>
  spec.signerName === kubeletClientSigner ? requesters.find((one) => isOf(one, spec.username)) : undefined;

/** Node that the request names; reads only the subject: the signature is checked when the request is judged. */
export function askedNode({ spec }: SigningRequest): string | undefined {
  try {
    return nodeOf(readRequestSubject(Buffer.from(spec.request, 'base64')).commonName);
  } catch {
    return undefined; // reported when the request is judged
  }
}

type Shape = Unsuitable | { readonly action: 'judge'; readonly node: string; readonly content: CertificateRequest };

/**
 * Rules in their order; the first that fails is the reason. `read`: its content, parsed after the requester is checked.
 */
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
