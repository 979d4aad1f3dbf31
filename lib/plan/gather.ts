// Reads every artefact and reports its state: the impure step before plan(). The truth is the bytes of certificate and
// key, not an annotation. A failed read is a fact too ("unavailable"): nothing is concluded from it.
import { notLater } from '../clock.ts';
import { RecoveryError, errorText } from '../errors.ts';
import { certificateKey } from '../inventory/content.ts';
import { holdsBundles } from '../inventory/location-kinds.ts';
import type { Location, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { signatureMatches, verifyChain } from '../pki/verify.ts';
import { earlierPair } from '../store/dated-files.ts';
import { authorityKey, type Found, type Store } from '../store/store.ts';
import { pairOf } from './decision.ts';
import type { ArtefactFacts, Facts } from './facts.ts';
import { FaultKeeper, type Faults } from './faults.ts';
import { withSignerCopies } from './signer-copies.ts';
import { readableBackup } from './gather-signers.ts';
import { withSuccessors } from './successors.ts';
import { withUnknownAuthorities } from './gather-unknown.ts';
import { isExternalPair, memberFacts, othersIn, understand } from './understand.ts';

interface GatherInput {
  readonly resolved: Resolved;
  readonly store: Store;
  readonly now: Date;
  readonly signal: AbortSignal;
  /** Selects the locations to read; all other artefacts are "unavailable". */
  readonly only?: (location: Location) => boolean;
  /** Facts of an earlier pass, which show since when content has been there. */
  readonly previous?: Facts;
  /**
   * The time when everything has been read. Default: `now`. One late answer may take longer than a contradiction takes
   * to be believed: new content is no older than that, so it is always read again.
   */
  readonly readAt?: () => Date;
}

export interface Gathered {
  readonly facts: Facts;
  /** The entries read, for carrying the plan out. Holds keys: never logged. */
  readonly found: ReadonlyMap<string, Found>;
  /** Errors of reads that failed, by artefact. */
  readonly failures: ReadonlyMap<string, RecoveryError>;
  /** Errors thrown while an entry was read: only that entry counts as broken. */
  readonly faults: Faults;
  /** When everything had been read: the time to plan for. */
  readonly readAt: Date;
  /**
   * The newest backup, by artefact, of a target that is made like its predecessor, where the predecessor cannot be read
   * any more.
   */
  readonly backups: ReadonlyMap<string, Found>;
  /** The former certificate, or its successor, by signer whose certificate cannot be used. */
  readonly signerCopies: ReadonlyMap<string, Certificate>;
}

export async function gather(input: GatherInput): Promise<Gathered> {
  const keeper = new FaultKeeper();
  const { artefacts } = input.resolved;
  // The content of a copy of a pair may be another generation, and broken by itself: it is parsed like its original.
  const understood = artefacts.map((one) => (one.kind === 'copy' ? asOriginal(artefacts, one) : one));
  const looks = await Promise.all(understood.map((artefact) => lookAt(artefact, input, keeper)));
  const found = new Map(looks.flatMap(({ artefact, found: there }) => (there ? [[artefact.name, there]] : [])));
  const failures = new Map(looks.flatMap(({ artefact, failure }) => (failure ? [[artefact.name, failure]] : [])));
  const readAt = input.readAt?.() ?? input.now;
  const seenFacts = relate(looks, { previous: input.previous, readAt }, keeper);
  const sources = { ...input, now: readAt, found };
  const { facts: withCopies, agreed } = await withSignerCopies(seenFacts, sources, keeper.keep);
  const judged = await withUnknownAuthorities(withCopies, sources, keeper.keep);
  const { facts: related, newer } = await withSuccessors(judged, sources, keeper.keep);
  const backups = new Map(await backupsOf(related, input, keeper.keep));
  const facts = new Map(related);
  for (const [name, { fact, found: earlier }] of await earlierPairs(related, found, input)) {
    facts.set(name, fact);
    backups.set(name, earlier);
  }
  for (const artefact of artefacts) {
    const { name } = artefact;
    const fact = related.get(name);
    // Neither it nor a backup of it can be parsed; the document of a kubeconfig may still name the server.
    const isUnknown = isTemplateLost(artefact, fact) && !backups.has(name);
    const there = found.get(name);
    const isWithoutDocument =
      artefact.location.kind !== 'kubeconfig' ||
      (there?.problem === undefined ? there === undefined : Object.keys(there.entries).length === 0);
    if (isUnknown && isWithoutDocument) facts.set(name, { ...fact, madeFromNothing: true });
  }
  return {
    facts,
    found,
    failures,
    faults: keeper.faults,
    readAt,
    backups,
    signerCopies: new Map([...agreed, ...newer]),
  };
}

function asOriginal(artefacts: readonly ResolvedArtefact[], copy: ResolvedArtefact): ResolvedArtefact {
  const original = originalOf(artefacts, copy);
  if (original?.kind !== 'external' || holdsBundles(original.location)) return pairOf(artefacts, copy) ?? copy;
  return { ...original, name: copy.name, location: copy.location };
}

interface Look {
  /** A copy in the shape of its original. */
  readonly artefact: ResolvedArtefact;
  readonly facts: ArtefactFacts;
  readonly found?: Found;
  readonly certificates?: readonly Certificate[];
  readonly failure?: RecoveryError;
}

async function lookAt(
  artefact: ResolvedArtefact,
  { store, signal, only }: GatherInput,
  keeper: FaultKeeper,
): Promise<Look> {
  if (only !== undefined && !only(artefact.location)) {
    return { artefact, facts: { state: 'unavailable', message: 'it was not looked at' } };
  }
  let found: Found | undefined;
  try {
    found = await store.read(artefact.location, signal);
  } catch (err) {
    if (!(err instanceof RecoveryError)) keeper.keep(artefact.name, err);
    const failure =
      err instanceof RecoveryError ? err : new RecoveryError('ReadFailed', errorText(err), { cause: err });
    return { artefact, facts: { state: 'unavailable', message: failure.message }, failure };
  }
  if (found === undefined) return { artefact, facts: { state: 'absent' } };
  const there = found;
  return keeper.contain(
    artefact.name,
    () => ({ artefact, found: there, ...understand(artefact, there) }),
    (message) => ({ artefact, found: there, facts: brokenBy(message, there) }),
  );
}

/** Broken facts of an artefact that cannot be parsed: like any other damage it is repaired, or reported. */
const brokenBy = (message: string, { version }: Found): ArtefactFacts => {
  return { state: 'broken', problem: 'unreadable', version, message };
};

interface Read {
  readonly previous: Facts | undefined;
  readonly readAt: Date;
}

/** Adds the facts that need all artefacts: which CA signed which certificate, and since when content has been there. */
function relate(looks: readonly Look[], read: Read, keeper: FaultKeeper): Facts {
  const whole = new Map(looks.map(({ artefact, certificates = [] }) => [artefact.name, certificates]));
  const cas = [...whole.values()].flat().filter(({ facts }) => facts.isCa);
  const authorities = new Map(cas.map((ca) => [ca.facts.fingerprint, ca]));
  return new Map(
    looks.map((look) => {
      const { facts, found } = look;
      const { name } = look.artefact;
      const broken = (message: string): ArtefactFacts => (found === undefined ? facts : brokenBy(message, found));
      return [name, keeper.contain(name, () => relateOne(look, { ...read, whole, authorities }), broken)];
    }),
  );
}

interface Whole extends Read {
  /** Certificates by artefact. */
  readonly whole: ReadonlyMap<string, readonly Certificate[]>;
  readonly authorities: ReadonlyMap<string, Certificate>;
}

function relateOne(look: Look, { previous, readAt, whole, authorities }: Whole): ArtefactFacts {
  const { artefact, facts, found, certificates = [] } = look;
  const before = previous?.get(artefact.name);
  const changed = found && justChanged(found, { previous, readAt });
  if (facts.state === 'absent') return facts;
  if (facts.state === 'broken') return { ...facts, since: changed };
  if (facts.state === 'unavailable') {
    const since = before?.state === 'unavailable' ? before.since : undefined;
    const isUnread = look.failure !== undefined && previous !== undefined;
    return { ...facts, since: isUnread ? notLater(since, readAt) : undefined };
  }
  const [, ...brought] = artefact.kind === 'target' && othersIn(artefact) === 'skipped' ? certificates : [];
  // No rule asks who has signed a CA in an external bundle, and hundreds of one name would all be tried by each other.
  const isBundleOfOthers = artefact.kind === 'external' && !isExternalPair(artefact);
  const signers = isBundleOfOthers ? [] : [...authorities];
  const signedBy = (certificate: Certificate, index: number): readonly string[] =>
    signers.flatMap(([print, authority]) =>
      signatureMatches(certificate, authority) ||
      (index === 0 && isVouchedFor(certificate, { brought, authority, now: readAt }))
        ? [print]
        : [],
    );
  const isSame = before?.state === 'present' && before.digest === facts.digest && found?.isEarlier !== true;
  const same = isSame ? before.since : undefined;
  return {
    ...facts,
    certificates: certificates.map((one, index) => ({
      ...memberFacts(one, certificates),
      signedBy: signedBy(one, index),
    })),
    since: found?.changedAt === undefined ? previous && notLater(same, readAt) : changed,
    othersAuthorityEnds: found && othersAuthorityEnds(artefact, found, whole),
  };
}

function othersAuthorityEnds(artefact: ResolvedArtefact, { entries }: Found, whole: Whole['whole']): Date | undefined {
  if (artefact.kind !== 'target' || artefact.location.kind !== 'kubeconfig') return undefined;
  const [live] = whole.get(artefact.issuer ?? '') ?? [];
  return othersEnd(wholeCertificates(entries[authorityKey]), live);
}

/**
 * Returns the change time of files, which show their own age: files left by a power loss need no time to settle. A date
 * in the future comes from a clock that was wrong.
 */
function justChanged({ changedAt }: Found, { previous, readAt }: Read): Date | undefined {
  return previous === undefined || changedAt === undefined || changedAt > readAt ? undefined : changedAt;
}

interface Vouching {
  /** The intermediate CAs in the leaf's own file. */
  readonly brought: readonly Certificate[];
  readonly authority: Certificate;
  readonly now: Date;
}

/** Whether a reader that trusts `authority` only accepts the leaf with the intermediates of its file. */
function isVouchedFor(leaf: Certificate, { brought, authority, now }: Vouching): boolean {
  return brought.length > 0 && verifyChain({ leaf, intermediates: brought, roots: [authority], at: now }).ok;
}

/**
 * Latest notAfter of the known CAs, where all are foreign. A former CA of this cluster has the name or the key of the
 * signer.
 */
function othersEnd(known: readonly Certificate[], live: Certificate | undefined): Date | undefined {
  if (live === undefined || known.length === 0) return undefined;
  const isOurs = ({ fields: { subject, publicKeyInfo } }: Certificate): boolean =>
    subject.der.equals(live.fields.subject.der) || publicKeyInfo.equals(live.fields.publicKeyInfo);
  if (known.some(isOurs)) return undefined;
  return new Date(Math.max(...known.map(({ facts }) => facts.notAfter.getTime())));
}

/** Newest backup of each target that is made like its predecessor, where the predecessor cannot be read. */
async function backupsOf(
  facts: Facts,
  { resolved, store }: GatherInput,
  onFault: FaultKeeper['keep'],
): Promise<ReadonlyMap<string, Found>> {
  const backups = new Map<string, Found>();
  const lost = resolved.artefacts.filter((artefact) => isTemplateLost(artefact, facts.get(artefact.name)));
  await Promise.all(
    lost.map(async (artefact) => {
      try {
        // A backup is a better template than a declaration, no more: without it the declaration serves.
        const backup = await readableBackup(artefact, store);
        if (backup !== undefined) backups.set(artefact.name, backup);
      } catch (err) {
        onFault(artefact.name, err);
      }
    }),
  );
  return backups;
}

/** Earlier pairs of requested targets whose own file holds no certificate. */
async function earlierPairs(facts: Facts, there: Gathered['found'], { resolved, store, signal }: GatherInput) {
  const pairs = resolved.artefacts.map(async (artefact) => {
    const fact = facts.get(artefact.name);
    if (artefact.kind !== 'target' || artefact.obtainedBy !== 'request') return [];
    if (fact?.state !== 'absent' && fact?.state !== 'broken') return [];
    if (there.get(artefact.name)?.entries[certificateKey] !== undefined) return [];
    const found = await earlierPair(artefact.location, store, signal);
    const known = found && understand(artefact, found).facts;
    if (found === undefined || known?.state !== 'present') return [];
    return [[artefact.name, { fact: { ...known, isLost: true }, found }] as const];
  });
  return (await Promise.all(pairs)).flat();
}

type Unusable = Extract<ArtefactFacts, { readonly state: 'absent' | 'broken' }>;

/** Whether a target is made like its predecessor, and none can be read. */
function isTemplateLost(artefact: ResolvedArtefact, fact: ArtefactFacts | undefined): fact is Unusable {
  if (artefact.kind !== 'target' || artefact.template !== 'present' || artefact.obtainedBy !== undefined) return false;
  if (fact?.state === 'absent') return artefact.presence !== 'optional';
  return fact?.state === 'broken' && fact.problem !== 'foreign' && (fact.certificates ?? []).length === 0;
}
