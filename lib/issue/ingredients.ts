// What an artefact is made from, found by name: signers, bundles, originals, as they are or as they have just been made.
import type { KeyObject } from 'node:crypto';
import { RecoveryError } from '../errors.ts';
import type { CaBundle, ComposedBundle, IssuedPair, Location, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import { type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged } from '../pki/damage.ts';
import { isEncryptedKey, type KeyAlgorithm, keyMatches, parsePrivateKey, type PrivateKey } from '../pki/key.ts';
import { unlessInvalid } from '../pki/pem.ts';
import { ownFirst } from '../pki/signer-certificate.ts';
import type { Origin } from '../plan/decision.ts';
import { type Entries, requireEntry, type Found, locationText, type Material } from '../store/store.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../inventory/content.ts';

/** What is there, or a backup of it. */
export type Held = Material & Pick<Found, 'problem'>;

/** What is written in the place of the old. */
export interface Issued extends Material {
  /** The certificates of the entries, in their order; for a pair the new one first. */
  readonly certificates: readonly Certificate[];
}

export interface Ingredients {
  readonly resolved: Resolved;
  /** What is there, by artefact; what has been made since then in its new form. */
  readonly material: ReadonlyMap<string, Held>;
  /** The newest backup that can still be understood, by artefact. */
  readonly backups?: ReadonlyMap<string, Held>;
  /** By signer: the certificate that its copies have, or its successor in a file here. */
  readonly signerCopies?: ReadonlyMap<string, Certificate> | undefined;
  /** As the plan has decided; absent: it is signed. */
  readonly origin?: Origin | undefined;
  /** The artefact that has a signer with its key (`sibling`). */
  readonly holder?: string | undefined;
  /** A key for one use. Asked for signers and targets only; `like` is that of what it follows, else of its issuer. */
  readonly takeKey: (artefact: IssuedPair, like?: KeyAlgorithm) => Promise<PrivateKey>;
  /** What held nothing usable before: certificates that were only there may live on in what is made of it. */
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

/** A signer that can sign: its own certificate, whatever else lies with it, and its key. */
export interface Authority {
  readonly certificate: Certificate;
  readonly chain: readonly Certificate[];
  readonly key: KeyObject;
}

/** Of each material of a signer: one CA signs many leaves, and to read a key with all checks costs milliseconds. */
const authorities = new WeakMap<Material, Authority>();

export function authorityOf(name: string, from: Ingredients): Authority {
  const material = materialOf(name, from);
  const authority = authorities.get(material) ?? readAuthority(artefactOf(name, from).location, material.entries);
  authorities.set(material, authority);
  return authority;
}

/** The signer that a Secret or a pair of files holds. Throws MaterialInvalid. */
export function readAuthority(location: Location, entries: Entries): Authority {
  const what = locationText(location);
  const [certificate, ...chain] = readPairCertificates(location, entries);
  const key = parsePrivateKey(requireEntry(entries, privateKeyKey, location), `${what} ${privateKeyKey}`);
  if (certificate === undefined || !keyMatches(certificate, key)) {
    throw new RecoveryError('MaterialInvalid', `Cannot sign with ${what}: its key does not belong to its certificate`);
  }
  return { certificate, chain, key };
}

/** The certificate of a signer, whose key may be elsewhere; one that is there must belong to it. Throws MaterialInvalid. */
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
  // Another one that is damaged is used for nothing: it comes into no chain and no bundle.
  if (first === undefined || !isDamaged(first, all)) return all.filter((certificate) => !isDamaged(certificate, all));
  const message = `Cannot use ${what}: the certificate "${first.facts.subject}" is damaged (its own signature is wrong)`;
  throw new RecoveryError('MaterialInvalid', message);
}

/** The CA certificates that a bundle holds. Throws MaterialInvalid. */
export function readBundle(location: Location, entries: Entries): Certificate[] {
  const what = locationText(location);
  return parseCertificates(requireEntry(entries, caBundleKey, location), `${what} ${caBundleKey}`);
}

/**
 * The certificate of each signer that can be used now; one that cannot is not put in front of anybody. A signer may
 * keep its key elsewhere: it is trusted all the same.
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

/** What a bundle holds now; of a damaged one what is whole, because good trust must not go with a torn block. */
export function formerOf(bundle: CaBundle | ComposedBundle, from: Ingredients): Certificate[] {
  const whole = unlessInvalid(() => bundleCertificates(bundle, from));
  const pem = from.material.get(bundle.name)?.entries[caBundleKey];
  return whole ?? (pem === undefined ? [] : wholeCertificates(pem));
}

export function bundleCertificates({ name, location }: ResolvedArtefact, { material }: Ingredients): Certificate[] {
  const held = material.get(name);
  return held === undefined ? [] : readBundle(location, held.entries);
}

/** What others maintain may be absent. */
export function isLost(name: string, from: Ingredients): boolean {
  const isAbsentExternal = !from.material.has(name) && originalKind(artefactOf(name, from), from) === 'external';
  return from.lost?.(name) === true && !isAbsentExternal;
}

export const originalKind = (
  artefact: ResolvedArtefact,
  { resolved }: Ingredients,
): ResolvedArtefact['kind'] | undefined => originalOf(resolved.artefacts, artefact)?.kind;

/** What others maintain counts for nothing while it is broken: the plan says so. */
export function inputOf(input: ResolvedArtefact, from: Ingredients): Certificate[] {
  return originalKind(input, from) === 'external'
    ? (unlessInvalid(() => bundleCertificates(input, from)) ?? [])
    : bundleCertificates(input, from);
}
