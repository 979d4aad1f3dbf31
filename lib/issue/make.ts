// The new material of one artefact, made from what its inventory names beside it: signer, bundles, original. It says
// where everything comes from, and that every bundle by which readers know a new certificate accepts it; how it is
// signed and encoded is issue.ts. Nothing is read or written here: material, keys and time are given.
import { isCode, RecoveryError } from '../errors.ts';
import { unfitness, usagesOf } from '../inventory/fitness.ts';
import type { ResolvedArtefact, ResolvedTarget, Signer } from '../inventory/model.ts';
import { bundlesAbove } from '../inventory/order.ts';
import { type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { canonicalHostnames } from '../pki/hostname.ts';
import { signatureMatches, verifyChain } from '../pki/verify.ts';
import { authorityKey, certificateKey, locationText } from '../store/store.ts';
import {
  artefactOf,
  authorityOf,
  certificatesOf,
  formerOf,
  type Ingredients,
  inputOf,
  isLost,
  kindOf,
  liveSigners,
  materialOf,
  type Pair,
} from './ingredients.ts';
import {
  type Authority,
  isSelfSigned,
  type Issued,
  issueBundle,
  issueComposedBundle,
  issueCopy,
  issueSigner,
  issueTarget,
} from './issue.ts';
import { issueKubeconfigs } from './kubeconfigs.ts';
import { registryMetadata } from './registry.ts';
import { authorityEntry } from './server-authority.ts';
import { putBack } from './put-back.ts';
import { formerLeafOf, issueRenewal } from './renewal.ts';

/** Throws SignFailed, MaterialInvalid. Takes a key for a signer or a target, and does nothing else that lasts. */
export async function make(artefact: ResolvedArtefact, from: Ingredients): Promise<Issued> {
  const issued = await issue(artefact, from);
  const original = artefact.kind === 'copy' ? from.material.get(artefact.of) : undefined;
  const metadata = registryMetadata(artefact, from.resolved, original);
  return metadata === undefined ? issued : { ...issued, metadata };
}

async function issue(artefact: ResolvedArtefact, from: Ingredients): Promise<Issued> {
  const { takeKey, now } = from;
  switch (artefact.kind) {
    case 'signer': {
      const copy = from.signerCopies?.get(artefact.name);
      if (copy !== undefined) return putBack(artefact, copy, from.material.get(artefact.name));
      const issuer = artefact.issuer === undefined ? {} : { issuer: authorityOf(artefact.issuer, from) };
      const issued = await issueSigner({ artefact, ...issuer, key: await takeKey(artefact), now });
      requireAccepted(artefact, issued, from);
      return issued;
    }
    case 'target': {
      const issuer = artefact.issuer === undefined ? undefined : authorityOf(artefact.issuer, from);
      const present = artefact.template === 'present' || issuer === undefined;
      const issued = present ? await renew(artefact, issuer, from) : await makeDeclared(artefact, issuer, from);
      requireAccepted(artefact, issued, from);
      return artefact.location.kind === 'kubeconfig' ? withAuthority(issued, artefact, from) : issued;
    }
    case 'caBundle':
      return issueBundle({ artefact, signers: liveSigners(artefact, from), former: formerOf(artefact, from), now });
    case 'composedBundle': {
      const inputs = artefact.inputs.flatMap((name) => inputOf(artefactOf(name, from), from));
      const former = artefact.inputs.some((name) => isLost(name, from)) ? formerOf(artefact, from) : [];
      return issueComposedBundle({ artefact, inputs: [...inputs, ...former], now });
    }
    case 'copy':
      return issueCopy({
        artefact,
        original: materialOf(artefact.of, from).entries,
        isSigner: kindOf(artefact, from) === 'signer',
      });
    case 'kubeconfigs':
      return issueKubeconfigs({
        artefact,
        client: materialOf(artefact.client, from).entries,
        authority: materialOf(artefact.authority, from).entries,
        endpoints: from.resolved.endpoints,
        former: from.material.get(artefact.name)?.entries,
      });
    case 'keyPair':
    case 'external':
    case 'opaque':
      break;
  }
  throw new RecoveryError('SignFailed', `Cannot make ${locationText(artefact.location)}: it is not ours to make`);
}

async function makeDeclared(artefact: ResolvedTarget, issuer: Authority, from: Ingredients): Promise<Issued> {
  const named = { ...artefact, ...subjectOf(artefact, from), hostnames: hostnamesOf(artefact, from) };
  const key = await from.takeKey(artefact);
  return issueTarget({ artefact: named, issuer: withChain(artefact, issuer, from), key, now: from.now });
}

async function renew(artefact: ResolvedTarget, issuer: Authority | undefined, from: Ingredients): Promise<Issued> {
  const { material, backups, now } = from;
  const places = [material.get(artefact.name), backups?.get(artefact.name)];
  const former = artefact.template === 'present' ? formerLeafOf(artefact, places) : undefined;
  const key = await from.takeKey(artefact, (former?.leaf ?? issuer?.certificate)?.facts.key);
  return issueRenewal({ artefact, ...(issuer !== undefined && { issuer }), former, key, now });
}

/**
 * A kubeconfig knows its server by the first certificate of its issuer's file, as kubeadm writes it. Who has put another
 * CA there, or none, reaches the server through something with a certificate of its own: that stays trusted.
 */
function withAuthority(issued: Issued, { name, issuer }: ResolvedTarget, from: Ingredients): Issued {
  if (issuer === undefined) return issued;
  const { certificate: live } = authorityOf(issuer, from);
  const entry = authorityEntry([from.material.get(name), from.backups?.get(name)], live, from.now);
  return entry === undefined ? issued : { ...issued, entries: { ...issued.entries, [authorityKey]: entry } };
}

/** Whom a certificate is for that keeps its subject; of one that cannot be read what is declared. */
function subjectOf(
  target: ResolvedTarget,
  { material }: Ingredients,
): Pick<ResolvedTarget, 'commonName' | 'organizations'> | undefined {
  const { name, keepsSubject } = target;
  const pem = keepsSubject === true ? material.get(name)?.entries[certificateKey] : undefined;
  const [present] = pem === undefined ? [] : wholeCertificates(pem);
  if (present === undefined || present.facts.isCa || present.facts.commonName === '') return undefined;
  const { commonName, organizations } = present.fields.subject;
  if (unfitness(target, { commonName, organizations }) !== undefined) return undefined;
  return { commonName, organizations };
}

/**
 * The declared names, and those of the certificate that is there: a name that was added by hand is not lost, and two
 * machines whose declarations differ come to one certificate instead of taking each other's names away for ever.
 */
function hostnamesOf(target: ResolvedTarget, { material }: Ingredients): readonly string[] {
  const { name, hostnames, usage, location, asks, namesUnknown } = target;
  // Where the API tells the names, whoever else writes this goes by the same, and by no other.
  if (asks !== undefined && namesUnknown === undefined) return hostnames;
  const pem = usage === 'client' ? undefined : material.get(name)?.entries[certificateKey];
  if (pem === undefined) return hostnames;
  try {
    const [present] = parseCertificates(pem, locationText(location));
    return canonicalHostnames([...hostnames, ...(present?.facts.hostnames ?? [])]);
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return hostnames;
    throw err;
  }
}

/**
 * The signer of a target with the CAs above it, for those who trust no more than the root: its own file holds it
 * alone. They are found by their signatures in the bundles, because the signer above may have been renewed since it
 * signed, and because its key is no business of a target below. One that is nowhere makes the chain shorter.
 */
function withChain(target: ResolvedTarget, signer: Authority, from: Ingredients): Authority {
  if (signer.chain.length > 0) return signer;
  const known = [...linesAbove(target, from)]
    .filter(({ facts }) => from.now < facts.notAfter)
    .toSorted((a, b) => b.facts.notAfter.getTime() - a.facts.notAfter.getTime());
  const chain: Certificate[] = [];
  for (let last = signer.certificate; !isSelfSigned(last);) {
    const below = [signer.certificate, ...chain].map(({ facts }) => facts.fingerprint);
    const child = last;
    const parent = known.find((ca) => !below.includes(ca.facts.fingerprint) && signatureMatches(child, ca));
    if (parent === undefined) break;
    chain.push(parent);
    last = parent;
  }
  return { ...signer, chain };
}

/** The certificates of the bundles above an artefact, above its issuer, and so on up to a self-signed signer. */
function* linesAbove(artefact: Pick<Pair, 'name' | 'issuer'>, from: Ingredients): Generator<Certificate> {
  const { artefacts } = from.resolved;
  for (let at: Pick<Pair, 'name' | 'issuer'> | undefined = artefact; at?.issuer !== undefined;) {
    for (const bundle of bundlesAbove(artefacts, at)) yield* formerOf(bundle, from);
    const { issuer }: Pick<Pair, 'issuer'> = at;
    at = artefacts.find((row): row is Signer => row.kind === 'signer' && row.name === issuer);
  }
}

/** By what readers know a new certificate. */
interface Trust {
  readonly name: string;
  readonly roots: readonly Certificate[];
}

/**
 * The bundles above an artefact, as these are now. A signer without a bundle is known by its own file, in which a CA
 * that follows or precedes it may stand, too.
 */
function trustOf(artefact: Pair, from: Ingredients): readonly Trust[] {
  const bundles = bundlesAbove(from.resolved.artefacts, artefact);
  if (bundles.length > 0 || artefact.issuer === undefined) {
    return bundles.map((bundle) => ({ name: locationText(bundle.location), roots: certificatesOf(bundle, from) }));
  }
  const { certificate, chain } = authorityOf(artefact.issuer, from);
  const roots = [certificate, ...chain].filter(({ facts }) => from.now < facts.notAfter);
  return [{ name: locationText(artefactOf(artefact.issuer, from).location), roots }];
}

/** The new certificate is accepted by everybody who is to know it. Throws SignFailed. */
function requireAccepted(artefact: Pair, { certificates }: Issued, from: Ingredients): void {
  const [leaf, ...intermediates] = certificates;
  if (leaf === undefined) return;
  const asked = artefact.kind === 'target' ? usagesOf[artefact.usage] : [undefined];
  const declared = artefact.kind === 'target' && artefact.template !== 'present' ? artefact.hostnames : [];
  const [hostname] = declared;
  for (const { name, roots } of trustOf(artefact, from)) {
    for (const usage of asked) {
      const answer = verifyChain({
        leaf,
        intermediates,
        roots,
        at: from.now,
        ...(usage !== undefined && { usage }),
        ...(hostname !== undefined && { hostname }),
      });
      if (answer.ok) continue;
      const refusal = `${name} would not verify it, ${answer.reason}`;
      throw new RecoveryError('SignFailed', `Cannot make ${locationText(artefact.location)}: ${refusal}`);
    }
  }
}
