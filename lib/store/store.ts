// The interface to the location of an artefact, the same for objects in the API and for files on this host.
// A write states what it saw; a store refuses it when that is no longer what is there ("conflict"), and the caller
// looks again. There is no unconditional write.
import { entryKeys } from '../inventory/content.ts';
import type { Location } from '../inventory/model.ts';

/** The entries of an artefact by key: `tls.crt`, `tls.key`, `ca-bundle.crt`, ... Values are the raw bytes. */
export type Entries = Readonly<Record<string, Uint8Array>>;

export interface Material {
  readonly entries: Entries;
  /** Only objects in the API have them. */
  readonly annotations: Readonly<Record<string, string>>;
  /** As annotations; what was read, and never written as such. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Of an object in the API: written with its entries where the object has none of that name. */
  readonly metadata?: Metadata;
}

export interface Metadata {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** What a read found. `version` is opaque: a resourceVersion, or a digest of the bytes on disk. */
export interface Found extends Material {
  readonly version: string;
  /** Why it cannot be understood as a whole, where that is more than what its entries show (a kubeconfig without user). */
  readonly problem?: string;
  /** Of a kubeconfig: why its credentials are others' and never written: an exec plugin, a token, another cluster. */
  readonly foreign?: string;
  /** Of files: when the last of them changed, by the clock of this host. */
  readonly changedAt?: Date;
  /** Of a kubeconfig: its CA lies in a file that it names, which a write leaves alone. */
  readonly authorityIsForeign?: boolean;
  /** Of a kubeconfig: the URL of its server, where it names one. */
  readonly server?: string;
}

/** What a writer saw before: the version, or that nothing was there. */
export type Seen = { readonly version: string } | 'absent';

export interface Store {
  /**
   * The material at a location, undefined when it is not there.
   * Throws KubeUnavailable, KubeUnauthorized, KubeForbidden, ReadFailed, MaterialInvalid.
   */
  read(location: Location, signal: AbortSignal): Promise<Found | undefined>;
  /**
   * Puts `next` in the place of what was seen. Entries and annotations that `next` does not name stay as they are.
   * Throws what read throws, KubeRejected (an admission webhook or a policy said no) and WriteFailed.
   */
  write(location: Location, next: Material, seen: Seen, signal: AbortSignal): Promise<'written' | 'conflict'>;
  /** The newest kept copy of what was at a location and can still be understood; undefined where nothing is kept. */
  backup?(location: Location): Promise<Found | undefined>;
}

/** Keys of the entries. */
export const certificateKey = entryKeys.certificate;
export const privateKeyKey = entryKeys.privateKey;
export const caBundleKey = entryKeys.caBundle;
/** The CA by which a kubeconfig knows its server. */
export const authorityKey = 'ca.crt';

/** How a location is named in a message: kind and name, or path. */
export function locationText(location: Location): string {
  switch (location.kind) {
    case 'secret':
      return `Secret "${location.namespace}/${location.name}"`;
    case 'configMap':
      return `ConfigMap "${location.namespace}/${location.name}"`;
    case 'pemPair':
      return `pair "${location.certFile}"`;
    case 'kubeconfig':
      return `kubeconfig "${location.file}"`;
    case 'pemFile':
    case 'combinedPem':
      break;
  }
  return `file "${location.file}"`;
}
