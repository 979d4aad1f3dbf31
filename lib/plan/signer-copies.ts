// Where the certificate of a signer cannot be used, or nobody here can say whether it is whole: what copies of it say
// that lie elsewhere. Kubeconfigs embed the CA by which they know their server, bundles hold it, chains bring it along,
// and a backup may be there. A copy counts when it is whole and fits the key of the signer; without the key, when it has
// signed what the signer has signed. What they prove is copy-evidence.ts.
import type { KeyObject } from 'node:crypto';
import type { Resolved, ResolvedArtefact, Signer } from '../inventory/model.ts';
import { type Certificate, leadingCertificate, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged, resembles } from '../pki/damage.ts';
import { keyMatches, usableKey } from '../pki/key.ts';
import { signatureMatches } from '../pki/verify.ts';
import { authorityKey, caBundleKey, certificateKey, type Found, privateKeyKey, type Store } from '../store/store.ts';
import { readableBackup } from './backups.ts';
import { backupName, betterThanOwn, type Copy, type Evidence, type Finding } from './copy-evidence.ts';
import { formerOf, isBad, isUsableCa } from './copy-evidence.ts';
import type { ArtefactFacts, Facts, SignerCopies } from './facts.ts';
import type { FaultKeeper } from './faults.ts';

export interface CopySources {
  readonly resolved: Resolved;
  readonly store: Store;
  readonly found: ReadonlyMap<string, Found>;
  readonly now: Date;
}

export interface Copies {
  /** The facts, with what the copies say about a signer. */
  readonly facts: Facts;
  /** By signer: the certificate that is to be put back. */
  readonly agreed: ReadonlyMap<string, Certificate>;
}

export async function withSignerCopies(
  facts: Facts,
  sources: CopySources,
  onFault: FaultKeeper['keep'],
): Promise<Copies> {
  const told = new Map(facts);
  const agreed = new Map<string, Certificate>();
  for (const signer of sources.resolved.artefacts) {
    const fact = facts.get(signer.name);
    if (signer.kind !== 'signer' || fact === undefined || !isDoubtful(fact)) continue;
    try {
      const found = await lookFor(signer, sources);
      const judged = judge(fact, found);
      if (judged === undefined) continue;
      told.set(signer.name, judged.fact);
      if (judged.certificate !== undefined) agreed.set(signer.name, judged.certificate);
    } catch (err) {
      onFault(signer.name, err); // it stays as it was found, without what its copies say
    }
  }
  return { facts: told, agreed };
}

/** Broken, or nobody here can say whether it is whole: it was signed by a CA that is not here. */
function isDoubtful(fact: ArtefactFacts): boolean {
  if (fact.state === 'present') return fact.certificates[0]?.signedBy.length === 0;
  return fact.state === 'broken' && (fact.problem === 'damaged' || fact.problem === 'unreadable');
}

interface Looked {
  readonly evidence: Evidence;
  readonly key: KeyObject | undefined;
  /** What the file begins with cannot be what was there. */
  readonly isOwnBad: boolean;
  /** It can, and its key is its own: what cannot be read stands behind it. */
  readonly isFirstWhole: boolean;
}

interface Judged {
  readonly fact: ArtefactFacts;
  readonly certificate?: Certificate;
}

/** The fact with what its copies say; undefined where they change nothing. */
function judge(fact: ArtefactFacts, { evidence, key, isOwnBad, isFirstWhole }: Looked): Judged | undefined {
  const { own } = evidence;
  const withCopies = ({ certificate, from, doubt }: Finding): Judged | undefined => {
    if (fact.state !== 'broken' || from.length === 0) return undefined;
    const copies: SignerCopies = {
      ...(certificate !== undefined && { certificate: certificate.facts }),
      from,
      ...(doubt !== undefined && { doubt }),
      hasKey: key !== undefined,
    };
    return { fact: { ...fact, copies }, ...(certificate !== undefined && { certificate }) };
  };
  if (own === undefined || isOwnBad) return withCopies(formerOf(evidence));
  if (fact.state === 'broken' && isFirstWhole) return withCopies({ certificate: own, from: [ownFile] });
  const better = betterThanOwn(own, evidence);
  const { certificate, from } = better;
  if (fact.state !== 'present') return certificate === undefined ? undefined : withCopies(better);
  if (certificate === undefined) return from.length === 0 ? undefined : { fact: { ...fact, differingCopies: from } };
  const message = `the certificate "${own.facts.subject}" is damaged (its copies in ${from.join(', ')} differ from it in a few bytes)`;
  const age = fact.since === undefined ? {} : { since: fact.since };
  const copies: SignerCopies = { certificate: certificate.facts, from, hasKey: key !== undefined };
  return {
    fact: { state: 'broken', problem: 'damaged', version: fact.version, message, copies, ...age },
    certificate,
  };
}

/** As a place that has the certificate. */
const ownFile = 'the beginning of the file';

async function lookFor(signer: Signer, { resolved, store, found, now }: CopySources): Promise<Looked> {
  const there = found.get(signer.name);
  const pem = there?.entries[certificateKey] ?? Buffer.alloc(0);
  const own = leadingCertificate(pem);
  const keyPem = there?.entries[privateKeyKey];
  const key = keyPem === undefined ? undefined : usableKey(keyPem, 'signer');
  const others = resolved.artefacts.filter(({ name }) => name !== signer.name);
  const isLeaf = (row: ResolvedArtefact): boolean => 'issuer' in row && row.issuer === signer.name;
  const leaves = others.filter(isLeaf).flatMap(({ name }) => wholeIn(found.get(name)).slice(0, 1));
  const fits = (copy: Certificate): boolean =>
    key === undefined
      ? leaves.some((leaf) => signatureMatches(leaf, copy)) || (own !== undefined && resembles(own, copy))
      : keyMatches(copy, key);
  const places = [
    ...others.flatMap((row) => {
      const { [authorityKey]: authority, ...rest } = found.get(row.name)?.entries ?? {};
      return [
        { from: row.name, isIndependent: !isLeaf(row), all: wholeIn({ entries: rest }) },
        { from: row.name, isIndependent: true, all: authority === undefined ? [] : wholeCertificates(authority) },
      ];
    }),
    { from: backupName, isIndependent: false, all: wholeIn(await readableBackup(signer, store)) },
  ];
  const copies = places.flatMap(({ from, isIndependent, all }) =>
    all
      .filter((one) => isUsableCa(one) && !isDamaged(one, all) && fits(one))
      .map((certificate): Copy => ({ from, isIndependent, certificate })),
  );
  const beside = wholeCertificates(pem);
  const authorities = [...places.flatMap(({ all }) => all), ...beside].filter(isUsableCa);
  const hasItsKey = key === undefined ? keyPem === undefined : own !== undefined && keyMatches(own, key);
  const isOwnBad = own === undefined || isBad(own, beside);
  return {
    evidence: { own, copies, authorities, leaves, now },
    key,
    isOwnBad,
    isFirstWhole: there?.problem === undefined && hasItsKey && !isOwnBad,
  };
}

/** All certificates of an artefact, wherever in it they stand. */
const wholeIn = (found: Pick<Found, 'entries'> | undefined): readonly Certificate[] =>
  [certificateKey, caBundleKey, authorityKey].flatMap((key) => {
    const pem = found?.entries[key];
    return pem === undefined ? [] : wholeCertificates(pem);
  });
