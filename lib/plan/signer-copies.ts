// Where the certificate of a signer cannot be used: what copies of it say that lie elsewhere. Kubeconfigs embed the CA by
// which they know their server, bundles hold it, chains bring it along, and a backup may be there. A copy counts when it is
// whole and fits the key of the signer; without the key, when it has signed what the signer has signed.
import type { KeyObject } from 'node:crypto';
import type { Resolved, Signer } from '../inventory/model.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged, resembles } from '../pki/damage.ts';
import { keyMatches, usableKey } from '../pki/key.ts';
import { signatureMatches } from '../pki/verify.ts';
import { authorityKey, caBundleKey, certificateKey, type Found, privateKeyKey, type Store } from '../store/store.ts';
import { readableBackup } from './backups.ts';
import type { ArtefactFacts, Facts, SignerCopies } from './facts.ts';
import type { FaultKeeper } from './faults.ts';

export interface CopySources {
  readonly resolved: Resolved;
  readonly store: Store;
  readonly found: ReadonlyMap<string, Found>;
}

export interface Copies {
  /** The facts, with what the copies say about a signer. */
  readonly facts: Facts;
  /** By signer: the certificate that its copies agree upon. */
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
      const copies = await copiesOf(signer, sources);
      const certificate = copies.certificates.length === 1 ? copies.certificates[0] : undefined;
      const next = judged(fact, copies, certificate);
      if (next === undefined) continue;
      told.set(signer.name, next);
      if (certificate !== undefined) agreed.set(signer.name, certificate);
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

interface FoundCopies {
  /** Different ones, whole, that fit. */
  readonly certificates: readonly Certificate[];
  readonly from: readonly string[];
  readonly key: KeyObject | undefined;
  /** In the signer's own file: what of it can be read. */
  readonly own: readonly Certificate[];
}

/** The fact with what its copies say; undefined where they change nothing. */
function judged(fact: ArtefactFacts, copies: FoundCopies, agreed: Certificate | undefined): ArtefactFacts | undefined {
  const { certificates, from, key, own } = copies;
  const told: SignerCopies = {
    ...(agreed !== undefined && { certificate: agreed.facts }),
    from,
    hasKey: key !== undefined,
  };
  if (fact.state === 'broken') {
    // Its own certificate is there: what is broken is something else in its file.
    const isThere = own.some((one) => !isDamaged(one, own) && certificates.some((copy) => isSame(one, copy)));
    return isThere || certificates.length === 0 ? undefined : { ...fact, copies: told };
  }
  const [certificate] = own;
  if (fact.state !== 'present' || agreed === undefined || certificate === undefined) return undefined;
  if (isSame(agreed, certificate) || !resembles(certificate, agreed)) return undefined;
  const message = `the certificate "${certificate.facts.subject}" is damaged (its copies in ${from.join(', ')} differ from it in a few bytes)`;
  const age = fact.since === undefined ? {} : { since: fact.since };
  return { state: 'broken', problem: 'damaged', version: fact.version, message, copies: told, ...age };
}

async function copiesOf(signer: Signer, { resolved, store, found }: CopySources): Promise<FoundCopies> {
  const there = found.get(signer.name)?.entries ?? {};
  const own = wholeCertificates(there[certificateKey] ?? Buffer.alloc(0));
  const keyPem = there[privateKeyKey];
  const key = keyPem === undefined ? undefined : usableKey(keyPem, 'signer');
  const leaves = resolved.artefacts.flatMap((row) =>
    'issuer' in row && row.issuer === signer.name ? wholeIn(found.get(row.name)).slice(0, 1) : [],
  );
  const fits = (copy: Certificate): boolean =>
    key === undefined
      ? leaves.some((leaf) => signatureMatches(leaf, copy)) || own.some((one) => resembles(one, copy))
      : keyMatches(copy, key);
  const backup = await readableBackup(signer, store);
  const places = [
    ...resolved.artefacts
      .filter(({ name }) => name !== signer.name)
      .map(({ name }) => ({ name, all: wholeIn(found.get(name)) })),
    { name: 'its backup', all: wholeIn(backup) },
  ];
  const fitting = places.flatMap(({ name, all }) =>
    all.filter((one) => isUsableCa(one) && !isDamaged(one, all) && fits(one)).map((one) => ({ name, one })),
  );
  const certificates = [...new Map(fitting.map(({ one }) => [one.facts.fingerprint, one])).values()];
  return { certificates, from: [...new Set(fitting.map(({ name }) => name))], key, own };
}

/** All certificates of an artefact, wherever in it they stand. */
const wholeIn = (found: Found | undefined): readonly Certificate[] =>
  [certificateKey, caBundleKey, authorityKey].flatMap((key) => {
    const pem = found?.entries[key];
    return pem === undefined ? [] : wholeCertificates(pem);
  });

const isUsableCa = ({ facts, fields }: Certificate): boolean => facts.isCa && fields.keyUsage?.certSign !== false;
const isSame = (a: Certificate, b: Certificate): boolean => a.facts.fingerprint === b.facts.fingerprint;
