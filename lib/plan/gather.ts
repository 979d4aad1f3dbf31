// Reads every artefact and says what is there: the impure step before plan(). Truth is the bytes of certificate and
// key, not an annotation. A read that fails is a fact too ("unavailable"): from it nothing is concluded.
import { createHash } from 'node:crypto';
import { RecoveryError, errorText, isCode } from '../errors.ts';
import type { KeyPair, Location, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { keyMatches, parsePrivateKey, publicKeyMatches } from '../pki/key.ts';
import { signatureMatches } from '../pki/verify.ts';
import {
  authorityKey,
  caBundleKey,
  certificateKey,
  type Entries,
  type Found,
  locationText,
  privateKeyKey,
} from '../store/store.ts';
import type { Store } from '../store/store.ts';
import { backupsOf, isFromNothing } from './backups.ts';
import type { ArtefactFacts, Facts } from './facts.ts';
import { pairOf } from './judgement.ts';
import { isVouchedFor, othersEnd } from './kinship.ts';

export interface GatherInput {
  readonly resolved: Resolved;
  readonly store: Store;
  readonly now: Date;
  readonly signal: AbortSignal;
  /** Only artefacts whose truth lies there are read; the others are "unavailable". */
  readonly only?: (location: Location) => boolean;
  /** The facts of an earlier look: they say since when a version has been there. */
  readonly previous?: Facts;
}

export interface Gathered {
  readonly facts: Facts;
  /** What was read, for those who carry the plan out. Holds keys: never logged. */
  readonly found: ReadonlyMap<string, Found>;
  /** Errors of reads that failed, by artefact. */
  readonly failures: ReadonlyMap<string, RecoveryError>;
  /**
   * By artefact: the newest backup of a target that is to be made like what was there, where nothing of that can be read
   * any more.
   */
  readonly backups?: ReadonlyMap<string, Found>;
}

export async function gather(input: GatherInput): Promise<Gathered> {
  const found = new Map<string, Found>();
  const failures = new Map<string, RecoveryError>();
  const seen = new Map<string, Look>();
  const { artefacts } = input.resolved;
  // What a copy of a pair holds may be another generation, and broken by itself: it is understood as its original is.
  const rows = artefacts.map((row) => (row.kind === 'copy' ? (pairOf(artefacts, row) ?? row) : row));
  await Promise.all(
    rows.map(async (artefact) => {
      const look = await lookAt(artefact, input);
      seen.set(artefact.name, look);
      if ('found' in look) found.set(artefact.name, look.found);
      if ('failure' in look && look.failure !== undefined) failures.set(artefact.name, look.failure);
    }),
  );
  const related = relate(seen, rows, input);
  const backups = await backupsOf(related, input);
  const facts = new Map(
    [...related].map(([name, fact]) => [
      name,
      isFromNothing(name, { fact, resolved: input.resolved, found, backups }) ? fromNothing(fact) : fact,
    ]),
  );
  return { facts, found, failures, backups };
}

function fromNothing(fact: ArtefactFacts): ArtefactFacts {
  return fact.state === 'absent' || fact.state === 'broken' ? { ...fact, madeFromNothing: true } : fact;
}

type Look =
  | { readonly facts: ArtefactFacts; readonly failure?: RecoveryError }
  | { readonly found: Found; readonly facts: ArtefactFacts; readonly certificates: readonly Certificate[] };

async function lookAt(artefact: ResolvedArtefact, { store, signal, only }: GatherInput): Promise<Look> {
  if (only !== undefined && !only(artefact.truth)) {
    return { facts: { state: 'unavailable', message: 'it was not looked at' } };
  }
  let found: Found | undefined;
  try {
    found = await store.read(artefact.truth, signal);
  } catch (err) {
    const failure =
      err instanceof RecoveryError ? err : new RecoveryError('ReadFailed', errorText(err), { cause: err });
    return { facts: { state: 'unavailable', message: failure.message }, failure };
  }
  if (found === undefined) return { facts: { state: 'absent' } };
  return { found, ...understand(artefact, found) };
}

function understand(
  artefact: ResolvedArtefact,
  found: Found,
): { facts: ArtefactFacts; certificates: readonly Certificate[] } {
  const { entries, version, problem, foreign } = found;
  const what = locationText(artefact.truth);
  if (foreign !== undefined) {
    return { facts: { state: 'broken', problem: 'foreign', version, message: foreign }, certificates: [] };
  }
  if (problem !== undefined) {
    const certificates = wholeCertificates(entries[certificateKey] ?? Buffer.alloc(0));
    const whole = certificates.map(({ facts }) => facts);
    return {
      facts: { state: 'broken', problem: 'unreadable', version, message: problem, certificates: whole },
      certificates,
    };
  }
  try {
    const certificates = certificatesOf(artefact, entries, what);
    const broken = brokenPair(artefact, entries, certificates, what);
    if (broken !== undefined) {
      return {
        facts: { state: 'broken', version, certificates: certificates.map(({ facts }) => facts), ...broken },
        certificates,
      };
    }
    const facts = certificates.map((certificate) => certificate.facts);
    const digest = digestOf(entries);
    return {
      facts: { state: 'present', version, certificates: facts, digest, ...authorityOf(artefact, found) },
      certificates,
    };
  } catch (err) {
    if (!isCode(err, 'MaterialInvalid')) throw err;
    const bundle =
      artefact.kind === 'caBundle' || artefact.kind === 'composedBundle' ? entries[caBundleKey] : undefined;
    const certificates = bundle === undefined ? [] : wholeCertificates(bundle);
    const whole = certificates.length === 0 ? {} : { certificates: certificates.map(({ facts }) => facts) };
    return { facts: { state: 'broken', problem: 'unreadable', version, message: err.message, ...whole }, certificates };
  }
}

function certificatesOf(artefact: ResolvedArtefact, entries: Entries, what: string): readonly Certificate[] {
  switch (artefact.kind) {
    case 'signer':
    case 'target':
      return parseCertificates(entry(entries, certificateKey, what), `${what} ${certificateKey}`, othersIn(artefact));
    case 'caBundle':
    case 'composedBundle':
      return parseCertificates(entry(entries, caBundleKey, what), `${what} ${caBundleKey}`);
    case 'copy':
      return entries[caBundleKey] === undefined
        ? []
        : parseCertificates(entries[caBundleKey], `${what} ${caBundleKey}`);
    case 'keyPair':
    case 'opaque':
      return [];
  }
}

/** The CA by which a kubeconfig knows its server. One that is torn counts for nothing. */
function authorityOf({ truth }: ResolvedArtefact, { entries, authorityIsForeign }: Found): Authority {
  const pem = entries[authorityKey];
  if (truth.kind !== 'kubeconfig') return {};
  const foreign = authorityIsForeign === true ? { authorityIsForeign } : {};
  if (pem === undefined) return foreign;
  const cas = wholeCertificates(pem);
  return { authorities: cas.map(({ facts }) => facts.fingerprint), ...foreign };
}

type Authority = Pick<
  ArtefactFacts & { state: 'present' },
  'authorities' | 'authorityIsForeign' | 'othersAuthorityEnds'
>;

/** A renewal keeps whatever other blocks stand in the file of a target that follows its predecessor. */
function othersIn(artefact: ResolvedArtefact): 'skipped' | 'refused' {
  return artefact.kind === 'target' && artefact.template === 'present' ? 'skipped' : 'refused';
}

type Broken = Pick<ArtefactFacts & { state: 'broken' }, 'problem' | 'message'>;

/** Why a pair cannot be used although its certificate parses. Throws MaterialInvalid for a broken key. */
function brokenPair(
  artefact: ResolvedArtefact,
  entries: Entries,
  [certificate]: readonly Certificate[],
  what: string,
): Broken | undefined {
  const mismatched: Broken = {
    problem: 'mismatchedPair',
    message: `the private key in ${what} does not belong to its certificate`,
  };
  if (artefact.kind === 'keyPair') return keyPairMatches(artefact, entries, what) ? undefined : mismatched;
  if ((artefact.kind !== 'signer' && artefact.kind !== 'target') || certificate === undefined) return undefined;
  if (artefact.kind === 'signer' && !certificate.facts.isCa) {
    return { problem: 'unreadable', message: `the certificate in ${what} is no CA certificate` };
  }
  if (artefact.kind === 'signer' && certificate.fields.keyUsage?.certSign === false) {
    return { problem: 'unreadable', message: `the certificate in ${what} may not sign certificates (key usage)` };
  }
  if (entries[privateKeyKey] === undefined) {
    return { problem: 'keyAbsent', message: `${what} has no private key ("${privateKeyKey}")` };
  }
  const key = parsePrivateKey(entry(entries, privateKeyKey, what), `${what} ${privateKeyKey}`);
  return keyMatches(certificate, key) ? undefined : mismatched;
}

function keyPairMatches({ privateKey, publicKey }: KeyPair, entries: Entries, what: string): boolean {
  const key = parsePrivateKey(entry(entries, privateKey, what), `${what} ${privateKey}`);
  return publicKeyMatches(entry(entries, publicKey, what), key, `${what} ${publicKey}`);
}

function entry(entries: Entries, key: string, what: string): Uint8Array {
  const value = entries[key];
  if (value === undefined) throw new RecoveryError('MaterialInvalid', `Cannot use ${what}: it has no entry "${key}"`);
  return value;
}

/** SHA-256 over the entries that are ours, so that a copy can be compared with its original; others' entries do not count. */
function digestOf(entries: Entries): string {
  const hash = createHash('sha256');
  for (const key of [caBundleKey, certificateKey, privateKeyKey]) {
    const value = entries[key];
    if (value !== undefined) hash.update(`${key} ${value.length} `).update(value);
  }
  return hash.digest('hex');
}

/** Adds what only the whole shows: who signed what, and since when a version has been there. */
function relate(seen: ReadonlyMap<string, Look>, artefacts: readonly ResolvedArtefact[], input: GatherInput): Facts {
  const { previous, now } = input;
  const rows = new Map(artefacts.map((row) => [row.name, row]));
  const looks = [...seen.values()].flatMap((look) => ('certificates' in look ? look.certificates : []));
  const authorities = new Map(looks.filter(({ facts }) => facts.isCa).map((ca) => [ca.facts.fingerprint, ca]));
  const facts = new Map<string, ArtefactFacts>();
  for (const [name, look] of seen) {
    if (!('certificates' in look) || look.facts.state !== 'present') {
      const changed = 'found' in look && look.facts.state === 'broken' ? justChanged(look.found, input) : {};
      facts.set(name, { ...look.facts, ...changed });
      continue;
    }
    const row = rows.get(name);
    const [, ...brought] = row !== undefined && othersIn(row) === 'skipped' ? look.certificates : [];
    const certificates = look.certificates.map((certificate, index) => ({
      ...certificate.facts,
      signedBy: [...authorities.values()]
        .filter(
          (authority) =>
            signatureMatches(certificate, authority) ||
            (index === 0 && isVouchedFor(certificate, { brought, authority, now })),
        )
        .map((authority) => authority.facts.fingerprint),
    }));
    const before = previous?.get(name);
    const same = before?.state === 'present' && before.version === look.facts.version ? before.since : undefined;
    const since = previous === undefined ? {} : { since: same ?? now };
    const age = look.found.changedAt === undefined ? since : justChanged(look.found, input);
    const others = row === undefined ? {} : othersAuthorityOf(row, look.found, seen);
    facts.set(name, { ...look.facts, certificates, ...age, ...others });
  }
  return facts;
}

function othersAuthorityOf(
  artefact: ResolvedArtefact,
  { entries }: Found,
  seen: ReadonlyMap<string, Look>,
): Pick<Authority, 'othersAuthorityEnds'> {
  if (artefact.kind !== 'target' || artefact.truth.kind !== 'kubeconfig') return {};
  const issuer = seen.get(artefact.issuer ?? '');
  const live = issuer !== undefined && 'certificates' in issuer ? issuer.certificates[0] : undefined;
  const end = othersEnd(wholeCertificates(entries[authorityKey] ?? Buffer.alloc(0)), live);
  return end === undefined ? {} : { othersAuthorityEnds: end };
}

/**
 * Files say themselves how old they are: what a power loss has left needs no time to settle. A date in the future is that
 * of a clock which was wrong.
 */
function justChanged({ changedAt }: Found, { previous, now }: GatherInput): { readonly since?: Date } {
  return previous === undefined || changedAt === undefined || changedAt > now ? {} : { since: changedAt };
}
