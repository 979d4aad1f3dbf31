// The inventory: one declared model of every artefact of a control plane. Everything the tool does follows from it:
// what regen renews, what the syncer writes, what is proven, which RBAC is granted, what `status` prints.
// This file is types only; presets are data (presets/*.yaml), loaded and checked by load.ts, made concrete by resolve.ts.

/** Milliseconds. Written in YAML as "30d", "12h", "10m", "5s". */
export type DurationMs = number;

/** Where the bytes of an artefact live. */
export type Location = SecretLocation | ConfigMapLocation | PemPairLocation | PemFileLocation;

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
export type ApiLocation = SecretLocation | ConfigMapLocation;
export type DiskLocation = PemPairLocation | PemFileLocation;

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

interface ArtefactBase {
  /** Unique in the inventory; the name people see in `status`, logs and configuration. */
  readonly name: string;
  readonly truth: Location;
  /**
   * Whether the syncer writes it below its destination directory (`secrets/<name>/<key>`, `configmaps/<name>/<key>`).
   * An `optional` one vanishes from disk when it is gone; a `required` one stays and is reported.
   */
  readonly published?: 'required' | 'optional';
  readonly readers: readonly Reader[];
}

/** A CA with its key. With `issuer` an intermediate CA, otherwise self-signed. */
export interface Signer extends ArtefactBase {
  readonly kind: 'signer';
  /**
   * Whether it may be made anew here. Default: yes in the API, where every machine sees the same object; no on disk,
   * where each of several machines would make a CA of its own.
   */
  readonly owned?: boolean;
  /**
   * Renewed at its refresh time under every policy: what recovery itself stands on must never come to its end, because
   * nothing could be recovered then.
   */
  readonly renewAhead?: boolean;
  readonly issuer?: string;
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
/** The same bytes in another object. */
export interface Copy extends ArtefactBase {
  readonly kind: 'copy';
  readonly of: string;
}
/** A leaf certificate with its key. */
export interface Target extends ArtefactBase {
  readonly kind: 'target';
  readonly issuer: string;
  readonly usage: 'client' | 'serving' | 'peer';
  /** Left out for a serving certificate: then the first host name in sorted order. */
  readonly commonName?: string;
  readonly organizations: readonly string[];
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
/** An object that is only synced to disk; its content is not understood here. */
export interface Opaque extends ArtefactBase {
  readonly kind: 'opaque';
}

export type Artefact = Signer | CaBundle | ComposedBundle | Copy | Target | KeyPair | Opaque;

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

export interface Inventory {
  readonly name: string;
  readonly parameters: Readonly<Record<string, ParameterDeclaration>>;
  readonly directories?: Readonly<Record<string, DirectoryDeclaration>>;
  readonly artefacts: readonly Artefact[];
}

/** A target whose host names are all known: DNS names and IP addresses, sorted, without duplicates. */
export interface ResolvedTarget extends Omit<Target, 'hostnames'> {
  readonly hostnames: readonly string[];
}
export type ResolvedArtefact = Exclude<Artefact, Target> | ResolvedTarget;

/** An inventory made concrete for one cluster: artefacts in the order signer, bundle, target (topological). */
export interface Resolved {
  readonly name: string;
  readonly artefacts: readonly ResolvedArtefact[];
}
