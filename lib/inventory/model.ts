// The inventory: one declared model of every artefact of a control plane. Everything the tool does follows from it:
// renewals of regen, files of the syncer, proofs, RBAC rules, the output of `status`. Types only, inferred from the
// checks of schema.ts; presets are data (presets/*.yaml), loaded and checked by load.ts, made concrete by resolve.ts.
import type { fieldKinds, fileKinds, objectKinds, RawLocation } from './location-kinds.ts';
import type { RawArtefact, RawInventory } from './schema.ts';

type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;

/** Milliseconds. Written in YAML as "30d", "12h", "10m", "5s". */
export type DurationMs = number;

type FileKind = keyof typeof fileKinds;
type Fields<Raw> = Raw extends string ? { readonly file: Raw } : DeepReadonly<Raw>;
type Place = {
  readonly [Kind in keyof typeof objectKinds]: {
    readonly kind: Kind;
    readonly namespace: string;
    readonly name: string;
    /** The entry that holds the bundle, where it is not that of a bundle of ours. */
    readonly key?: string;
    readonly content?: RawLocation['content'];
  };
} & {
  readonly [Kind in keyof typeof fieldKinds]: {
    readonly kind: Kind;
    readonly content?: RawLocation['content'];
  } & DeepReadonly<Required<RawLocation>[Kind]>;
} & { readonly [Kind in FileKind]: { readonly kind: Kind } & Fields<Required<RawLocation>[Kind]> };

/**
 * Location of the bytes of an artefact of this kind. Paths are absolute; in an inventory that is not resolved yet they
 * may begin with a directory parameter, `{pkiDir}/etcd/server.crt`.
 */
export type LocationOf<Kind extends keyof Place> = Place[Kind];
/** A Secret or a ConfigMap. */
export type ApiLocation = LocationOf<keyof typeof objectKinds>;
/** A field of another object. */
export type FieldLocation = LocationOf<keyof typeof fieldKinds>;
export type DiskLocation = LocationOf<FileKind>;
export type Location = ApiLocation | FieldLocation | DiskLocation;

type Placed<Raw> = Raw extends unknown ? Omit<Raw, 'location'> & { readonly location: Location } : never;
export type Artefact = Placed<DeepReadonly<RawArtefact>>;
type OfKind<Kind extends Artefact['kind']> = Extract<Artefact, { readonly kind: Kind }>;

/** A CA with its key: an intermediate CA with `issuer`, otherwise self-signed. */
export type Signer = OfKind<'signer'>;
/** The certificates of its signers, present and former ones until they expire. */
export type CaBundle = OfKind<'caBundle'>;
/** All certificates of several bundles, without duplicates and expired ones. */
export type ComposedBundle = OfKind<'composedBundle'>;
/** The same bytes in another place. */
export type Copy = OfKind<'copy'>;
/** A leaf certificate with its key. */
export type Target = OfKind<'target'>;
/** Kubeconfigs of one user for several ways to the API server, each an entry of one Secret. */
export type Kubeconfigs = OfKind<'kubeconfigs'>;
/** A key pair without certificate (service-account keys). Never renewed here: only checked and published. */
export type KeyPair = OfKind<'keyPair'>;
/**
 * A CA bundle (ConfigMap) or a certificate with its key (Secret) that another program maintains: bundles are composed
 * of it, or it is copied. Only read; an absent or empty bundle counts for nothing.
 */
export type External = OfKind<'external'>;
/** An object that is only synced to disk; its content is not parsed here. */
export type Opaque = OfKind<'opaque'>;

/** A component that reads a published artefact, and its action to pick up a change. */
export type Reader = Artefact['readers'][number];
/** Proof that a component *uses* an artefact, and not only that it lies on disk. */
export type Proof = Reader['proof'];

/** Features that a machine has or lacks, found by discovery. */
export type Feature = Required<Artefact>['when'];
/**
 * Source of names of a serving certificate: a literal DNS name or IP address, or a parameter of the inventory (a list,
 * given in the configuration file).
 */
export type HostnameSource = Target['hostnames'][number];

/** Names that an administrator gives for this cluster: lists of DNS names and IP addresses by parameter name. */
export type Parameters = Readonly<Record<string, readonly string[]>>;

type Read = DeepReadonly<RawInventory>;
export type PolicyKind = Required<Read>['policy']['kind'];
/** Entry of objects in OpenShift's TLS registry: labels and annotations that are written with their content. */
type TlsRegistry = Required<Read>['tlsRegistry'];

export interface Inventory extends Pick<
  Read,
  'name' | 'description' | 'discover' | 'policy' | 'repairsBefore' | 'tlsRegistry' | 'parameters'
> {
  readonly directories?: Read['directories'];
  readonly files?: Read['files'];
  readonly artefacts: readonly Artefact[];
}

/** A target with the host names that are known: DNS names and IP addresses, sorted, without duplicates. */
export interface ResolvedTarget extends Omit<Target, 'hostnames' | 'organizationsBefore' | 'demandedBy'> {
  readonly hostnames: readonly string[];
  /** Names that it must hold in addition to its given names: the machine's own components connect to them. */
  readonly demandedHostnames?: readonly string[];
  /** A flag names it elsewhere than by default, so the name of its issuer proves nothing: only a signature does. */
  readonly isElsewhere?: true;
  /** Flags name its key for another certificate, too, or another file for its key: a renewal keeps the key. */
  readonly sharesKey?: true;
  /** Parameters whose names are read in the API in each pass. */
  readonly asks?: readonly string[];
  /** Why some of these names are not known now, as the last part of a sentence. */
  readonly namesUnknown?: string;
}
/** `keyWanted`: the key that flags want in its file, and the remedy, as the last part of a sentence. */
export interface ResolvedSigner extends Signer {
  readonly keyWanted?: string;
}
export interface ResolvedKeyPair extends KeyPair {
  readonly keyWanted?: string;
}
export interface ResolvedExternal extends External {
  /** Why its settings cannot be followed, and the remedy. */
  readonly unread?: string;
  /** It is also the certificate of a signer, of which kube-controller-manager takes one alone. */
  readonly isOfSigner?: true;
}
export type ResolvedArtefact =
  | Exclude<Artefact, Signer | Target | KeyPair | External>
  | ResolvedSigner
  | ResolvedTarget
  | ResolvedKeyPair
  | ResolvedExternal;
/** An artefact with a certificate and a key of its own. */
export type IssuedPair = ResolvedSigner | ResolvedTarget;

/** URLs of the API server: for all clients, for the machines of the cluster, on this machine. */
export interface Endpoints {
  readonly controlPlane?: string;
  readonly internal?: string;
  readonly local?: string;
  /** PEM of the CAs that sign for its clients on this machine: their certificates are this cluster's. */
  readonly authorities?: string;
  /** URLs in kubeconfigs of the components of this machine: a load balancer may stand before its API server. */
  readonly components?: readonly string[];
}

/** An inventory made concrete for one cluster: artefacts in the order signer, bundle, target (topological). */
export interface Resolved {
  readonly name: string;
  /** URLs of the API server for kubeconfigs that have to be written from nothing; undefined where unknown. */
  readonly endpoints?: Endpoints;
  /** Why some of them are not known now, as the last part of a sentence. */
  readonly endpointsUnknown?: string;
  /** Finder that reads names in each pass. */
  readonly asks?: Inventory['discover'];
  readonly tlsRegistry?: TlsRegistry;
  /** Flags of components, by the file of this host that they name. */
  readonly flagsByFile?: Readonly<Record<string, readonly string[]>>;
  readonly artefacts: readonly ResolvedArtefact[];
}
