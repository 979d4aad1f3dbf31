// The new material of one artefact, which replaces the old, and the check that every bundle by which readers verify a
// new certificate accepts it. Nothing is read or written here: material, keys and time are arguments.
import { RecoveryError } from '../errors.ts';
import { usagesOf } from '../inventory/fitness.ts';
import type {
  CaBundle,
  ComposedBundle,
  Copy,
  IssuedPair,
  ResolvedArtefact,
  ResolvedTarget,
  Signer,
} from '../inventory/model.ts';
import { bundlesAbove } from '../inventory/order.ts';
import { rotatedName } from '../inventory/rotated-name.ts';
import { encodeBundle, joinBundles, mergeBundle } from '../pki/bundle.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import type { PrivateKey } from '../pki/key.ts';
import { signSigner } from '../pki/sign.ts';
import { ownFirst } from '../pki/signer-certificate.ts';
import { verifyChain } from '../pki/verify.ts';
import { authorityKey, type Entries, locationText } from '../store/store.ts';
import {
  artefactOf,
  type Authority,
  authorityOf,
  bundleCertificates,
  formerOf,
  type Ingredients,
  inputOf,
  isLost,
  type Issued,
  originalKind,
  liveSigners,
  materialOf,
} from './ingredients.ts';
import { authorityEntry, issueKubeconfigs } from './kubeconfigs.ts';
import { validityFrom, issueDeclared, issueRenewal, pairOfEntries } from './leaf.ts';
import { sameLeaf } from './kept-keys.ts';
import { annotationsOf, registryMetadata } from './metadata.ts';
import { amongOthers } from './signer-file.ts';
import { caBundleKey, certificateKey, privateKeyKey, standardKeys } from '../inventory/content.ts';

/**
 * Makes new material of one artefact. Its only lasting effect is a key taken for it. Throws SignFailed,
 * MaterialInvalid.
 */
export type Make<F extends Ingredients = Ingredients> = (
  artefact: ResolvedArtefact,
  from: F,
) => Issued | Promise<Issued>;

/** Makes material with the metadata that belongs to it: signed or composed, unless it comes from elsewhere (`by`). */
export async function make<F extends Ingredients>(
  artefact: ResolvedArtefact,
  from: F,
  by: Make<F> = sign,
): Promise<Issued> {
  const issued = await by(artefact, from);
  const original = artefact.kind === 'copy' ? from.material.get(artefact.of) : undefined;
  const metadata = registryMetadata(artefact, from.resolved, original);
  return metadata === undefined ? issued : { ...issued, metadata };
}

export async function sign(artefact: ResolvedArtefact, from: Ingredients): Promise<Issued> {
  const { takeKey, now } = from;
  switch (artefact.kind) {
    case 'signer': {
      const issuer = artefact.issuer === undefined ? undefined : authorityOf(artefact.issuer, from);
      const issued = await issueSigner({ artefact, issuer, key: await takeKey(artefact), now });
      requireAccepted(artefact, issued, from);
      return amongOthers(issued, from.material.get(artefact.name), now);
    }
    case 'target': {
      const issuer = artefact.issuer === undefined ? undefined : authorityOf(artefact.issuer, from);
      const present = artefact.template === 'present' || issuer === undefined;
      const issued = present ? await issueRenewal(artefact, issuer, from) : await issueDeclared(artefact, issuer, from);
      requireAccepted(artefact, issued, from);
      return artefact.location.kind === 'kubeconfig' ? withAuthority(issued, artefact, from) : issued;
    }
    case 'caBundle':
      // The former certificates of its signers stay until they expire. A live signer that has expired is refused.
      return issueBundle(
        artefact,
        mergeBundle({ first: liveSigners(artefact, from), rest: formerOf(artefact, from), now }),
      );
    case 'composedBundle': {
      const inputs = artefact.inputs.flatMap((name) => inputOf(artefactOf(name, from), from));
      const former = artefact.inputs.some((name) => isLost(name, from)) ? formerOf(artefact, from) : [];
      return issueBundle(artefact, joinBundles({ certificates: [...inputs, ...former], now }));
    }
    case 'copy':
      return issueCopy(artefact, materialOf(artefact.of, from).entries, originalKind(artefact, from));
    case 'kubeconfigs':
      return issueKubeconfigs({
        artefact,
        client: materialOf(artefact.client, from).entries,
        authority: materialOf(artefact.authority, from).entries,
        endpoints: from.resolved.endpoints,
        former: from.material.get(artefact.name)?.entries,
      });
    case 'external':
    case 'keyPair':
    case 'opaque':
      throw notOurs(artefact);
  }
}

export const notOurs = ({ location }: ResolvedArtefact): RecoveryError =>
  new RecoveryError('SignFailed', `Cannot make ${locationText(location)}: it is not ours to make`);

/** The CA of a kubeconfig alone is replaced. Throws SignFailed, MaterialInvalid. */
export const withNewAuthority = (artefact: ResolvedTarget, from: Ingredients): Issued =>
  withAuthority(sameLeaf(artefact, from), artefact, from);

/**
 * Adds the CA by which a kubeconfig knows its server: its issuer's own certificate alone, like kubeadm. A kubeconfig
 * with another CA, or none, reaches the server through something with a certificate of its own: that stays trusted.
 */
function withAuthority(issued: Issued, { name, issuer }: ResolvedTarget, from: Ingredients): Issued {
  if (issuer === undefined) return issued;
  const { certificate: live } = authorityOf(issuer, from);
  const entry = authorityEntry([from.material.get(name), from.backups?.get(name)], live, from.now);
  return entry === undefined ? issued : { ...issued, entries: { ...issued.entries, [authorityKey]: entry } };
}

interface SignerIssue {
  readonly artefact: Signer;
  /** The signer above it; only where the inventory names it. */
  readonly issuer?: Authority | undefined;
  readonly key: PrivateKey;
  readonly now: Date;
}

/**
 * Makes a CA with a new name. Its file holds only itself, because kube-controller-manager refuses a
 * --cluster-signing-cert-file with more than one certificate. Throws SignFailed.
 */
export async function issueSigner({ artefact, issuer, key, now }: SignerIssue): Promise<Issued> {
  if ((artefact.issuer === undefined) !== (issuer === undefined)) {
    const wanted = artefact.issuer === undefined ? 'it is self-signed' : `signer "${artefact.issuer}" is needed`;
    throw new RecoveryError('SignFailed', `Cannot make signer "${artefact.name}": ${wanted}`);
  }
  const certificate = await signSigner({
    commonName: rotatedName(artefact, now),
    key: key.key,
    issuer,
    ...validityFrom(artefact.validity, now),
  });
  return pairOfEntries(artefact.location, [certificate], key);
}

/** Throws SignFailed when nothing valid is left. */
export function issueBundle(artefact: CaBundle | ComposedBundle, certificates: readonly Certificate[]): Issued {
  if (certificates.length === 0) {
    const what = locationText(artefact.location);
    throw new RecoveryError('SignFailed', `Cannot make bundle ${what}: no valid certificate is left for it`);
  }
  return { entries: { [caBundleKey]: Buffer.from(encodeBundle(certificates)) }, annotations: {}, certificates };
}

/**
 * Copies the same bytes. Only the signer's own certificate is copied from its file: kube-controller-manager refuses
 * more than one (cluster-kube-controller-manager-operator pkg/operator/targetconfigcontroller, ManageCSRSigner). Throws
 * MaterialInvalid when the original holds nothing that can be copied.
 */
export function issueCopy(
  artefact: Pick<Copy, 'of' | 'location'>,
  original: Entries,
  kind?: ResolvedArtefact['kind'],
): Issued {
  const what = `original "${artefact.of}" of ${locationText(artefact.location)}`;
  const keys = standardKeys.filter((key) => original[key] !== undefined);
  if (keys.length === 0) throw new RecoveryError('MaterialInvalid', `Cannot copy ${what}: it has no known entry`);
  const others = kind === 'signer' ? 'skipped' : 'refused';
  const certificates = (key: string): Certificate[] =>
    original[key] === undefined ? [] : parseCertificates(original[key], `${what} ${key}`, others);
  const all = certificates(certificateKey);
  const leaf = kind === 'signer' ? ownFirst(all, original[privateKeyKey]).slice(0, 1) : all;
  const cut = leaf.length < all.length ? { [certificateKey]: Buffer.from(encodeBundle(leaf)) } : {};
  return {
    entries: { ...Object.fromEntries(keys.map((key) => [key, original[key] ?? new Uint8Array()])), ...cut },
    annotations: annotationsOf(artefact.location, leaf[0]),
    certificates: [...leaf, ...certificates(caBundleKey)],
  };
}

/** CAs by which readers verify a new certificate. */
interface Trust {
  readonly name: string;
  readonly roots: readonly Certificate[];
}

/**
 * Returns the present bundles above an artefact. A signer without a bundle is known by its own file, which may also
 * hold a CA that follows or precedes it.
 */
function trustOf(artefact: IssuedPair, from: Ingredients): readonly Trust[] {
  const bundles = bundlesAbove(from.resolved.artefacts, artefact);
  if (bundles.length > 0 || artefact.issuer === undefined) {
    return bundles.map((bundle) => ({ name: locationText(bundle.location), roots: bundleCertificates(bundle, from) }));
  }
  const { certificate, chain } = authorityOf(artefact.issuer, from);
  const roots = [certificate, ...chain].filter(({ facts }) => from.now < facts.notAfter);
  return [{ name: locationText(artefactOf(artefact.issuer, from).location), roots }];
}

/** Checks that every reader accepts the new certificate. Throws SignFailed. */
function requireAccepted(artefact: IssuedPair, { certificates }: Issued, from: Ingredients): void {
  const [leaf, ...intermediates] = certificates;
  if (leaf === undefined) return;
  const asked = artefact.kind === 'target' ? usagesOf[artefact.usage] : [undefined];
  const declared = artefact.kind === 'target' && artefact.template !== 'present' ? artefact.hostnames : [];
  const [hostname] = declared;
  for (const { name, roots } of trustOf(artefact, from)) {
    for (const usage of asked) {
      const answer = verifyChain({ leaf, intermediates, roots, at: from.now, usage, hostname });
      if (answer.ok) continue;
      const refusal = `${name} would not verify it, ${answer.reason}`;
      throw new RecoveryError('SignFailed', `Cannot make ${locationText(artefact.location)}: ${refusal}`);
    }
  }
}
