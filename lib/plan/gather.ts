// Reads every artefact and says what is there: the impure step before plan(). Truth is the bytes of certificate and
// key, not an annotation. A read that fails is a fact too ("unavailable"): from it nothing is concluded.
import { createHash } from 'node:crypto';
import { RecoveryError, errorText, isCode } from '../errors.ts';
import type { KeyPair, Location, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { keyMatches, parsePrivateKey, publicKeyMatches } from '../pki/key.ts';
import { signatureMatches } from '../pki/verify.ts';
import { caBundleKey, certificateKey, type Entries, type Found, locationText, privateKeyKey } from '../store/store.ts';
import type { Store } from '../store/store.ts';
import type { ArtefactFacts, Facts } from './facts.ts';

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
}

export async function gather(input: GatherInput): Promise<Gathered> {
  const found = new Map<string, Found>();
  const failures = new Map<string, RecoveryError>();
  const seen = new Map<string, Look>();
  await Promise.all(
    input.resolved.artefacts.map(async (artefact) => {
      const look = await lookAt(artefact, input);
      seen.set(artefact.name, look);
      if ('found' in look) found.set(artefact.name, look.found);
      if ('failure' in look && look.failure !== undefined) failures.set(artefact.name, look.failure);
    }),
  );
  return { facts: relate(seen, input), found, failures };
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
  { entries, version }: Found,
): { facts: ArtefactFacts; certificates: readonly Certificate[] } {
  const what = locationText(artefact.truth);
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
    return { facts: { state: 'present', version, certificates: facts, digest: digestOf(entries) }, certificates };
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
      return parseCertificates(entry(entries, certificateKey, what), `${what} ${certificateKey}`);
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
function relate(seen: ReadonlyMap<string, Look>, { previous, now }: GatherInput): Facts {
  const looks = [...seen.values()].flatMap((look) => ('certificates' in look ? look.certificates : []));
  const authorities = new Map(looks.filter(({ facts }) => facts.isCa).map((ca) => [ca.facts.fingerprint, ca]));
  const facts = new Map<string, ArtefactFacts>();
  for (const [name, look] of seen) {
    if (!('certificates' in look) || look.facts.state !== 'present') {
      facts.set(name, look.facts);
      continue;
    }
    const certificates = look.certificates.map((certificate) => ({
      ...certificate.facts,
      signedBy: [...authorities.values()]
        .filter((authority) => signatureMatches(certificate, authority))
        .map((authority) => authority.facts.fingerprint),
    }));
    const before = previous?.get(name);
    const same = before?.state === 'present' && before.version === look.facts.version ? before.since : undefined;
    const since = previous === undefined ? {} : { since: same ?? now };
    facts.set(name, { ...look.facts, certificates, ...since });
  }
  return facts;
}
