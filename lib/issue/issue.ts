// The new material of one artefact: what is written in the place of the old. Shared by those who renew and those who
// make the first generation. Nothing is read or written here, keys and time are given; signatures are checked where
// they are made (lib/pki), so whatever is returned verifies.
import type { KeyObject } from 'node:crypto';
import { RecoveryError } from '../errors.ts';
import type { CaBundle, ComposedBundle, Copy, Location, ResolvedTarget, Signer } from '../inventory/model.ts';
import { encodeBundle, joinBundles, mergeBundle } from '../pki/bundle.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { isDamaged } from '../pki/damage.ts';
import { backDatedMs } from '../pki/facts.ts';
import { isEncryptedKey, keyMatches, parsePrivateKey, type PrivateKey } from '../pki/key.ts';
import { signLeaf, signSigner } from '../pki/sign.ts';
import {
  caBundleKey,
  certificateKey,
  type Entries,
  locationText,
  type Material,
  privateKeyKey,
} from '../store/store.ts';
import { annotationsOf } from './annotations.ts';

/** A signer that can sign: its own certificate, whatever follows it in its file, and its key. */
export interface Authority {
  readonly certificate: Certificate;
  readonly chain: readonly Certificate[];
  readonly key: KeyObject;
}

export interface Issued extends Material {
  /** The certificates of the entries, in their order; for a pair the new one first. */
  readonly certificates: readonly Certificate[];
}

/** The signer that a Secret or a pair of files holds. Throws MaterialInvalid. */
export function readAuthority(location: Location, entries: Entries): Authority {
  const what = locationText(location);
  const [certificate, ...chain] = readPairCertificates(location, entries);
  const key = parsePrivateKey(entry(location, entries, privateKeyKey), `${what} ${privateKeyKey}`);
  if (certificate === undefined || !keyMatches(certificate, key)) {
    throw new RecoveryError('MaterialInvalid', `Cannot sign with ${what}: its key does not belong to its certificate`);
  }
  return { certificate, chain, key };
}

/** The certificate of a signer, whose key may be elsewhere; one that is there must belong to it. Throws MaterialInvalid. */
export function readSigner(location: Location, entries: Entries): Certificate | undefined {
  const key = entries[privateKeyKey];
  return key === undefined || isEncryptedKey(key)
    ? readPairCertificates(location, entries)[0]
    : readAuthority(location, entries).certificate;
}

function readPairCertificates(location: Location, entries: Entries): Certificate[] {
  const what = locationText(location);
  const all = parseCertificates(entry(location, entries, certificateKey), `${what} ${certificateKey}`);
  const [first] = all;
  // One that is damaged further back is used for nothing: it comes into no chain and no bundle.
  if (first === undefined || !isDamaged(first, all)) return all.filter((certificate) => !isDamaged(certificate, all));
  const message = `Cannot use ${what}: the certificate "${first.facts.subject}" is damaged (its own signature is wrong)`;
  throw new RecoveryError('MaterialInvalid', message);
}

/** The CA certificates that a bundle holds. Throws MaterialInvalid. */
export function readBundle(location: Location, entries: Entries): Certificate[] {
  return parseCertificates(entry(location, entries, caBundleKey), `${locationText(location)} ${caBundleKey}`);
}

export interface SignerIssue {
  readonly artefact: Signer;
  /** The signer above it; only where the inventory names one. */
  readonly issuer?: Authority;
  readonly key: PrivateKey;
  readonly now: Date;
}

/**
 * A CA with a new name: two CAs of one name could not be told apart by issuer. Its file holds it alone, because
 * kube-controller-manager refuses a --cluster-signing-cert-file with more than one certificate. Throws SignFailed.
 */
export async function issueSigner({ artefact, issuer, key, now }: SignerIssue): Promise<Issued> {
  if ((artefact.issuer === undefined) !== (issuer === undefined)) {
    const wanted = artefact.issuer === undefined ? 'it is self-signed' : `signer "${artefact.issuer}" is needed`;
    throw new RecoveryError('SignFailed', `Cannot make signer "${artefact.name}": ${wanted}`);
  }
  const pem = await signSigner({
    commonName: signerName(artefact, now),
    key: key.key,
    ...(issuer !== undefined && { issuer }),
    ...dates(artefact.validity, now),
  });
  return pair(artefact.location, parseCertificates(Buffer.from(pem), `new signer "${artefact.name}"`), key);
}

/**
 * `<namespace>_<secret>@<unix seconds>`, as library-go names its signers; on disk the artefact's name. A name of its own
 * has `_` behind it, as library-go's intermediate CAs have (pkg/operator/certrotation/target.go, SignerRotation).
 */
function signerName({ name, location, commonName }: Signer, now: Date): string {
  const place = location.kind === 'secret' ? `${location.namespace}_${location.name}` : name;
  const own = commonName === undefined ? place : `${commonName}_`;
  return `${own}@${Math.floor(now.getTime() / 1000)}`;
}

export interface TargetIssue {
  readonly artefact: ResolvedTarget;
  readonly issuer: Authority;
  readonly key: PrivateKey;
  readonly now: Date;
}

/**
 * A leaf. A server sends its signer along. A client sends the leaf, and its signer only where that is an intermediate
 * CA: servers may trust no more than the root above it. Throws SignFailed.
 */
export async function issueTarget({ artefact, issuer, key, now }: TargetIssue): Promise<Issued> {
  const pem = await signLeaf({
    issuer,
    key: key.key,
    ...(artefact.commonName !== undefined && { commonName: artefact.commonName }),
    // shortest first, as library-go sorts groups
    organizations: artefact.organizations.toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1)),
    hostnames: artefact.hostnames,
    usage: artefact.usage,
    ...dates(artefact.validity, now),
  });
  const leaf = parseCertificates(Buffer.from(pem), `new certificate "${artefact.name}"`);
  const above = [issuer.certificate, ...issuer.chain];
  const sent = artefact.usage === 'client' ? above.filter((certificate) => !isSelfSigned(certificate)) : above;
  return pair(artefact.location, [...leaf, ...sent], key);
}

export function isSelfSigned({ fields }: Certificate): boolean {
  return fields.issuer.der.equals(fields.subject.der);
}

export interface BundleIssue {
  readonly artefact: CaBundle;
  /** The live certificate of each signer. */
  readonly signers: readonly Certificate[];
  /** What the bundle holds now: kept until it expires. */
  readonly former: readonly Certificate[];
  readonly now: Date;
}

/** Throws SignFailed, also when a live signer has expired. */
export function issueBundle({ artefact, signers, former, now }: BundleIssue): Issued {
  return bundle(artefact, mergeBundle({ first: signers, rest: former, now }));
}

export interface ComposedBundleIssue {
  readonly artefact: ComposedBundle;
  /** The certificates of all inputs, in their order. */
  readonly inputs: readonly Certificate[];
  readonly now: Date;
}

/** Throws SignFailed when nothing valid is left. */
export function issueComposedBundle({ artefact, inputs, now }: ComposedBundleIssue): Issued {
  return bundle(artefact, joinBundles({ certificates: inputs, now }));
}

export interface CopyIssue {
  readonly artefact: Copy;
  readonly original: Entries;
  /**
   * Of a signer only the first certificate is copied: kube-controller-manager refuses more than one
   * (cluster-kube-controller-manager-operator pkg/operator/targetconfigcontroller, ManageCSRSigner).
   */
  readonly isSigner?: boolean;
}

/** The same bytes. Throws MaterialInvalid when the original holds nothing that can be copied. */
export function issueCopy({ artefact, original, isSigner = false }: CopyIssue): Issued {
  const what = `original "${artefact.of}" of ${locationText(artefact.location)}`;
  const keys = [caBundleKey, certificateKey, privateKeyKey].filter((key) => original[key] !== undefined);
  if (keys.length === 0) throw new RecoveryError('MaterialInvalid', `Cannot copy ${what}: it has no known entry`);
  const certificates = (key: string): Certificate[] =>
    original[key] === undefined ? [] : parseCertificates(original[key], `${what} ${key}`);
  const all = certificates(certificateKey);
  const leaf = isSigner ? all.slice(0, 1) : all;
  const cut = leaf.length < all.length ? { [certificateKey]: Buffer.from(encodeBundle(leaf)) } : {};
  return {
    entries: { ...Object.fromEntries(keys.map((key) => [key, original[key] ?? new Uint8Array()])), ...cut },
    annotations: annotationsOf(artefact.location, leaf[0]),
    certificates: [...leaf, ...certificates(caBundleKey)],
  };
}

function entry(location: Location, entries: Entries, key: string): Uint8Array {
  const value = entries[key];
  if (value !== undefined) return value;
  throw new RecoveryError('MaterialInvalid', `Cannot use ${locationText(location)}: it has no entry "${key}"`);
}

function dates(validity: number, now: Date): { notBefore: Date; notAfter: Date; now: Date } {
  const at = now.getTime();
  return { notBefore: new Date(at - backDatedMs), notAfter: new Date(at + validity), now };
}

function pair(location: Location, certificates: readonly Certificate[], key: PrivateKey): Issued {
  return {
    entries: { [certificateKey]: Buffer.from(encodeBundle(certificates)), [privateKeyKey]: Buffer.from(key.pem) },
    annotations: annotationsOf(location, certificates[0]),
    certificates,
  };
}

function bundle(artefact: CaBundle | ComposedBundle, pem: string): Issued {
  if (pem === '') {
    const what = locationText(artefact.location);
    throw new RecoveryError('SignFailed', `Cannot make bundle ${what}: no valid certificate is left for it`);
  }
  const bytes = Buffer.from(pem);
  const certificates = parseCertificates(bytes, `new bundle "${artefact.name}"`);
  return { entries: { [caBundleKey]: bytes }, annotations: {}, certificates };
}
