// The certificate of a target, with its key: as declared, or like its predecessor, the way of `kubeadm certs renew`
// (kubernetes/kubernetes cmd/kubeadm/app/phases/certs/renewal): subject, names and usages come from the former
// certificate, even if it has expired or lost its key; else from the newest backup; else from the declaration. Three
// things of a renewal are ours: it begins with its CA, expires with it at the latest, and the blocks behind the old
// leaf in its file stay there.
import { RecoveryError } from '../errors.ts';
import { otherNode, unfitness, usagesOf } from '../inventory/fitness.ts';
import type { IssuedPair, Location, ResolvedTarget, Signer } from '../inventory/model.ts';
import { bundlesAbove } from '../inventory/order.ts';
import { encodeBundle } from '../pki/bundle.ts';
import { backDatedMs, type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { usageOids } from '../pki/extensions.ts';
import { canonicalHostnames, hostnameDer, uncoveredHostnames } from '../pki/names.ts';
import { parsePrivateKey, PrivateKey } from '../pki/key.ts';
import { chainOf } from '../pki/signer-certificate.ts';
import { type LeafTemplate, signLeaf, signTemplate, templateOf } from '../pki/sign.ts';
import { encodePem, type PemBlock, readPem, unlessInvalid } from '../pki/pem.ts';
import { signatureMatches } from '../pki/verify.ts';
import { type Entries, locationText, type Material, requireEntry } from '../store/store.ts';
import { type Authority, formerOf, type Ingredients, type Issued } from './ingredients.ts';
import { annotationsOf } from './metadata.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';

/** Makes a target as declared. Throws SignFailed. */
export async function issueDeclared(artefact: ResolvedTarget, issuer: Authority, from: Ingredients): Promise<Issued> {
  const named = { ...artefact, ...subjectOf(artefact, from), hostnames: hostnamesOf(artefact, from) };
  const key = await from.takeKey(artefact);
  return issueTarget({ artefact: named, issuer: withChain(artefact, issuer, from), key, now: from.now });
}

interface TargetIssue {
  readonly artefact: ResolvedTarget;
  readonly issuer: Authority;
  readonly key: PrivateKey;
  readonly now: Date;
}

/**
 * Makes a leaf. A server sends its signer along. A client sends the leaf, and its signer only where that is an
 * intermediate CA: servers may trust only the root above it. Throws SignFailed.
 */
export async function issueTarget({ artefact, issuer, key, now }: TargetIssue): Promise<Issued> {
  const leaf = await signLeaf({
    issuer,
    key: key.key,
    commonName: artefact.commonName,
    // shortest first, as library-go sorts groups
    organizations: artefact.organizations.toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1)),
    hostnames: artefact.hostnames,
    usage: artefact.usage,
    ...validityFrom(artefact.validity, now),
  });
  const above = [issuer.certificate, ...issuer.chain];
  const sent = artefact.usage === 'client' ? above.filter((certificate) => !isSelfSigned(certificate)) : above;
  return pairOfEntries(artefact.location, [leaf, ...sent], key);
}

function isSelfSigned({ fields }: Certificate): boolean {
  return fields.issuer.der.equals(fields.subject.der);
}

/** Returns a validity that begins five minutes before now. */
export function validityFrom(validity: number, now: Date): { notBefore: Date; notAfter: Date; now: Date } {
  const at = now.getTime();
  return { notBefore: new Date(at - backDatedMs), notAfter: new Date(at + validity), now };
}

export function pairOfEntries(location: Location, certificates: readonly Certificate[], key: PrivateKey): Issued {
  return {
    entries: { [certificateKey]: Buffer.from(encodeBundle(certificates)), [privateKeyKey]: Buffer.from(key.pem) },
    annotations: annotationsOf(location, certificates[0]),
    certificates,
  };
}

/** Returns the subject to keep; undefined where it cannot be read: then the declared one counts. */
function subjectOf(
  target: ResolvedTarget,
  { material }: Ingredients,
): Pick<ResolvedTarget, 'commonName' | 'organizations'> | undefined {
  const { name, keepsSubject } = target;
  const pem = keepsSubject === true ? material.get(name)?.entries[certificateKey] : undefined;
  const [present] = wholeCertificates(pem);
  if (present === undefined || present.facts.isCa || present.facts.commonName === '') return undefined;
  const { commonName, organizations } = present.fields.subject;
  if (unfitness(target, { commonName, organizations }) !== undefined) return undefined;
  return { commonName, organizations };
}

/**
 * Returns the declared names, and the names of the present certificate: a name added by hand is not lost, and two
 * machines whose declarations differ converge to one certificate instead of removing each other's names for ever.
 */
function hostnamesOf(target: ResolvedTarget, { material }: Ingredients): readonly string[] {
  const { name, hostnames, usage, location, asks, namesUnknown } = target;
  // Names from the API are the same for all writers, and complete.
  if (asks !== undefined && namesUnknown === undefined) return hostnames;
  const pem = usage === 'client' ? undefined : material.get(name)?.entries[certificateKey];
  if (pem === undefined) return hostnames;
  const present = unlessInvalid(() => parseCertificates(pem, locationText(location)))?.[0];
  return present === undefined ? hostnames : canonicalHostnames([...hostnames, ...present.facts.hostnames]);
}

/**
 * Returns the signer of a target with the CAs above it, for peers that trust only the root: the signer's file holds it
 * alone. They are found by their signatures in the bundles, because the signer above may have been renewed since it
 * signed, and because its key is no business of a target below. A CA that is nowhere makes the chain shorter.
 */
function withChain(target: ResolvedTarget, signer: Authority, from: Ingredients): Authority {
  const own = chainOf(signer.certificate, signer.chain);
  if (own.length > 0) return { ...signer, chain: own };
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
function* linesAbove(artefact: Pick<IssuedPair, 'name' | 'issuer'>, from: Ingredients): Generator<Certificate> {
  const { artefacts } = from.resolved;
  for (let at: Pick<IssuedPair, 'name' | 'issuer'> | undefined = artefact; at?.issuer !== undefined;) {
    for (const bundle of bundlesAbove(artefacts, at)) yield* formerOf(bundle, from);
    const { issuer }: Pick<IssuedPair, 'issuer'> = at;
    at = artefacts.find((one): one is Signer => one.kind === 'signer' && one.name === issuer);
  }
}

/** Makes a target like its predecessor. Throws SignFailed. */
export async function issueRenewal(
  artefact: ResolvedTarget,
  issuer: Authority | undefined,
  from: Ingredients,
): Promise<Issued> {
  const { material, backups, now } = from;
  const places = [material.get(artefact.name), backups?.get(artefact.name)];
  const former = artefact.template === 'present' ? formerLeafOf(artefact, places) : undefined;
  const shared = artefact.sharesKey === true ? sharedKey(artefact, material.get(artefact.name)) : undefined;
  const key = shared?.key ?? (await from.takeKey(artefact, (former?.leaf ?? issuer?.certificate)?.facts.key));
  const template = withDemanded(
    artefact,
    former?.isFit === true ? templateOf(former.leaf) : declared(artefact, former?.leaf),
    former?.leaf.facts.hostnames ?? [],
  );
  const leaf = await signTemplate({
    template,
    key: key.key,
    issuer,
    notBefore: beginningOf(issuer, former, now),
    notAfter: new Date(now.getTime() + artefact.validity),
    now,
  });
  // the blocks behind a self-signed certificate were CAs of another one
  const { others, chain } = issuer === undefined || former?.isFit !== true ? { others: [], chain: [] } : former;
  const issued = pairOfEntries(artefact.location, [leaf, ...chain], key);
  const text = [leaf.pem, ...others.map(encodePem)].join('');
  const entries = { ...issued.entries, ...shared?.entries, [certificateKey]: Buffer.from(text) };
  return { ...issued, entries };
}

/** Returns the present key, with its bytes; the plan renews nothing without it. Throws MaterialInvalid. */
function sharedKey(
  { location }: ResolvedTarget,
  material: Material | undefined,
): { key: PrivateKey; entries: Entries } {
  const pem = requireEntry(material?.entries ?? {}, privateKeyKey, location);
  return { key: new PrivateKey(parsePrivateKey(pem, locationText(location))), entries: { [privateKeyKey]: pem } };
}

/** Adds the names that the machine demands, except names that the former certificate covers. */
const withDemanded = (
  { demandedHostnames = [] }: ResolvedTarget,
  template: LeafTemplate,
  held: readonly string[],
): LeafTemplate => ({
  ...template,
  alternativeNames: [...template.alternativeNames, ...uncoveredHostnames(demandedHostnames, held).map(hostnameDer)],
});

/** The certificate that a renewal follows, and the blocks behind it in its file. */
interface Former {
  readonly leaf: Certificate;
  readonly others: readonly Pick<PemBlock, 'label' | 'der'>[];
  /** Certificates among these blocks. */
  readonly chain: readonly Certificate[];
  /** It fits the target's use. The names of an unfit one count all the same: people have chosen them. */
  readonly isFit: boolean;
}

/**
 * Returns notBefore of a renewal: its CA's, like the kubeconfigs of `kubeadm init`. A clock may be wrong during the
 * renewal; a certificate that begins in the future would be of no use once the clock is corrected, and would hint at a
 * slow clock. A leaf dated back as far as its CA vouches for no more than the CA does: a CA of this minute is trusted
 * from then on only. A self-signed one begins with its predecessor, and at least five minutes early.
 */
function beginningOf(issuer: Authority | undefined, former: Former | undefined, now: Date): Date {
  const early = new Date(now.getTime() - backDatedMs);
  if (issuer === undefined) return earlier(early, former?.leaf.facts.notBefore ?? early);
  const { notBefore } = issuer.certificate.facts;
  return notBefore <= now ? notBefore : early;
}

const earlier = (a: Date, b: Date): Date => (a < b ? a : b);

/** Returns the first certificate that fits the target's use; else the first with names. */
function formerLeafOf(target: ResolvedTarget, places: readonly (Material | undefined)[]): Former | undefined {
  const formers = places.flatMap((material) => {
    const pem = material?.entries[certificateKey];
    const former = pem && readFormer(pem);
    return former === undefined ? [] : [{ ...former, isFit: canServe(target, former.leaf) }];
  });
  return (
    formers.find(({ isFit }) => isFit) ??
    formers.find(({ leaf: { facts, fields } }) => !facts.isCa && fields.alternativeNames.length > 0)
  );
}

/**
 * Whether a certificate fits the target's use: the file may hold another one altogether, a copy of a CA or a foreign
 * client pair. Declared names replace a certificate without any name for a server.
 */
function canServe(target: ResolvedTarget, { facts }: Certificate): boolean {
  if (target.usage !== 'client' && target.hostnames.length > 0 && facts.hostnames.length === 0) return false;
  if (otherNode(target, facts) !== undefined) return false;
  return unfitness(target, facts) === undefined && !facts.isCa && facts.commonName !== '';
}

/** Returns the whole blocks of a torn file. A private key is never carried on: the new leaf has its own. */
function readFormer(pem: Uint8Array): Omit<Former, 'isFit'> | undefined {
  const what = 'the former certificate';
  const sound = unlessInvalid(() => parseCertificates(pem, what, 'skipped'));
  const all = sound ?? wholeCertificates(pem);
  const blocks: Former['others'] =
    sound === undefined
      ? all.map(({ x509 }) => ({ label: 'CERTIFICATE', der: x509.raw }))
      : readPem(pem, what).filter(({ label }) => !label.endsWith('PRIVATE KEY'));
  const [leaf] = all;
  if (leaf === undefined) return undefined;
  const own = leaf.x509.raw;
  const chain = all.filter(({ x509 }) => !own.equals(x509.raw));
  return { leaf, others: blocks.filter(({ der }) => !own.equals(der)), chain };
}

function declared(
  { name, location, usage, commonName, organizations, hostnames: own }: ResolvedTarget,
  former: Certificate | undefined,
): LeafTemplate {
  const hostnames = own.length === 0 ? (former?.facts.hostnames ?? []) : own;
  const known = commonName ?? (usage === 'client' ? undefined : hostnames[0]);
  const missing = [
    ...(known === undefined ? ['common name'] : []),
    ...(usage !== 'client' && hostnames.length === 0 ? ['host name'] : []),
  ];
  if (known !== undefined && missing.length === 0) {
    const extendedKeyUsage = usagesOf[usage].map((one) => usageOids[one]);
    const alternativeNames = [...hostnames.map(hostnameDer), ...(former?.fields.alternativeNames ?? [])];
    return { commonName: known, organizations, extendedKeyUsage, alternativeNames };
  }
  throw new RecoveryError(
    'SignFailed',
    `Cannot make ${locationText(location)}: it holds no certificate to take the names from, no backup does, and no ` +
      `${missing.join(' and no ')} is known for "${name}"; put a backup in its place, or give the parameters that ` +
      'its entry in the inventory names',
  );
}
