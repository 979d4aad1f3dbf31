// Adds to the facts of each signer in files the evidence that another CA has replaced it: it is unknown to all leaves that
// it should have signed, by a copy from another cluster, a backup of another machine, or an administrator. Signatures and
// key identifiers decide; names do not, because most CAs of a kind have the same name. Its backup is read only then.
import type { IssuedPair, ResolvedArtefact, Signer } from '../inventory/model.ts';
import { isFile, isMadeHere } from '../inventory/places.ts';
import { authorityKey, type Found } from '../store/store.ts';
import type { Facts, UnknownAuthority } from './facts.ts';
import type { FaultKeeper } from './faults.ts';
import { judgeSigners, readableBackup, type SignerSources } from './gather-signers.ts';
import { unfitness } from '../inventory/fitness.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../inventory/content.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { differsLittle } from '../pki/damage.ts';
import { keyMatches, usableKey } from '../pki/key.ts';
import { ownFirst } from '../pki/signer-certificate.ts';
import { isSignedByKey } from '../pki/verify.ts';

export const withUnknownAuthorities = (
  facts: Facts,
  sources: SignerSources,
  onFault: FaultKeeper['keep'],
): Promise<Facts> =>
  judgeSigners(facts, sources, onFault, async (signer, fact) => {
    // One that is made here is made again with all that it signs.
    if (fact.state !== 'present' || !isFile(signer.location) || isMadeHere(signer)) return undefined;
    const strangers = strangersTo(signer, sources);
    if (strangers === undefined) return undefined;
    const unknownTo = unknownAuthority(strangers, await readableBackup(signer, sources.store), sources);
    return { ...fact, unknownTo };
  });

/** A leaf signed by another key than its signer's. */
interface Stranger {
  readonly name: string;
  readonly leaf: Certificate;
  /** Identifier of its issuer's key, where that can be compared. */
  readonly keyId: string | undefined;
}

/**
 * Returns the leaves that another key has signed, the same for all of them. Undefined where a leaf knows the CA, where
 * the leaves do not agree, or where there is no evidence at all.
 */
function strangersTo(signer: Signer, { resolved, found }: SignerSources): readonly Stranger[] | undefined {
  const own = held(found.get(signer.name), certificateKey);
  const isOwnBundle = (one: ResolvedArtefact): boolean => one.kind === 'caBundle' && one.signers.includes(signer.name);
  const bundles = resolved.artefacts.filter(isOwnBundle);
  const known = [...own, ...bundles.flatMap(({ name }) => held(found.get(name), caBundleKey))];
  const strangers: Stranger[] = [];
  for (const child of resolved.artefacts) {
    if (!('issuer' in child) || child.issuer !== signer.name) continue;
    const [leaf, ...brought] = held(found.get(child.name), certificateKey);
    if (leaf === undefined) continue;
    if (isKnownTo(leaf, brought, known)) return undefined;
    if (!isEvidence(child, leaf)) continue;
    const { authorityKeyId } = leaf.fields;
    const isComparable = own.every(({ fields }) => fields.subjectKeyId !== undefined);
    strangers.push({ name: child.name, leaf, keyId: isComparable ? authorityKeyId : undefined });
  }
  return strangers.length > 0 && agree(strangers) ? strangers : undefined;
}

/** Describes the strangers' CA and its places: its certificate in any artefact, its pair in the signer's backup. */
function unknownAuthority(
  strangers: readonly Stranger[],
  backup: Found | undefined,
  { resolved, found, now }: SignerSources,
): UnknownAuthority | undefined {
  const [first] = strangers;
  if (first === undefined) return undefined;
  const hasSigned = (one: Certificate): boolean =>
    one.facts.isCa && strangers.every(({ leaf }) => isSignedByKey(leaf, one));
  const holders = resolved.artefacts.flatMap(({ name }) => {
    const all = [authorityKey, caBundleKey, certificateKey].flatMap((entry) => held(found.get(name), entry));
    const certificate = all.find(hasSigned);
    return certificate === undefined ? [] : [{ name, certificate }];
  });
  const kept = pairIn(backup);
  const former = kept !== undefined && hasSigned(kept) ? kept : undefined;
  const [holder] = holders;
  return {
    leaves: strangers.map(({ name }) => name),
    issuer: first.leaf.facts.issuer,
    keyId: first.keyId,
    fingerprint: (holder?.certificate ?? former)?.facts.fingerprint,
    heldBy: holder?.name,
    backup: former && (now < former.facts.notAfter ? 'valid' : 'expired'),
  };
}

/** Returns the certificate of a matching pair. */
function pairIn(found: Found | undefined): Certificate | undefined {
  const keyPem = found?.entries[privateKeyKey];
  const [own] = ownFirst(held(found, certificateKey), keyPem);
  const key = keyPem === undefined ? undefined : usableKey(keyPem, 'backup');
  return own !== undefined && key !== undefined && keyMatches(own, key) ? own : undefined;
}

const held = (found: Pick<Found, 'entries'> | undefined, entry: string): readonly Certificate[] =>
  wholeCertificates(found?.entries[entry]);

/**
 * Whether a known CA has signed the leaf, also through an intermediate of its file; or the leaf names the key of a
 * known CA and its own damage hides the signature: a byte may have changed in the identifier, too.
 */
function isKnownTo(leaf: Certificate, brought: readonly Certificate[], known: readonly Certificate[]): boolean {
  const isSigned = (one: Certificate): boolean => known.some((authority) => isSignedByKey(one, authority));
  if (isSigned(leaf) || brought.some((one) => isSignedByKey(leaf, one) && isSigned(one))) return true;
  const { authorityKeyId } = leaf.fields;
  return known.some(({ fields: { subjectKeyId } }) => {
    if (authorityKeyId === undefined || subjectKeyId === undefined) return false;
    return differsLittle(Buffer.from(authorityKeyId, 'hex'), Buffer.from(subjectKeyId, 'hex'), 1);
  });
}

/**
 * Whether a leaf is evidence against the CA. It is not where other CAs may sign it, or where no CA of this cluster can
 * have made it: self-signed, or of no use to the readers of this entry.
 */
function isEvidence(child: IssuedPair | ResolvedArtefact, leaf: Certificate): boolean {
  if (isSignedByKey(leaf, leaf)) return false;
  if (child.kind !== 'target') return true;
  const isOfOthers = child.rotatedBy !== undefined || child.mayBeOfOthers === true;
  return !isOfOthers && !leaf.facts.isCa && unfitness(child, leaf.facts) === undefined;
}

/**
 * Whether a single other key has signed all of them. A leaf that names no key agrees by the name of its issuer, and not
 * alone: a single signature that fails may be damage.
 */
function agree(strangers: readonly Stranger[]): boolean {
  const keys = new Set(strangers.flatMap(({ keyId }) => keyId ?? []));
  if (keys.size > 1) return false;
  if (strangers.every(({ keyId }) => keyId !== undefined)) return true;
  const issuers = new Set(strangers.map(({ leaf }) => leaf.fields.issuer.der.toString('hex')));
  return issuers.size === 1 && strangers.length > 1;
}
