// The inputs of an artefact, found by name: signers, bundles, originals, unchanged or just made.
import type { KeyObject } from 'node:crypto';
import { RecoveryError } from '../errors.ts';
import type { CaBundle, ComposedBundle, IssuedPair, Location, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import { type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged } from '../pki/damage.ts';
import { isEncryptedKey, type KeyAlgorithm, keyMatches, parsePrivateKey, type PrivateKey } from '../pki/key.ts';
import { unlessInvalid } from '../pki/pem.ts';
import { ownFirst } from '../pki/signer-certificate.ts';
import { type Entries, requireEntry, type Found, locationText, type Material } from '../store/store.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../inventory/content.ts';

/** Present material, or a backup of it. */
export type Held = Material & Pick<Found, 'problem'>;

/** Material that replaces the old. */
export interface Issued extends Material {
  /** The certificates of the entries, in their order; for a pair the new one first. */
  readonly certificates: readonly Certificate[];
}

export interface Ingredients {
  readonly resolved: Resolved;
  /** Present material by artefact; the new material of artefacts made since then. */
  readonly material: ReadonlyMap<string, Held>;
  /** The newest backup that can still be parsed, by artefact. */
  readonly backups?: ReadonlyMap<string, Held>;
  /** Certificate from the copies of a signer, or its successor in a file here, by signer. */
  readonly signerCopies?: ReadonlyMap<string, Certificate> | undefined;
  /** A key for one use. Signers and targets only; `like`: algorithm of the predecessor's key, else the issuer's. */
  readonly takeKey: (artefact: IssuedPair, like?: KeyAlgorithm) => Promise<PrivateKey>;
  /** Whether it held nothing usable before: certificates that were only there may survive in compositions. */
  readonly lost?: (artefact: string) => boolean;
  readonly now: Date;
}

export function artefactOf(name: string, { resolved }: Ingredients): ResolvedArtefact {
  const artefact = resolved.artefacts.find((one) => one.name === name);
  if (artefact === undefined)
    throw new RecoveryError('InventoryInvalid', `Cannot find artefact "${name}" in inventory`);
  return artefact;
}

export function materialOf(name: string, from: Ingredients): Material {
  const material = from.material.get(name);
  if (material !== undefined) return material;
  const { location } = artefactOf(name, from);
  throw new RecoveryError('SignFailed', `Cannot use ${locationText(location)} ("${name}"): it is not there`);
}

/** A signer that can sign: its own certificate, whatever else its file holds, and its key. */
export interface Authority {
  readonly certificate: Certificate;
  readonly chain: readonly Certificate[];
  readonly key: KeyObject;
}

/** Cache per material of a signer: one CA signs many leaves, and to read a key with all checks costs milliseconds. */
const authorities = new WeakMap<Material, Authority>();

export function authorityOf(name: string, from: Ingredients): Authority {
  const material = materialOf(name, from);
  const authority = authorities.get(material) ?? readAuthority(artefactOf(name, from).location, material.entries);
  authorities.set(material, authority);
  return authority;
}

/** Reads the signer that a Secret or a pair of files holds. Throws MaterialInvalid. */
export function readAuthority(location: Location, entries: Entries): Authority {
  const what = locationText(location);
  const [certificate, ...chain] = readPairCertificates(location, entries);
  const key = parsePrivateKey(requireEntry(entries, privateKeyKey, location), `${what} ${privateKeyKey}`);
  if (certificate === undefined || !keyMatches(certificate, key)) {
    throw new RecoveryError('MaterialInvalid', `Cannot sign with ${what}: its key does not belong to its certificate`);
  }
  return { certificate, chain, key };
}

/** Returns a signer's certificate; the key may be elsewhere, a present one must match. Throws MaterialInvalid. */
function readSigner(location: Location, entries: Entries): Certificate | undefined {
  const key = entries[privateKeyKey];
  return key === undefined || isEncryptedKey(key)
    ? readPairCertificates(location, entries)[0]
    : readAuthority(location, entries).certificate;
}

function readPairCertificates(location: Location, entries: Entries): Certificate[] {
  const what = locationText(location);
  const pem = requireEntry(entries, certificateKey, location);
  const read = parseCertificates(pem, `${what} ${certificateKey}`, 'skipped');
  const all = ownFirst(read, entries[privateKeyKey]);
  const [first] = all;
  // Another damaged certificate is never used: it enters no chain and no bundle.
  if (first === undefined || !isDamaged(first, all)) return all.filter((certificate) => !isDamaged(certificate, all));
  const message = `Cannot use ${what}: the certificate "${first.facts.subject}" is damaged (its own signature is wrong)`;
  throw new RecoveryError('MaterialInvalid', message);
}

/** Reads the CA certificates that a bundle holds. Throws MaterialInvalid. */
export function readBundle(location: Location, entries: Entries): Certificate[] {
  const what = locationText(location);
  return parseCertificates(requireEntry(entries, caBundleKey, location), `${what} ${caBundleKey}`);
}

/**
 * Returns the certificate of each signer that can be used now; no reader is given an unusable one. A signer may keep
 * its key elsewhere: it is trusted all the same.
 */
export function liveSigners({ signers }: CaBundle, from: Ingredients): Certificate[] {
  return signers.flatMap((name) => {
    const material = from.material.get(name);
    if (material === undefined) return [];
    const { location } = artefactOf(name, from);
    const certificate = unlessInvalid(() => readSigner(location, material.entries));
    return certificate !== undefined && from.now < certificate.facts.notAfter ? [certificate] : [];
  });
}

/** Returns a bundle's certificates; of a damaged one the whole, so that good trust is not lost with a torn block. */
export function formerOf(bundle: CaBundle | ComposedBundle, from: Ingredients): Certificate[] {
  const whole = unlessInvalid(() => bundleCertificates(bundle, from));
  return whole ?? wholeCertificates(from.material.get(bundle.name)?.entries[caBundleKey]);
}

export function bundleCertificates({ name, location }: ResolvedArtefact, { material }: Ingredients): Certificate[] {
  const held = material.get(name);
  return held === undefined ? [] : readBundle(location, held.entries);
}

/** Whether an input was lost; an external one may be absent. */
export function isLost(name: string, from: Ingredients): boolean {
  const isAbsentExternal = !from.material.has(name) && originalKind(artefactOf(name, from), from) === 'external';
  return from.lost?.(name) === true && !isAbsentExternal;
}

export const originalKind = (
  artefact: ResolvedArtefact,
  { resolved }: Ingredients,
): ResolvedArtefact['kind'] | undefined => originalOf(resolved.artefacts, artefact)?.kind;

/** Returns the certificates of an input. A broken external one counts for nothing: the plan reports it. */
export function inputOf(input: ResolvedArtefact, from: Ingredients): Certificate[] {
  return originalKind(input, from) === 'external'
    ? (unlessInvalid(() => bundleCertificates(input, from)) ?? [])
    : bundleCertificates(input, from);
}
