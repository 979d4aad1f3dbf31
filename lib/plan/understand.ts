// Parses the bytes of an artefact: certificates and key, whole or broken, and why. Pure.
import { leafRefusal } from '../pki/verify.ts';
import { type KubeconfigFields, onlyEntries } from '../kubeconfig/document.ts';
import { RecoveryError, isCode } from '../errors.ts';
import type { External, KeyPair, Kubeconfigs, ResolvedArtefact } from '../inventory/model.ts';
import { contentIn, holdsBundles } from '../inventory/location-kinds.ts';
import { isFile } from '../inventory/places.ts';
import { type Certificate, type CertificateFacts, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged } from '../pki/damage.ts';
import { parseFingerprint } from '../pki/fingerprint.ts';
import { ownFirst } from '../pki/signer-certificate.ts';
import { isEncryptedKey, pairMatches, parsePrivateKey, publicKeyMatches, usableKey } from '../pki/key.ts';
import {
  absenceOf,
  authorityKey,
  contentDigest,
  type Entries,
  entryText,
  entryTexts,
  requireEntry,
  type Found,
  locationText,
} from '../store/store.ts';
import type { ArtefactFacts } from './facts.ts';
import { caBundleKey, certificateKey, privateKeyKey, registryAuthsKey } from '../inventory/content.ts';
import { isRegistryAuths } from '../image-registries.ts';
import { bundlesByName, offeredByName } from './bundles-by-name.ts';
import { retiredAnnotation } from './union-rules.ts';

type PresentFacts = Extract<ArtefactFacts, { readonly state: 'present' }>;

/** Facts of an artefact, with its certificates as far as they can be used. */
interface Understood {
  readonly facts: ArtefactFacts;
  readonly certificates: readonly Certificate[];
}

export function understand(artefact: ResolvedArtefact, found: Found): Understood {
  const { entries, version, problem, foreign, isOtherDocument, authorityIsForeign, server, changedAt } = found;
  const offer = offeredBy(artefact, found);
  const what = locationText(artefact.location);
  const broken = (why: Broken, certificates: readonly Certificate[] = []): Understood => {
    const members = certificates.map((one) => memberFacts(one, certificates));
    const shared = artefact.kind === 'target' && artefact.sharesKey === true;
    const key = shared && { hasSharedKey: hasUsableKey(entries, what) };
    return { facts: { state: 'broken', version, certificates: members, ...why, ...key, ...offer }, certificates };
  };
  const unreadable = (message: string, pem: Uint8Array | undefined): Understood =>
    broken({ problem: 'unreadable', message }, wholeCertificates(pem));
  if (foreign !== undefined) {
    const whole = wholeCertificates(entries[certificateKey] ?? entries[caBundleKey]);
    return broken({ problem: 'foreign', message: foreign, isOtherDocument }, whole);
  }
  if (problem !== undefined) return unreadable(problem, entries[certificateKey]);
  try {
    if (artefact.kind === 'kubeconfigs') return understandKubeconfigs(artefact, found);
    const read = certificatesOf(artefact, entries, what);
    const all = artefact.kind === 'signer' ? ownFirst(read, entries[privateKeyKey]) : read;
    const certificates = artefact.kind === 'signer' ? all.filter((one) => !isDamaged(one, all)) : all;
    const [first] = all;
    // Only the signer's own certificate decides: the rest of the file does not sign. Without a usable certificate,
    // nothing that it has signed is judged by it.
    if (first !== undefined && artefact.kind === 'signer' && isDamaged(first, all)) {
      const message = `the certificate "${first.facts.subject}" in ${what} is damaged (its own signature is wrong)`;
      return broken({ problem: 'damaged', message });
    }
    const why = brokenPair(artefact, entries, certificates, what);
    if (why !== undefined) return broken(why, certificates);
    const isKubeconfig = artefact.location.kind === 'kubeconfig';
    const isAuths = contentIn(artefact.location) === 'registryAuths';
    const known = isKubeconfig && { authorities: authoritiesIn(entries), authorityIsForeign, server };
    const members = certificates.map((certificate) => memberFacts(certificate, certificates));
    const facts = {
      state: 'present',
      version,
      certificates: members,
      digest: contentDigest(entries),
      ...known,
      ...(artefact.kind === 'external' && certificates.length === 0 && !isAuths && { emptied: emptinessOf(entries) }),
      ...(artefact.kind === 'external' && artefact.followedAs !== undefined && { held: certificates, changedAt }),
      ...(artefact.location.kind === 'pemDirectory' && bundlesByName(entries, what)),
      ...offer,
      ...(isFile(artefact.location) && precededBy(read, all)),
    } as const;
    return { facts, certificates };
  } catch (err) {
    if (!isCode(err, 'MaterialInvalid')) throw err;
    const isBundle = artefact.kind === 'caBundle' || artefact.kind === 'composedBundle';
    return unreadable(err.message, isBundle ? entries[caBundleKey] : undefined);
  }
}

/** CAs for files that follow it: of an external bundle in the API. */
function offeredBy(artefact: ResolvedArtefact, { entries, annotations }: Found): Pick<PresentFacts, 'offer'> {
  const { kind, location } = artefact;
  if (kind !== 'external' || isFile(location) || !holdsBundles(location)) return {};
  const named = annotations[retiredAnnotation]?.split(/[\s,]+/) ?? [];
  const retired = named.flatMap((text) => parseFingerprint(text) ?? []);
  if (contentIn(location) === 'bundle') return { offer: { whole: wholeCertificates(entries[caBundleKey]), retired } };
  const { each, problems } = offeredByName(entries, locationText(location));
  return { offer: { whole: [...each.values()].flat(), retired, each, problems } };
}

/** The subject of the first certificate of a signer's file, where that is not the signer's own. */
function precededBy([first]: readonly Certificate[], [own]: readonly Certificate[]): { readonly precededBy?: string } {
  return first === undefined || first === own ? {} : { precededBy: first.facts.subject };
}

/** The CAs by which a kubeconfig knows its server. A torn block counts for nothing. */
const authoritiesIn = ({ [authorityKey]: pem }: Entries): readonly string[] | undefined =>
  pem && wholeCertificates(pem).map(({ facts }) => facts.fingerprint);

/** Facts of one certificate, judged among the certificates found with it. */
export function memberFacts(certificate: Certificate, beside: readonly Certificate[]): CertificateFacts {
  const { facts } = certificate;
  if (facts.isCa) return isDamaged(certificate, beside) ? { ...facts, isDamaged: true } : facts;
  const refused = leafRefusal(certificate);
  return refused === undefined ? facts : { ...facts, refused };
}

function certificatesOf(artefact: ResolvedArtefact, entries: Entries, what: string): readonly Certificate[] {
  switch (artefact.kind) {
    case 'signer':
    case 'target':
      return parseCertificates(
        requireEntry(entries, certificateKey, artefact.location),
        `${what} ${certificateKey}`,
        othersIn(artefact),
      );
    case 'caBundle':
    case 'composedBundle':
      return parseCertificates(requireEntry(entries, caBundleKey, artefact.location), `${what} ${caBundleKey}`);
    case 'copy':
      return entries[caBundleKey] === undefined
        ? []
        : parseCertificates(entries[caBundleKey], `${what} ${caBundleKey}`);
    case 'external':
      return externalCertificates(artefact, entries, what);
    case 'kubeconfigs':
    case 'keyPair':
    case 'opaque':
      return [];
  }
}

/** Returns none for a bundle without entry, or with an empty one: its owner has not written it yet. */
function externalCertificates(
  { location, followedAs }: External,
  entries: Entries,
  what: string,
): readonly Certificate[] {
  const content = contentIn(location);
  if (content === 'bundles') return [...bundlesByName(entries, what).each.values()].flat();
  if (content === 'registryAuths') {
    if (isRegistryAuths(requireEntry(entries, registryAuthsKey, location))) return [];
    throw new RecoveryError('MaterialInvalid', `Cannot use ${what}: it is no JSON with credentials in "auths"`);
  }
  if (followedAs !== undefined) {
    // Read like client-go: a torn certificate next to a whole one does not count.
    const entry = location.kind === 'kubeconfig' ? authorityKey : caBundleKey;
    const whole = wholeCertificates(entries[entry]);
    if (whole.length > 0 || location.kind === 'kubeconfig') return whole;
  }
  if (content === 'pair')
    return parseCertificates(requireEntry(entries, certificateKey, location), `${what} ${certificateKey}`);
  if (isFile(location))
    return parseCertificates(requireEntry(entries, caBundleKey, location), `${what} ${caBundleKey}`, 'skipped');
  const bundle = entries[caBundleKey];
  const isEmpty = bundle === undefined || Buffer.from(bundle).toString('latin1').trim() === '';
  return isEmpty ? [] : parseCertificates(bundle, `${what} ${caBundleKey}`);
}

function emptinessOf(entries: Entries): string {
  if (entries[caBundleKey] !== undefined) return `its entry "${caBundleKey}" is empty`;
  const others = Object.keys(entries).map((key) => JSON.stringify(key));
  return `it has no entry "${caBundleKey}"${others.length === 0 ? '' : `, only ${others.slice(0, 3).join(', ')}`}`;
}

/**
 * Whether other PEM blocks are accepted. A renewal keeps them with a signer (revocation lists, parameters), and in the
 * file of a target that follows its predecessor. Readers in Go skip them.
 */
export function othersIn(artefact: ResolvedArtefact): 'skipped' | 'refused' {
  const isKept = artefact.kind === 'signer' || (artefact.kind === 'target' && artefact.template === 'present');
  return isKept ? 'skipped' : 'refused';
}

const hasUsableKey = ({ [privateKeyKey]: pem }: Entries, what: string): boolean =>
  pem !== undefined && usableKey(pem, what) !== undefined;

type Broken = Pick<ArtefactFacts & { state: 'broken' }, 'problem' | 'message' | 'isOtherDocument'>;

/** Why a pair cannot be used although its certificate parses. Throws MaterialInvalid for a broken key. */
function brokenPair(
  artefact: ResolvedArtefact,
  entries: Entries,
  [certificate]: readonly Certificate[],
  what: string,
): Broken | undefined {
  if (artefact.kind === 'keyPair') return brokenKeyPair(artefact, entries);
  const isPair = artefact.kind === 'signer' || artefact.kind === 'target' || isExternalPair(artefact);
  if (!isPair || certificate === undefined) return undefined;
  if (artefact.kind === 'signer' && !certificate.facts.isCa) {
    return { problem: 'unreadable', message: `the certificate in ${what} is no CA certificate` };
  }
  if (artefact.kind === 'signer' && certificate.fields.keyUsage?.certSign === false) {
    return { problem: 'unreadable', message: `the certificate in ${what} may not sign certificates (key usage)` };
  }
  if (entries[privateKeyKey] === undefined) {
    return {
      problem: 'keyAbsent',
      message: `${what} has no private key: ${absenceOf(artefact.location, privateKeyKey)}`,
    };
  }
  const key = requireEntry(entries, privateKeyKey, artefact.location);
  if (artefact.kind === 'signer' && isFile(artefact.location) && isEncryptedKey(key)) {
    const message = `the private key of ${what} is encrypted, and its passphrase is not known here`;
    return { problem: 'keyEncrypted', message };
  }
  if (pairMatches(certificate, key, `${what} ${privateKeyKey}`)) return undefined;
  return { problem: 'mismatchedPair', message: `the private key in ${what} does not belong to its certificate` };
}

export const isExternalPair = ({ kind, location }: ResolvedArtefact): boolean =>
  kind === 'external' && contentIn(location) === 'pair';

function brokenKeyPair({ privateKey, publicKey, location }: KeyPair, entries: Entries): Broken | undefined {
  const [privatePlace, publicPlaces] = [entryText(location, privateKey), entryTexts(location, publicKey)];
  const publicPlace = publicPlaces.join(', ');
  const key = parsePrivateKey(requireEntry(entries, privateKey, location), privatePlace);
  if (publicKeyMatches(requireEntry(entries, publicKey, location), key, publicPlace)) return undefined;
  const none = publicPlaces.length === 1 ? `${publicPlace} does not hold` : `none of ${publicPlace} holds`;
  return { problem: 'mismatchedPair', message: `${none} the public key of ${privatePlace}` };
}

interface HeldKubeconfig {
  readonly leaf: Certificate;
  readonly authorities: readonly Certificate[];
  readonly server: string;
}

/** Parses kubeconfigs in one Secret: distinct leaves; common CAs. Throws MaterialInvalid, without bytes of a key. */
export function understandKubeconfigs({ location, servers }: Kubeconfigs, { entries, version }: Found): Understood {
  const what = locationText(location);
  const held = servers.map(({ key }) => readKubeconfig(entries[key], `${what} ${key}`));
  const leaves = new Map(held.map(({ leaf }) => [leaf.facts.fingerprint, leaf]));
  const known = held.map(({ authorities }) => authorities.map(({ facts }) => facts.fingerprint));
  const certificates = [...leaves.values()];
  const facts: ArtefactFacts = {
    state: 'present',
    version,
    certificates: certificates.map((leaf) => leaf.facts),
    digest: JSON.stringify([[...leaves.keys()], known, held.map(({ server }) => server)]),
    authorities: known[0]?.filter((print) => known.every((prints) => prints.includes(print))) ?? [],
    servers: Object.fromEntries(servers.map(({ key }, at) => [key, held[at]?.server ?? ''])),
  };
  return { facts, certificates };
}

function readKubeconfig(bytes: Uint8Array | undefined, what: string): HeldKubeconfig {
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError('MaterialInvalid', `Cannot use ${what}: ${problem}`);
  if (bytes === undefined) throw refuse('it is not there');
  const { cluster, user } = onlyEntries(bytes);
  const data = (from: KubeconfigFields | undefined, key: string): Buffer => {
    const value = from?.[key];
    if (typeof value !== 'string') throw refuse(`it has no ${key}`);
    return Buffer.from(value, 'base64');
  };
  const [leaf] = parseCertificates(data(user, 'client-certificate-data'), `${what} client-certificate-data`);
  const key = data(user, 'client-key-data');
  if (leaf === undefined || !pairMatches(leaf, key, `${what} client-key-data`))
    throw refuse('its key does not belong to its certificate');
  const server = cluster?.['server'];
  if (typeof server !== 'string') throw refuse('it names no server');
  const authorities = wholeCertificates(data(cluster, 'certificate-authority-data'));
  if (authorities.length === 0) throw refuse('it knows its server by no certificate');
  return { leaf, authorities, server };
}
