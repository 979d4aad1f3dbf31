// The inventory: one declared model of every artefact of a control plane. Everything the tool does follows from it:
// what regen renews, what the syncer writes, what is proven, which RBAC is granted, what `status` prints.
// This file is types only; presets are data (presets/*.yaml), loaded and checked by load.ts, made concrete by resolve.ts.

/** Milliseconds. Written in YAML as "30d", "12h", "10m", "5s". */
export type DurationMs = number;

/** Where the bytes of an artefact live. */
export type Location = ApiLocation | DiskLocation;

export interface SecretLocation {
  readonly kind: 'secret';
  readonly namespace: string;
  readonly name: string;
}
export interface ConfigMapLocation {
  readonly kind: 'configMap';
  readonly namespace: string;
  readonly name: string;
}
/**
 * A certificate and its key as two PEM files on this host. Absolute paths; in an inventory that is not resolved yet
 * they may begin with a directory parameter, `{pkiDir}/etcd/server.crt`.
 */
export interface PemPairLocation {
  readonly kind: 'pemPair';
  readonly certFile: string;
  readonly keyFile: string;
}
/** CA certificates in one PEM file on this host. The path is as in a pair. */
export interface PemFileLocation {
  readonly kind: 'pemFile';
  readonly file: string;
}
/**
 * A certificate and its key in one PEM file on this host, as the kubelet keeps its own (client-go
 * util/certificate/certificate_store.go): where the file is a symbolic link, a new dated file is made beside its target
 * and the link is flipped.
 */
export interface CombinedPemLocation {
  readonly kind: 'combinedPem';
  readonly file: string;
}
/**
 * The credentials of the current context of a kubeconfig on this host, and the CA by which it knows its server: embedded
 * in it, or in the files that it names. Everything else in it belongs to others and stays.
 */
export interface KubeconfigLocation {
  readonly kind: 'kubeconfig';
  readonly file: string;
  /** For one that has to be written from nothing: which address of the API server it names. */
  readonly endpoint: 'controlPlane' | 'local';
  /** For one that has to be written from nothing: the combined PEM file that holds its credentials; else embedded. */
  readonly credentials?: string;
}
export type ApiLocation = SecretLocation | ConfigMapLocation;
export type DiskLocation = PemPairLocation | PemFileLocation | CombinedPemLocation | KubeconfigLocation;

/** How it is proven that a component *uses* an artefact, and not only that it lies on disk. */
export type Proof =
  | ServedProof
  | { readonly kind: 'lease'; readonly namespace: string; readonly name: string }
  | { readonly kind: 'signsCsr' }
  | { readonly kind: 'proxied' }
  | { readonly kind: 'none' };
/** A TLS handshake with the local API server, asking for `serverName`, is answered with the certificate on disk. */
export interface ServedProof {
  readonly kind: 'served';
  readonly serverName: string;
}

/** A component that reads a published artefact, and what it needs to pick up a change. */
export interface Reader {
  readonly component: string;
  /** `nothing`: the component reloads by itself (Kubernetes 1.35). `restart`: it reads the file only at its start. */
  readonly needs: 'nothing' | 'restart';
  readonly proof: Proof;
}

/**
 * What a machine has or has not, as discovery finds it. `stackedEtcd`: its etcd is a static pod beside the API server.
 * `trustedAuthority`: the CA of kubeadm on this machine and its API server know each other.
 */
export type Feature = 'stackedEtcd' | 'trustedAuthority';

interface ArtefactBase {
  /** Unique in the inventory; the name people see in `status`, logs and configuration. */
  readonly name: string;
  /** Only where the machine has this feature, which discovery tells; elsewhere the row does not exist. */
  readonly when?: Feature;
  readonly location: Location;
  /**
   * Whether the syncer writes it below its destination directory (`secrets/<name>/<key>`, `configmaps/<name>/<key>`).
   * An `optional` one vanishes from disk when it is gone; a `required` one stays and is reported.
   */
  readonly published?: 'required' | 'optional';
  readonly readers: readonly Reader[];
  /** One sentence of what it is for, in OpenShift's TLS registry. */
  readonly description?: string;
}

/** A CA with its key. With `issuer` an intermediate CA, otherwise self-signed. */
export interface Signer extends ArtefactBase {
  readonly kind: 'signer';
  /**
   * Whether it may be made anew here. Default: yes in the API, where every machine sees the same object; no on disk,
   * where each of several machines would make a CA of its own. `unlessSet`: only while no machine is named by that
   * parameter, and never where it is absent: a machine that is to get the CA of another looks just like that.
   */
  readonly owned?: boolean | { readonly unlessSet: string };
  /**
   * Renewed at its refresh time under every policy: what recovery itself stands on must never come to its end, because
   * nothing could be recovered then.
   */
  readonly renewAhead?: boolean;
  readonly issuer?: string;
  /** Of its certificates, before `_@` and the time. Default: by namespace and name of its object. */
  readonly commonName?: string;
  readonly validity: DurationMs;
  readonly refresh: DurationMs;
}
/** The certificates of its signers, present and former ones until they expire. */
export interface CaBundle extends ArtefactBase {
  readonly kind: 'caBundle';
  readonly signers: readonly string[];
}
/** All certificates of several bundles, without duplicates and expired ones. */
export interface ComposedBundle extends ArtefactBase {
  readonly kind: 'composedBundle';
  readonly inputs: readonly string[];
}
/** The same bytes in another place. */
export interface Copy extends ArtefactBase {
  readonly kind: 'copy';
  readonly of: string;
  /**
   * Of a signer or a target: a new one must be trusted everywhere before it is used, so the copy follows only when its
   * original's certificate has been there for this long, or at once when what the copy holds cannot be used
   * (cluster-kube-controller-manager-operator pkg/operator/targetconfigcontroller/targetconfigcontroller.go,
   * ManageCSRSigner: five minutes).
   */
  readonly promoteAfter?: DurationMs;
}
/** A leaf certificate with its key. */
export interface Target extends ArtefactBase {
  readonly kind: 'target';
  /** Without it the certificate is self-signed (the kubelet's own serving certificate). */
  readonly issuer?: string;
  readonly usage: 'client' | 'serving' | 'peer';
  /**
   * `present`: a renewal takes subject, names, usages and key algorithm from the certificate that is there, else from its
   * newest backup; what is declared here serves where there is neither. Its file holds the leaf and whatever other PEM
   * blocks were there, not its issuer. `kubeadm certs renew` does the same. Default `declared`.
   */
  readonly template?: 'declared' | 'present';
  /** `optional`: not on every machine. Where it is absent nothing is missing and nothing is made. Default `required`. */
  readonly presence?: 'required' | 'optional';
  /**
   * Who else renews it ahead of time, and has it signed by whom the cluster wants: then it is renewed here only when it
   * has ended, is broken, or was signed by a former CA of ours, under every policy.
   */
  readonly rotatedBy?: 'kubelet';
  /** A target in whose presence nobody reads this one any more: then nothing is made, whatever is there. */
  readonly supersededBy?: string;
  /** Left out for a serving certificate: then the first host name in sorted order. May hold `{parameter}` of one value. */
  readonly commonName?: string;
  readonly organizations: readonly string[];
  /**
   * Of a client in the API: a renewal keeps common name and organizations of the certificate that is there, so it gives
   * nobody other rights than that has; what is declared here serves where there is none.
   */
  readonly keepsSubject?: boolean;
  readonly hostnames: readonly HostnameSource[];
  /**
   * Renewed at its refresh time under every policy: what recovery itself stands on must never come to its end, because
   * nothing could be recovered then.
   */
  readonly renewAhead?: boolean;
  readonly validity: DurationMs;
  readonly refresh: DurationMs;
}
/** A key pair without certificate (service-account keys). Never renewed here: only checked and published. */
export interface KeyPair extends ArtefactBase {
  readonly kind: 'keyPair';
  readonly privateKey: string;
  readonly publicKey: string;
}
/**
 * A CA bundle (ConfigMap) or a certificate with its key (Secret) that somebody else maintains: bundles are composed of it,
 * or it is copied. Only read; an absent or empty bundle counts for nothing.
 */
export interface External extends ArtefactBase {
  readonly kind: 'external';
}
/** Kubeconfigs of one user for several ways to the API server, each an entry of one Secret. */
export interface Kubeconfigs extends ArtefactBase {
  readonly kind: 'kubeconfigs';
  /** The target whose certificate and key they hold. */
  readonly client: string;
  /** The bundle by which they know the API server. */
  readonly authority: string;
  /** Name of the user and of the context in them. */
  readonly user: string;
  readonly servers: readonly KubeconfigServer[];
}
/** `server`: a URL, or which address of the API server. */
export interface KubeconfigServer {
  readonly key: string;
  /** Name of the cluster in it. */
  readonly cluster: string;
  readonly server: string | { readonly endpoint: keyof Endpoints };
  readonly tlsServerName?: string;
}
/** An object that is only synced to disk; its content is not understood here. */
export interface Opaque extends ArtefactBase {
  readonly kind: 'opaque';
}

export type Artefact = Signer | CaBundle | ComposedBundle | Copy | Target | Kubeconfigs | KeyPair | External | Opaque;

/**
 * Where a serving certificate's names come from: a literal DNS name or IP address, or a parameter of the inventory
 * (a list, given in the configuration file).
 */
export type HostnameSource = string | { readonly parameter: string };

/** Names that an administrator gives for this cluster: lists of DNS names and IP addresses by parameter name. */
export type Parameters = Readonly<Record<string, readonly string[]>>;

export interface ParameterDeclaration {
  readonly description: string;
  /** Used when nothing is given; without it the parameter is required. */
  readonly default?: readonly string[];
}

/** A directory of this host that differs from site to site; paths name it as `{name}/file`. */
export interface DirectoryDeclaration {
  readonly description: string;
  /** Used when nothing is given; without it the directory is required. */
  readonly default?: string;
}

/** How objects are known in OpenShift's TLS registry: by labels and annotations that are written with their content. */
export interface TlsRegistry {
  readonly owningComponent: string;
  /** Where it was shown that they come back after a time off. */
  readonly autoRegenerateAfterOfflineExpiry?: string;
}

export type Discoverer = 'kubeadm' | 'openshift';
export type PolicyKind = 'OnlyWhenExpired' | 'BeforeExpiry';

export interface Inventory {
  readonly name: string;
  /**
   * Where discovery finds what is not configured (lib/inventory/discover). `kubeadm`: parameters, endpoints and features
   * on this machine. `openshift`: parameters and endpoints in the API, at each look.
   */
  readonly discover?: Discoverer;
  /** Where the configuration does not say it. `BeforeExpiry`: nobody else rotates these. Default `OnlyWhenExpired`. */
  readonly policy?: { readonly kind: PolicyKind };
  readonly tlsRegistry?: TlsRegistry;
  readonly parameters: Readonly<Record<string, ParameterDeclaration>>;
  readonly directories?: Readonly<Record<string, DirectoryDeclaration>>;
  readonly artefacts: readonly Artefact[];
}

/** A target with the host names that are known: DNS names and IP addresses, sorted, without duplicates. */
export interface ResolvedTarget extends Omit<Target, 'hostnames'> {
  readonly hostnames: readonly string[];
  /** Parameters whose names are read in the API at each look. */
  readonly asks?: readonly string[];
  /** Why some of these names are not known now, as the end of a sentence. */
  readonly namesUnknown?: string;
}
export type ResolvedArtefact = Exclude<Artefact, Target> | ResolvedTarget;

/** URLs of the API server: for everybody, for the machines of the cluster, on this machine. */
export interface Endpoints {
  readonly controlPlane?: string;
  readonly internal?: string;
  readonly local?: string;
}

/** An inventory made concrete for one cluster: artefacts in the order signer, bundle, target (topological). */
export interface Resolved {
  readonly name: string;
  /** URLs of the API server for kubeconfigs that have to be written from nothing; undefined where unknown. */
  readonly endpoints?: Endpoints;
  /** Why some of them are not known now, as the end of a sentence. */
  readonly endpointsUnknown?: string;
  /** Who tells names at each look. */
  readonly asks?: 'openshift';
  readonly tlsRegistry?: TlsRegistry;
  readonly artefacts: readonly ResolvedArtefact[];
}
