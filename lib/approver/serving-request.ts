// Whether a request is one that a kubelet sends for its serving certificate: the first two rules of KEP-267, and the
// rules of kube-controller-manager's signer (pkg/apis/certificates/helpers.go, ValidateKubeletServingCSR). Pure.
// Whether the names are the node's: addresses.ts.
import { isIP } from 'node:net';
import { bounds } from '../bounds.ts';
import { dnsSubdomain } from '../inventory/values.ts';
import type { CertificateRequest } from '../pki/csr.ts';
import { extensionRequest } from '../pki/csr.ts';
import { subjectAltName } from '../pki/extensions.ts';
import { nodePrefix, nodesGroup } from '../well-known.ts';
import {
  type Content,
  judgeKey,
  judgeSignature,
  judgeSpec,
  judgeSubject,
  nodeOf,
  quoted,
  type SigningRequest,
  type Unsuitable,
  unsuitable,
} from './request.ts';

/** Requested name in canonical form. */
export interface AskedName {
  readonly kind: 'DNS' | 'IP';
  readonly value: string;
}

export type ServingShape =
  Unsuitable | { readonly action: 'judge'; readonly node: string; readonly asked: readonly AskedName[] };

/** The requesting node, as the API server has authenticated it. */
export const requestingNode = ({ spec }: SigningRequest): string | undefined => nodeOf(spec.username ?? '');

const wantedGroups = [nodesGroup, 'system:authenticated'];

/**
 * Rules in their order; the first that fails is the reason. `read`: its content, parsed after the requester is checked.
 */
export function judgeServingRequest(request: SigningRequest, read: () => Content): ServingShape {
  const { username = '', groups = [] } = request.spec;
  const node = requestingNode(request);
  if (node === undefined || !wantedGroups.every((group) => groups.includes(group))) {
    const who = `${quoted([username])} in the groups ${quoted(groups)}`;
    const wanted = `wanted "${nodePrefix}<node>" in ${quoted(wantedGroups)}: a kubelet asks for itself`;
    return unsuitable('RequesterUnsuitable', `its requester is ${who}, ${wanted}`);
  }
  const content = read();
  if ('problem' in content) return unsuitable('RequestUnreadable', content.problem);
  const refused =
    judgeSignature(content) ??
    judgeSubject(content, node) ??
    judgeNames(content) ??
    judgeExtensions(content) ??
    judgeSpec(request, 'server auth') ??
    judgeKey(content);
  return refused ?? { action: 'judge', node, asked: namesOf(content) };
}

/** Each once. Go's crypto/x509 ignores case and one final dot in DNS names (toLowerCaseASCII, VerifyHostname). */
function namesOf({ alternativeNames }: CertificateRequest): readonly AskedName[] {
  const asked = alternativeNames.flatMap(({ kind, value }): AskedName[] => {
    if (kind === 'IP') return [{ kind, value }];
    return kind === 'DNS' ? [{ kind, value: value.toLowerCase().replace(/\.$/, '') }] : [];
  });
  return [...new Map(asked.map((one) => [`${one.kind} ${one.value}`, one])).values()];
}

/** Resolvers take a name that ends in a number for an IPv4 address (inet_aton; WHATWG URL, "ends in a number"). */
const endsInNumber = /(?:^|\.)(?:\d+|0x[\da-f]*)$/;

const isUsable = ({ kind, value }: AskedName): boolean =>
  kind === 'IP' ? isIP(value) !== 0 : dnsSubdomain.test(value) && !endsInNumber.test(value);

const mostNames = bounds.request.most.names;

function judgeNames(content: CertificateRequest): Unsuitable | undefined {
  if (content.alternativeNames.length > mostNames) {
    const message = `it asks for ${content.alternativeNames.length} alternative names, wanted ${mostNames} at most: no machine has so many`;
    return unsuitable('NamesForbidden', message);
  }
  const others = content.alternativeNames.filter(({ kind }) => kind !== 'DNS' && kind !== 'IP');
  if (others.length > 0) {
    const found = quoted(others.map(({ kind, value }) => `${kind}:${value}`));
    return unsuitable('NamesForbidden', `it asks for the alternative names ${found}, wanted only DNS and IP`);
  }
  const broken = namesOf(content).filter((one) => !isUsable(one));
  if (broken.length > 0) {
    const found = quoted(broken.map(({ kind, value }) => `${kind}:${value}`));
    return unsuitable(
      'NamesForbidden',
      `it asks for ${found}, wanted DNS names without wildcard that end in no number, and IP addresses`,
    );
  }
  if (content.alternativeNames.length > 0) return undefined;
  return unsuitable('NamesMissing', 'it asks for no alternative name, wanted at least one DNS name or IP address');
}

function judgeExtensions({ wantsCa, extensions, attributes }: CertificateRequest): Unsuitable | undefined {
  if (wantsCa) return unsuitable('ExtensionForbidden', 'it asks for the rights of a CA');
  const more = extensions.filter((oid) => oid !== subjectAltName);
  if (more.length > 0) {
    const message = `it asks for extensions besides subjectAltName, a kubelet for none: ${quoted(more)}`;
    return unsuitable('ExtensionForbidden', message);
  }
  const unknown = attributes.filter((oid) => oid !== extensionRequest);
  if (unknown.length === 0) return undefined;
  return unsuitable('ExtensionForbidden', `it has attributes that no kubelet sends: ${quoted(unknown)}`);
}
