// Whether the peers of a leaf certificate can accept it for the use of its entry, whatever signed it. Pure. Only
// certain refusals count: names and groups may also be an administrator's choice, and a certificate without extended
// key usage, or with anyExtendedKeyUsage, is good for every use (Go crypto/x509 Certificate.Verify).
import type { CertificateFacts } from '../pki/certificate.ts';
import type { ResolvedTarget } from './model.ts';
import { nodePrefix, nodesGroup } from '../well-known.ts';

/** Extended key usages in the order of Kubernetes' own templates. */
export const usagesOf = {
  client: ['clientAuth'],
  serving: ['serverAuth'],
  peer: ['serverAuth', 'clientAuth'],
} as const;

type Wanted = Pick<ResolvedTarget, 'usage' | 'commonName' | 'location'>;
type Presented = Pick<CertificateFacts, 'usages' | 'commonName' | 'organizations'>;

/** Returns why its readers refuse it; undefined where they may accept it. */
export function unfitness(target: Wanted, certificate: Presented): string | undefined {
  const missing = usagesOf[target.usage].filter((usage) => certificate.usages?.includes(usage) === false);
  if (missing.length > 0) return `it may not be used for ${missing.join(' and ')} (extended key usage)`;
  return target.usage === 'client' ? identityProblem(target, certificate) : undefined;
}

/**
 * Returns the foreign user that the kubeconfig of a component has; undefined: its own, or a refused one. Such a
 * kubeconfig works, with the rights of that user.
 */
export function otherIdentity(target: Wanted, certificate: Presented): string | undefined {
  const { commonName: wanted = '', location } = target;
  const { commonName, organizations } = certificate;
  if (location.kind !== 'kubeconfig' || !ownUsers.has(wanted) || commonName === wanted) return undefined;
  if (unfitness(target, certificate) !== undefined) return undefined;
  const groups = organizations.length === 0 ? '' : ` (${organizations.join(', ')})`;
  return `that of "${commonName}"${groups} and not of "${wanted}"`;
}

/**
 * Returns the node whose identity the kubelet of this machine has instead of its own; undefined: its own, or not a
 * node's. The API server lets a node change no other node's objects (plugin/pkg/admission/noderestriction).
 */
export function otherNode(
  { commonName: wanted = '', location }: Wanted,
  { commonName }: Presented,
): string | undefined {
  const isNode = (user: string): boolean => user.startsWith(nodePrefix);
  if (location.kind !== 'kubeconfig' || !isNode(wanted) || !isNode(commonName) || commonName === wanted)
    return undefined;
  return commonName.slice(nodePrefix.length);
}

/** Users of Kubernetes itself: not an administrator's to name, and no other `system:` name has their rights. */
const ownUsers: ReadonlySet<string> = new Set(['system:kube-controller-manager', 'system:kube-scheduler']);

/**
 * kube-apiserver takes the common name for the user and gives a certificate without one no identity at all (apiserver
 * pkg/authentication/request/x509, CommonNameUserConversion). A kubelet is a node only by its name and its group
 * together (pkg/auth/nodeidentifier); the two components get their rights by their names (bootstrappolicy). An
 * administrator may have granted rights to an identity with another group, or a name outside `system:`.
 */
function identityProblem(
  { commonName: wanted = '', location }: Wanted,
  { commonName, organizations }: Presented,
): string | undefined {
  const isNode = wanted.startsWith(nodePrefix);
  if (!isNode && !ownUsers.has(wanted) && location.kind !== 'kubeconfig') return undefined;
  if (commonName === '') return 'its subject has no common name, so it names nobody';
  if (!commonName.startsWith('system:') || organizations.some((group) => group !== nodesGroup)) return undefined;
  if (isNode) {
    if (commonName.startsWith(nodePrefix) && organizations.includes(nodesGroup)) return undefined;
    return `its subject is no node: "${nodePrefix}..." in the group "${nodesGroup}" is wanted`;
  }
  if (!ownUsers.has(wanted) || commonName === wanted) return undefined;
  return `its subject is not ${wanted}, and "${commonName}" has no rights for that`;
}
