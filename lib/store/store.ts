// The interface to the location of an artefact, the same for objects in the API and for files on this host. A write
// states the version that it saw; a store refuses it when that has changed since ("conflict"), and the caller reads
// again. There is no unconditional write.
import { hash } from 'node:crypto';
import { certificateKey, privateKeyKey, caBundleKey, registryAuthsKey, standardKeys } from '../inventory/content.ts';
import { RecoveryError } from '../errors.ts';
import type { Location } from '../inventory/model.ts';
import { locationKinds } from '../inventory/location-kinds.ts';
import { fieldText, filesOf, isFile, isFileOfItsOwn, isObject, pathOf } from '../inventory/places.ts';
import { parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { pairMatches } from '../pki/key.ts';
import { isRegistryAuths } from '../image-registries.ts';

/** The entries of an artefact by key: `tls.crt`, `tls.key`, `ca-bundle.crt`, ... Values are the raw bytes. */
export type Entries = Readonly<Record<string, Uint8Array>>;

/** An entry by key. Throws MaterialInvalid. */
export function requireEntry(entries: Entries, key: string, location: Location): Uint8Array {
  const value = entries[key];
  if (value !== undefined) return value;
  throw new RecoveryError('MaterialInvalid', `Cannot use ${locationText(location)}: ${absenceOf(location, key)}`);
}

/**
 * SHA-256 over the entries that are ours: equal for a copy and its original. Foreign entries and metadata do not count.
 */
export function contentDigest(entries: Entries): string {
  const parts = standardKeys.flatMap((key) => {
    const value = key === registryAuthsKey ? withoutBlanks(entries[key]) : entries[key];
    return value === undefined ? [] : [Buffer.from(`${key} ${value.length} `), value];
  });
  return hash('sha256', Buffer.concat(parts)); // an object that is fed takes several times as long
}

/** The machine-config daemon adds a line break at the end. */
const withoutBlanks = (text: Uint8Array | undefined): Uint8Array | undefined =>
  text && Buffer.from(Buffer.from(text).toString('latin1').trimEnd(), 'latin1');

/** Every place where an entry is kept, for a message. */
export function entryTexts(location: Location, key: string): readonly string[] {
  const own = isFile(location) ? filesOf(location).filter(({ entry }) => entry === key) : [];
  return own.length === 0 ? [`${locationText(location)} ${key}`] : own.map(({ file }) => `"${file}"`);
}

/** The first place of an entry. */
export const entryText = (location: Location, key: string): string => entryTexts(location, key)[0] ?? '';

/** The absence of one entry, in the words of its place: an object has entries, a file exists or is absent. */
export function absenceOf(location: Location, key: string): string {
  if (!isFile(location)) return `it has no entry "${key}"`;
  const own = filesOf(location).find(({ entry }) => entry === key);
  if (own !== undefined) return `file "${own.file}" is absent`;
  return key === privateKeyKey ? 'it holds no private key' : 'it holds no certificate';
}

export interface Material {
  readonly entries: Entries;
  /** Only objects in the API have annotations. */
  readonly annotations: Readonly<Record<string, string>>;
  /** Labels, likewise; read, and never written as such. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Metadata of an object in the API: written with its entries where the object has none of that name. */
  readonly metadata?: Metadata;
}

export interface Metadata {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Result of a read. `version` is opaque: a resourceVersion, or a digest of the bytes on disk. */
export interface Found extends Material {
  readonly version: string;
  /** An earlier pass has read it, and this one has not: it does not show changes since. */
  readonly isEarlier?: true;
  /** Why it is not usable as a whole, beyond problems that its entries show (a kubeconfig without user). */
  readonly problem?: string | undefined;
  /** Kubeconfigs: why it is foreign and never written: an exec plugin, a token, another cluster, another document. */
  readonly foreign?: string;
  readonly isOtherDocument?: true | undefined;
  /** Files: the last change of any of them, by the clock of this host. */
  readonly changedAt?: Date | undefined;
  /** Kubeconfigs: its CA lies in a file that it names, which a write leaves alone. */
  readonly authorityIsForeign?: boolean | undefined;
  /** Kubeconfigs: the URL of its server, where it names one. */
  readonly server?: string | undefined;
}

/**
 * State that a writer saw before: the version, or absence. With the entries that it saw, an object in the API is
 * written also when other clients have changed nothing but metadata since.
 */
export type Seen = { readonly version: string; readonly entries?: Entries } | 'absent';

export interface Store {
  /**
   * The material at a location, undefined when absent.
   * Throws KubeUnavailable, KubeUnauthorized, KubeForbidden, ReadFailed, MaterialInvalid.
   */
  read(location: Location, signal: AbortSignal): Promise<Found | undefined>;
  /**
   * Replaces the material that was seen by `next`. Entries and annotations that `next` does not name stay unchanged.
   * Throws what read throws, KubeRejected (refused by an admission webhook or a policy) and WriteFailed.
   */
  write(location: Location, next: Material, seen: Seen, signal: AbortSignal): Promise<'written' | 'conflict'>;
  /** The newest usable backup of a location; undefined where there is none. */
  backup?(location: Location): Promise<Found | undefined>;
}

/** One store for all locations: objects of the API go to one, files of this host to the other. */
export function createStore({ api, disk }: { readonly api: Store; readonly disk: Store }): Store {
  const storeOf = (location: Location): Store => (isFile(location) ? disk : api);
  return {
    read: (location, signal) => storeOf(location).read(location, signal),
    write: (location, next, seen, signal) => storeOf(location).write(location, next, seen, signal),
    backup: async (location) => storeOf(location).backup?.(location),
  };
}

/** The CA by which a kubeconfig verifies its server. */
export const authorityKey = 'ca.crt';

/** Name of a location in a message: kind and name, or path. */
export function locationText(location: Location): string {
  const { word } = locationKinds[location.kind];
  if (isFile(location)) return `${word} "${pathOf(location)}"`;
  if (!isObject(location)) return fieldText(location);
  const { namespace, name, key } = location;
  return `${word} "${namespace}/${name}"${key === undefined ? '' : ` ${key}`}`;
}

const keyMark = /-----BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY/;

/**
 * The last check of our own output, in every store before anything is sent or written: present content may be bad, but
 * it is never replaced by content that does not parse or does not belong together. Throws MaterialInvalid, naming the
 * location, unless every entry of `next` is usable. A private key is never written among CAs, which all may read: where
 * the owner of a file has put one there, it is the owner's, and the file is not changed until the key has moved.
 */
export function verifyMaterial(location: Location, { entries }: Material): void {
  const what = locationText(location);
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError('MaterialInvalid', `Cannot write ${what}: ${problem}; what is there stays`);
  if (Object.keys(entries).length === 0) throw refuse('there is no entry to write');
  const { [certificateKey]: certificate, [privateKeyKey]: key, [caBundleKey]: bundle, [authorityKey]: ca } = entries;
  // Half a pair next to the present other half would not match it. An external CA has no other half.
  const isAlone =
    isFileOfItsOwn(location, privateKeyKey) && certificate !== undefined && isAuthority(certificate, what);
  if ((certificate === undefined) !== (key === undefined) && !isAlone)
    throw refuse('certificate and key are written together only');
  if (certificate !== undefined && key !== undefined) {
    if (!isPair(location, certificate, key)) throw refuse('the private key does not belong to the certificate');
  }
  const auths = entries[registryAuthsKey];
  if (auths !== undefined && !isRegistryAuths(auths)) throw refuse(`it is no JSON with credentials in "auths"`);
  // Blocks of others in a file of this host stay (bundle-edit.ts).
  if (bundle !== undefined)
    parseCertificates(bundle, `${what} ${caBundleKey}`, isFile(location) ? 'unread' : 'refused');
  if ([bundle, ca].some((cas) => cas !== undefined && keyMark.test(Buffer.from(cas).toString('latin1'))))
    throw refuse('there is a private key among its CAs; move it to a file of its own');
  // Read like client-go: a torn certificate next to a whole one does not count.
  if (ca !== undefined && location.kind === 'kubeconfig' && wholeCertificates(ca).length === 0) {
    throw refuse(`"${authorityKey}" holds no CA certificate`);
  }
}

/** A leaf comes first, then its chain; among CAs alone the CA of the key may stand anywhere. */
function isPair(location: Location, certificate: Uint8Array, key: Uint8Array): boolean {
  const what = locationText(location);
  const ofCas = isAuthority(certificate, what);
  // further blocks in a file of this host, and next to a CA, are foreign, and readers ignore them
  const others = location.kind === 'secret' && !ofCas ? 'refused' : 'skipped';
  const all = parseCertificates(certificate, `${what} ${certificateKey}`, others);
  return (ofCas ? all : all.slice(0, 1)).some((one) => pairMatches(one, key, `${what} ${privateKeyKey}`));
}

const isAuthority = (pem: Uint8Array, what: string): boolean =>
  parseCertificates(pem, what, 'skipped').every(({ facts }) => facts.isCa);
