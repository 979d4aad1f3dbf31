// What an artefact is made from, found by name: signers, bundles, originals, as they are or as they have just been made.
import { isCode, RecoveryError } from '../errors.ts';
import type {
  CaBundle,
  ComposedBundle,
  Resolved,
  ResolvedArtefact,
  ResolvedTarget,
  Signer,
} from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import type { KeyAlgorithm } from '../pki/facts.ts';
import type { PrivateKey } from '../pki/key.ts';
import { caBundleKey, locationText, type Material } from '../store/store.ts';
import { type Authority, readAuthority, readBundle, readSigner } from './issue.ts';
import type { Held } from './server-authority.ts';

/** An artefact with a certificate and a key of its own. */
export type Pair = Signer | ResolvedTarget;

export interface Ingredients {
  readonly resolved: Resolved;
  /** What is there, by artefact; what has been made since then in its new form. */
  readonly material: ReadonlyMap<string, Held>;
  /** The newest backup that can still be understood, by artefact. */
  readonly backups?: ReadonlyMap<string, Held>;
  /** By signer of which only the certificate is put back: the one that its copies are. */
  readonly signerCopies?: ReadonlyMap<string, Certificate>;
  /** A key for one use. Asked for signers and targets only; `like` is that of what it follows, else of its issuer. */
  readonly takeKey: (artefact: Pair, like?: KeyAlgorithm) => Promise<PrivateKey>;
  /** What held nothing usable before: certificates that were only there may live on in what is made of it. */
  readonly lost?: (artefact: string) => boolean;
  readonly now: Date;
}

export function artefactOf(name: string, { resolved }: Ingredients): ResolvedArtefact {
  const artefact = resolved.artefacts.find((row) => row.name === name);
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

/** Of each material of a signer: one CA signs many leaves, and to read a key with all checks costs milliseconds. */
const authorities = new WeakMap<Material, Authority>();

export function authorityOf(name: string, from: Ingredients): Authority {
  const material = materialOf(name, from);
  const authority = authorities.get(material) ?? readAuthority(artefactOf(name, from).location, material.entries);
  authorities.set(material, authority);
  return authority;
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
    const certificate = unlessBroken(() => readSigner(location, material.entries));
    return certificate !== undefined && from.now < certificate.facts.notAfter ? [certificate] : [];
  });
}

/** What a bundle holds now; of a damaged one what is whole, because good trust must not go with a torn block. */
export function formerOf(bundle: CaBundle | ComposedBundle, from: Ingredients): Certificate[] {
  const whole = unlessBroken(() => certificatesOf(bundle, from));
  const pem = from.material.get(bundle.name)?.entries[caBundleKey];
  return whole ?? (pem === undefined ? [] : wholeCertificates(pem));
}

export function certificatesOf({ name, location }: ResolvedArtefact, { material }: Ingredients): Certificate[] {
  const held = material.get(name);
  return held === undefined ? [] : readBundle(location, held.entries);
}

/** What others maintain may be absent. */
export function isLost(name: string, from: Ingredients): boolean {
  const isAbsentExternal = !from.material.has(name) && kindOf(artefactOf(name, from), from) === 'external';
  return from.lost?.(name) === true && !isAbsentExternal;
}

export const kindOf = (row: ResolvedArtefact, { resolved }: Ingredients): ResolvedArtefact['kind'] | undefined =>
  originalOf(resolved.artefacts, row)?.kind;

/** What others maintain counts for nothing while it is broken: the plan says so. */
export function inputOf(input: ResolvedArtefact, from: Ingredients): Certificate[] {
  return kindOf(input, from) === 'external'
    ? (unlessBroken(() => certificatesOf(input, from)) ?? [])
    : certificatesOf(input, from);
}

/** Whoever plans has a decision of its own about what is broken. */
function unlessBroken<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return undefined;
    throw err;
  }
}
