// The relations of trust of a control plane, in one table: which credential must verify against which trust, and what
// breaks where it does not. From the tables of "Operating kube-apiserver Without Hiccups" (KubeCon Europe 2019), and
// from the flags of Kubernetes 1.35 and etcd 3.6. docs/trust.md shows the same table. Pure.
import { flagName, type FlagOf } from '../inventory/file-flags.ts';
import { clusterInfoKey, clusterInfoName } from '../kube/cluster-info.ts';

export type Usage = 'clientAuth' | 'serverAuth';

/** Names and addresses by which clients know a server (met-names.ts). */
export type NameRule = 'inCluster' | 'node' | 'etcdServers' | 'etcdPeers';

/** A trust, and what it must find in the credential. */
export interface Direction {
  readonly trust: FlagOf;
  /** All of them: a peer is server and client. */
  readonly usages: readonly Usage[];
  readonly names?: NameRule | undefined;
  /** The flag that lists the common names that are allowed; any, where it is not set. */
  readonly commonNames?: FlagOf;
  /** Without that flag its component trusts nobody. Default: it asks nobody for a certificate then. */
  readonly isDemanded?: true;
}

/** How a credential is verified. */
export type Rule =
  /** The certificate in a file, in one handshake or in several. */
  | { readonly kind: 'certificate'; readonly credential: FlagOf; readonly directions: readonly Direction[] }
  /** Certificates that a CA signs from now on; of these flags the first that is set names the CA. */
  | { readonly kind: 'issued'; readonly credential: readonly [FlagOf, ...FlagOf[]]; readonly direction: Direction }
  /** The client certificate in each kubeconfig. */
  | { readonly kind: 'kubeconfigClient'; readonly direction: Direction }
  /** A server's certificate against the CA in each kubeconfig. */
  | { readonly kind: 'kubeconfigServer'; readonly credential: FlagOf }
  /** A key against the public keys by which its signatures are verified. */
  | { readonly kind: 'tokenKey'; readonly credential: FlagOf; readonly trust: FlagOf }
  /** The key of each CA that signs requests against its certificate. */
  | { readonly kind: 'signerKeys'; readonly credential: FlagOf; readonly trust: FlagOf }
  /** Every certificate against its own key. */
  | { readonly kind: 'pairs' };

/** Trust that the API keeps for readers elsewhere: an entry of a ConfigMap. */
export interface PublishedTrust {
  readonly namespace: string;
  readonly name: string;
  readonly key: string;
  /** The entry that lists the common names that are allowed, as JSON. */
  readonly commonNamesKey?: string;
}

export interface Relation {
  readonly id: `R${number}`;
  readonly rule: Rule;
  /** The same credential must verify against this, too. */
  readonly published?: PublishedTrust;
  /** What does not work any more, as the last part of a sentence. */
  readonly breaks: string;
  /** By what people see it. */
  readonly seen: string;
}

const kas = (flag: string): FlagOf => ({ component: 'kube-apiserver', flag });
const kcm = (flag: string): FlagOf => ({ component: 'kube-controller-manager', flag });
const ks = (flag: string): FlagOf => ({ component: 'kube-scheduler', flag });
const kubelet = (flag: string): FlagOf => ({ component: 'kubelet', flag });
const etcd = (flag: string): FlagOf => ({ component: 'etcd', flag });

const clients = { trust: kas('client-ca-file'), usages: ['clientAuth'], isDemanded: true } as const;
const kubeletServers = { trust: kas('kubelet-certificate-authority'), usages: ['serverAuth'] } as const;
const fronts = { usages: ['clientAuth'], commonNames: 'requestheader-allowed-names' } as const;
const frontTo = (of: (flag: string) => FlagOf): Direction => ({
  trust: of('requestheader-client-ca-file'),
  usages: fronts.usages,
  commonNames: of(fronts.commonNames),
});

export const relations: readonly Relation[] = [
  {
    id: 'R1',
    rule: {
      kind: 'issued',
      credential: [kcm('cluster-signing-kubelet-client-cert-file'), kcm('cluster-signing-cert-file')],
      direction: clients,
    },
    breaks: 'kubelets are refused with their next client certificate (rotateCertificates)',
    seen: 'nodes become NotReady, one after the other; their kubelets log `Unauthorized`',
  },
  {
    id: 'R2',
    rule: { kind: 'certificate', credential: kas('proxy-client-cert-file'), directions: [frontTo(kas)] },
    breaks: 'aggregated API servers refuse what kube-apiserver forwards',
    seen: 'APIServices are not Available; `kubectl top` says `Unauthorized`',
  },
  {
    id: 'R3',
    rule: {
      kind: 'certificate',
      credential: kubelet('tls-cert-file'),
      directions: [{ ...kubeletServers, names: 'node' }],
    },
    breaks: 'kube-apiserver reaches no kubelet: logs, exec, port-forward',
    seen: '`kubectl logs` says `tls: failed to verify certificate`',
  },
  {
    id: 'R4',
    rule: {
      kind: 'issued',
      credential: [kcm('cluster-signing-kubelet-serving-cert-file'), kcm('cluster-signing-cert-file')],
      direction: kubeletServers,
    },
    breaks: 'kube-apiserver refuses kubelets with their next serving certificate (serverTLSBootstrap)',
    seen: '`kubectl logs` fails on one node after the other',
  },
  {
    id: 'R5',
    rule: {
      kind: 'certificate',
      credential: kas('kubelet-client-certificate'),
      directions: [{ trust: kubelet('client-ca-file'), usages: ['clientAuth'], isDemanded: true }],
    },
    breaks: 'kubelets answer kube-apiserver with 401: logs, exec',
    seen: '`kubectl logs` says `the server has asked for the client to provide credentials`',
  },
  {
    id: 'R6',
    rule: {
      kind: 'tokenKey',
      credential: kcm('service-account-private-key-file'),
      trust: kas('service-account-key-file'),
    },
    breaks: 'tokens in Secrets are refused',
    seen: 'programs with such a token get 401',
  },
  {
    id: 'R7',
    rule: {
      kind: 'tokenKey',
      credential: kas('service-account-signing-key-file'),
      trust: kas('service-account-key-file'),
    },
    breaks: 'tokens of Pods are refused',
    seen: 'every Pod that asks the API gets 401',
  },
  {
    id: 'R8',
    rule: {
      kind: 'certificate',
      credential: kas('tls-cert-file'),
      directions: [{ trust: kcm('root-ca-file'), usages: ['serverAuth'], names: 'inCluster' }],
    },
    published: { namespace: 'default', name: 'kube-root-ca.crt', key: 'ca.crt' },
    breaks: 'Pods refuse the API server (kube-root-ca.crt)',
    seen: 'Pods log `x509: certificate signed by unknown authority`',
  },
  {
    id: 'R9',
    rule: { kind: 'kubeconfigServer', credential: kas('tls-cert-file') },
    published: { ...clusterInfoName, key: clusterInfoKey },
    breaks: 'the holder of that kubeconfig refuses the API server',
    seen: 'it logs `tls: failed to verify certificate`',
  },
  {
    id: 'R10',
    rule: { kind: 'kubeconfigClient', direction: clients },
    breaks: 'the API server answers the holder of that kubeconfig with 401',
    seen: 'it logs `Unauthorized`',
  },
  {
    id: 'R11',
    rule: {
      kind: 'certificate',
      credential: kas('etcd-certfile'),
      directions: [{ trust: etcd('trusted-ca-file'), usages: ['clientAuth'] }],
    },
    breaks: 'kube-apiserver does not start',
    seen: 'etcd logs `rejected connection`, kube-apiserver `context deadline exceeded`',
  },
  {
    id: 'R12',
    rule: {
      kind: 'certificate',
      credential: etcd('cert-file'),
      directions: [
        { trust: kas('etcd-cafile'), usages: ['serverAuth'], names: 'etcdServers' },
        // etcd is its own client, for its gateway from HTTP to gRPC (etcd-io/etcd#9785).
        { trust: etcd('trusted-ca-file'), usages: ['clientAuth'] },
      ],
    },
    breaks: 'kube-apiserver does not start; etcd does not answer HTTP',
    seen: 'kube-apiserver logs `authentication handshake failed`',
  },
  {
    id: 'R13',
    rule: {
      kind: 'certificate',
      credential: etcd('peer-cert-file'),
      directions: [{ trust: etcd('peer-trusted-ca-file'), usages: ['serverAuth', 'clientAuth'], names: 'etcdPeers' }],
    },
    breaks: 'members of etcd refuse each other: no quorum',
    seen: 'etcd logs `rejected connection on peer endpoint`',
  },
  {
    id: 'R14',
    rule: {
      kind: 'signerKeys',
      credential: kcm('cluster-signing-key-file'),
      trust: kcm('cluster-signing-cert-file'),
    },
    breaks: 'kube-controller-manager does not start, or signs no request',
    seen: 'it logs `private key does not match public key`; approved requests stay without a certificate',
  },
  {
    id: 'R15',
    rule: { kind: 'pairs' },
    breaks: 'the process does not start, or keeps the former pair',
    seen: 'it logs `private key does not match public key`',
  },
  {
    id: 'R16',
    rule: {
      kind: 'certificate',
      credential: kas('proxy-client-cert-file'),
      directions: [frontTo(kcm), frontTo(ks)],
    },
    published: {
      namespace: 'kube-system',
      name: 'extension-apiserver-authentication',
      key: 'requestheader-client-ca-file',
      commonNamesKey: fronts.commonNames,
    },
    breaks: 'that server takes no user from kube-apiserver as a front proxy',
    seen: 'it answers forwarded requests with 401',
  },
];

/** caBundles by which kube-apiserver verifies servers of others, by the kinds of objects that have them. */
export const bundleKinds = {
  B1: {
    of: ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'],
    breaks: 'kube-apiserver refuses the webhook, and every request that it must see (failurePolicy Fail)',
    seen: 'requests fail with `failed calling webhook`',
  },
  B2: {
    of: ['CustomResourceDefinition'],
    breaks: 'objects of that kind can neither be read nor written in another version',
    seen: 'requests fail with `conversion webhook for ... failed`',
  },
  B3: {
    of: ['APIService'],
    breaks: 'kube-apiserver refuses the aggregated server',
    seen: 'the APIService is not Available (`FailedDiscoveryCheck`)',
  },
} as const;

/** An entry of a ConfigMap, for people, and by its content in TrustFacts. */
export const publishedText = ({ namespace, name }: PublishedTrust, key: string): string =>
  `ConfigMap "${namespace}/${name}" ${key}`;

/** Both sides of a relation as its flags are named, for people. */
export function sidesOf({ rule, published }: Relation): {
  readonly credential: readonly string[];
  readonly trust: readonly string[];
} {
  const { credential, trust } = sidesOfRule(rule);
  const also = published === undefined ? [] : [publishedText(published, published.key)];
  return { credential, trust: [...trust, ...also] };
}

function sidesOfRule(rule: Rule): ReturnType<typeof sidesOf> {
  const different = (flags: readonly FlagOf[]): readonly string[] => [...new Set(flags.map(flagName))];
  switch (rule.kind) {
    case 'certificate':
      return { credential: [flagName(rule.credential)], trust: different(rule.directions.map(({ trust }) => trust)) };
    case 'issued':
      return { credential: different(rule.credential), trust: [flagName(rule.direction.trust)] };
    case 'kubeconfigClient':
      return { credential: ['client certificate of each kubeconfig'], trust: [flagName(rule.direction.trust)] };
    case 'kubeconfigServer':
      return { credential: [flagName(rule.credential)], trust: ['CA of each kubeconfig'] };
    case 'tokenKey':
    case 'signerKeys':
      return { credential: [flagName(rule.credential)], trust: [flagName(rule.trust)] };
    case 'pairs':
      return { credential: ['every certificate'], trust: ['its own key'] };
  }
}
