// Copies of a signer's certificate, read where the certificate cannot be used, or cannot be shown to be whole.
// Kubeconfigs embed the CA by which they know their server, bundles hold it, chains include it, and a backup may exist.
// A copy counts when it is whole and fits the key of the signer; without the key, when it has signed the signer's
// leaves.
import type { ResolvedArtefact, Signer } from '../inventory/model.ts';
import { type Certificate, isSame, leadingCertificate, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged, resembles } from '../pki/damage.ts';
import { keyMatches, usableKey } from '../pki/key.ts';
import { ownFirst } from '../pki/signer-certificate.ts';
import { isSignedByKey, signatureMatches } from '../pki/verify.ts';
import { authorityKey, type Found } from '../store/store.ts';
import { type ArtefactFacts, type Facts, isValid, type SignerCopies } from './facts.ts';
import type { FaultKeeper } from './faults.ts';
import { judgeSigners, readableBackup, type SignerSources } from './gather-signers.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../inventory/content.ts';

interface Copies {
  /** The facts, with the evidence of the copies of signers. */
  readonly facts: Facts;
  /** The certificate to put back, by signer. */
  readonly agreed: ReadonlyMap<string, Certificate>;
}

export async function withSignerCopies(
  facts: Facts,
  sources: SignerSources,
  onFault: FaultKeeper['keep'],
): Promise<Copies> {
  const agreed = new Map<string, Certificate>();
  const told = await judgeSigners(facts, sources, onFault, async (signer, fact) => {
    const judged = isDoubtful(fact) ? judge(fact, await lookFor(signer, sources)) : undefined;
    if (judged?.certificate !== undefined) agreed.set(signer.name, judged.certificate);
    return judged?.fact;
  });
  return { facts: told, agreed };
}

/** Whether the certificate is broken, or cannot be shown to be whole: a CA that is not here has signed it. */
function isDoubtful(fact: ArtefactFacts): boolean {
  if (fact.state === 'present') return fact.certificates[0]?.signedBy.length === 0;
  return fact.state === 'broken' && (fact.problem === 'damaged' || fact.problem === 'unreadable');
}

interface Judged {
  readonly fact: ArtefactFacts;
  readonly certificate?: Certificate | undefined;
}

/** Returns the fact with the evidence of its copies; undefined where they change nothing. */
function judge(fact: ArtefactFacts, evidence: Evidence): Judged | undefined {
  const { own, hasKey, isOwnBad, isFirstWhole } = evidence;
  const withCopies = ({ certificate, from, doubt }: Proof): Judged | undefined => {
    if (fact.state !== 'broken' || from.length === 0) return undefined;
    const copies = { certificate: certificate?.facts, from, doubt, hasKey };
    return { fact: { ...fact, copies }, certificate };
  };
  if (own === undefined || isOwnBad) return withCopies(formerOf(evidence));
  if (fact.state === 'broken' && isFirstWhole) return withCopies({ certificate: own, from: [ownFile] });
  const { certificate, from } = betterThanOwn(own, evidence);
  if (fact.state !== 'present') return certificate && withCopies({ certificate, from });
  if (certificate === undefined) return from.length === 0 ? undefined : { fact: { ...fact, differingCopies: from } };
  const message = `the certificate "${own.facts.subject}" is damaged (its copies in ${from.join(', ')} differ from it in a few bytes)`;
  const copies = { certificate: certificate.facts, from, hasKey };
  const { version, since } = fact;
  return { fact: { state: 'broken', problem: 'damaged', version, message, copies, since }, certificate };
}

/** Name of the file's beginning as a place that has the certificate. */
const ownFile = 'the beginning of the file';

async function lookFor(signer: Signer, { resolved, store, found, now }: SignerSources): Promise<Evidence> {
  const there = found.get(signer.name);
  const pem = there?.entries[certificateKey] ?? Buffer.alloc(0);
  const beside = wholeCertificates(pem);
  const keyPem = there?.entries[privateKeyKey];
  const key = keyPem === undefined ? undefined : usableKey(keyPem, 'signer');
  const [fitting] = ownFirst(beside, keyPem);
  const isFitting = key !== undefined && fitting !== undefined && keyMatches(fitting, key);
  const own = isFitting ? fitting : leadingCertificate(pem);
  const others = resolved.artefacts.filter(({ name }) => name !== signer.name);
  const isLeaf = (other: ResolvedArtefact): boolean => 'issuer' in other && other.issuer === signer.name;
  const leaves = others.filter(isLeaf).flatMap(({ name }) => wholeIn(found.get(name)).slice(0, 1));
  const fits = (copy: Certificate): boolean =>
    key === undefined
      ? leaves.some((leaf) => signatureMatches(leaf, copy)) || (own !== undefined && resembles(own, copy))
      : keyMatches(copy, key);
  const places = [
    ...others.flatMap((other) => {
      const { [authorityKey]: authority, ...rest } = found.get(other.name)?.entries ?? {};
      return [
        { from: other.name, isIndependent: !isLeaf(other), all: wholeIn({ entries: rest }) },
        { from: other.name, isIndependent: true, all: wholeCertificates(authority) },
      ];
    }),
    { from: backupName, isIndependent: false, all: wholeIn(await readableBackup(signer, store)) },
  ];
  const copies = places.flatMap(({ from, isIndependent, all }) =>
    all
      .filter((one) => isUsableCa(one) && !isDamaged(one, all) && fits(one))
      .map((certificate): FoundCopy => ({ from, isIndependent, certificate })),
  );
  const authorities = [...places.flatMap(({ all }) => all), ...beside].filter(isUsableCa);
  const hasItsKey = key === undefined ? keyPem === undefined : own !== undefined && keyMatches(own, key);
  const isOwnBad = own === undefined || isBad(own, beside);
  const isFirstWhole = there?.problem === undefined && hasItsKey && !isOwnBad;
  return { own, copies, authorities, leaves, hasKey: key !== undefined, isOwnBad, isFirstWhole, now };
}

/** All certificates of an artefact, in whichever entry. */
const wholeIn = (found: Pick<Found, 'entries'> | undefined): readonly Certificate[] =>
  [certificateKey, caBundleKey, authorityKey].flatMap((key) => wholeCertificates(found?.entries[key]));

// Evidence from the copies. A file that cannot be read, or whose own signature is wrong, is bad: then its former copy
// is searched for. A readable file is taken for whole although a copy differs, because the damage may be the copy's,
// until evidence from a third place shows which of them is damaged.

interface FoundCopy {
  /** Place for people: the name of an artefact, or `its backup`. */
  readonly from: string;
  /** Bundles and kubeconfigs only. The chain of a leaf, and a backup, may be as old as the damage. */
  readonly isIndependent: boolean;
  readonly certificate: Certificate;
}

interface Evidence {
  /** Certificate of the signer's key, or the first of its file, where it can be read. */
  readonly own: Certificate | undefined;
  /** Whole copies that fit the signer. */
  readonly copies: readonly FoundCopy[];
  /** All CA certificates at hand. */
  readonly authorities: readonly Certificate[];
  /** Certificates that name the signer as their issuer. */
  readonly leaves: readonly Certificate[];
  /** The signer's key is there, and can be used. */
  readonly hasKey: boolean;
  /** The first certificate of the file cannot be the former one. */
  readonly isOwnBad: boolean;
  /** The first certificate can be the former one, and its key is its own: the unreadable part follows it. */
  readonly isFirstWhole: boolean;
  readonly now: Date;
}

interface Proof extends Pick<SignerCopies, 'from' | 'doubt'> {
  /** Certificate to put back. */
  readonly certificate?: Certificate | undefined;
}

/** Whether the first certificate of a signer's file is certainly bad. `beside`: the certificates that follow it. */
const isBad = (own: Certificate, beside: readonly Certificate[]): boolean => isDamaged(own, beside) || !isUsableCa(own);

const isUsableCa = ({ facts, fields }: Certificate): boolean => facts.isCa && fields.keyUsage?.certSign !== false;

/** Returns the copy of the former certificate of a bad file. */
function formerOf(evidence: Evidence): Proof {
  const { own, copies, now } = evidence;
  const alike = own === undefined ? copies : copies.filter(({ certificate }) => resembles(own, certificate));
  const usable =
    own !== undefined && isValid(own.facts, now) ? alike.filter((copy) => isValid(copy.certificate.facts, now)) : alike;
  if (usable.length === 0) return alike.length === 0 ? { from: [] } : { from: placesOf(alike), doubt: 'ended' };
  const named = own === undefined ? usable.filter(({ certificate }) => !isContradicted(certificate, evidence)) : usable;
  if (named.length === 0) return { from: placesOf(usable), doubt: 'unnamed' };
  const proven = named.filter(({ certificate }) => isProven(certificate, evidence));
  const choice = proven.length > 0 ? proven : named;
  const found =
    soleOf(choice) ??
    (own === undefined ? soleOf(choice.filter((one) => isValid(one.certificate.facts, now))) : undefined);
  return found === undefined
    ? { from: placesOf(usable), doubt: 'different' }
    : { certificate: found, from: placesOf(choice.filter(({ certificate }) => isSame(certificate, found))) };
}

/**
 * Returns the copies that differ in a few bytes from a readable file, and the copy proven to be the former certificate.
 * The signature of a CA at hand is proof; or all leaves of the signer, by naming the copy and not the file.
 */
function betterThanOwn(own: Certificate, evidence: Evidence): Proof {
  if (isProven(own, evidence)) return { from: [] };
  const differing = evidence.copies.filter(
    ({ certificate }) => !isSame(certificate, own) && resembles(certificate, own),
  );
  const proven = differing.filter(({ certificate }) => isProven(certificate, evidence));
  const byLeaves = (): readonly FoundCopy[] => {
    const isHeldElsewhere = evidence.copies.some(({ certificate }) => isSame(certificate, own));
    const isWitnessed = differing.some(({ isIndependent }) => isIndependent);
    return isWitnessed && !isHeldElsewhere && isNamedInsteadOf(own, soleOf(differing), evidence) ? differing : [];
  };
  const choice = proven.length > 0 ? proven : byLeaves();
  const certificate = soleOf(choice);
  if (certificate !== undefined) return { certificate, from: placesOf(choice) };
  // A backup that differs holds the replaced certificate.
  return { from: placesOf(differing.filter(({ from }) => from !== backupName)), doubt: 'different' };
}

const backupName = 'its backup';

/** Whether a CA at hand has signed it: damage and a valid signature exclude each other, in whichever object. */
const isProven = (certificate: Certificate, { authorities }: Evidence): boolean =>
  [certificate, ...authorities].some((authority) => signatureMatches(certificate, authority));

function isNamedInsteadOf(own: Certificate, copy: Certificate | undefined, { leaves }: Evidence): boolean {
  const signed = leaves.filter((leaf) => isSignedByKey(leaf, own));
  return copy !== undefined && signed.length > 0 && signed.every((leaf) => names(leaf, copy) && !names(leaf, own));
}

/** Whether its key has signed leaves, of which none knows it by this name. */
function isContradicted(copy: Certificate, { leaves }: Evidence): boolean {
  const signed = leaves.filter((leaf) => isSignedByKey(leaf, copy));
  return signed.length > 0 && !signed.some((leaf) => signatureMatches(leaf, copy));
}

function names({ fields: { issuer, authorityKeyId } }: Certificate, { fields }: Certificate): boolean {
  const isSameKeyId =
    authorityKeyId === undefined || fields.subjectKeyId === undefined || authorityKeyId === fields.subjectKeyId;
  return isSameKeyId && issuer.der.equals(fields.subject.der);
}

const placesOf = (copies: readonly FoundCopy[]): readonly string[] => [...new Set(copies.map(({ from }) => from))];

/** Returns the certificate where all copies are the same. */
function soleOf(copies: readonly FoundCopy[]): Certificate | undefined {
  const [first, ...others] = copies;
  return others.every(({ certificate }) => first !== undefined && isSame(certificate, first.certificate))
    ? first?.certificate
    : undefined;
}
