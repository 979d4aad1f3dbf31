// Pairs whose CA has its key elsewhere come from where the administrator says they are, and pairs of this machine go into
// the Secrets that he names. Nothing is signed. What is there is replaced only by what ends later and would be accepted
// (judge-pair.ts), by the store's compare-and-swap; each line in the log names the place it came from or went to.
import type { Clock } from '../clock.ts';
import { isCode, RecoveryError, errorText } from '../errors.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { Location, Resolved, ResolvedTarget } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import type { Log } from '../log.ts';
import { type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { pairMatches } from '../pki/key.ts';
import { type Found, locationText, type Seen, type Store } from '../store/store.ts';
import { isEnding, offerProblem } from './judge-pair.ts';

/** The two entries of a pair, in PEM. */
export interface PairBytes {
  readonly certificate: Uint8Array;
  readonly key: Uint8Array;
}

/** Where a pair comes from, or goes to, in words for the log. */
interface Place {
  readonly text: string;
}
export interface PairOrigin extends Place {
  /** Throws a RecoveryError with no word of a key. */
  readonly read: (signal: AbortSignal) => Promise<PairBytes>;
}
export interface PairDestination extends Place {
  readonly location: Location;
  /** Opens the store for as long as `work` lasts. */
  readonly withStore: <T>(work: (store: Store) => Promise<T>) => Promise<T>;
}

interface Moving {
  readonly resolved: Resolved;
  /** Of the files of this host. */
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Names of those that were brought. Never rejects but by an abort: what fails is logged, and the others go on. */
export async function bringPairs(origins: ReadonlyMap<string, PairOrigin>, moving: Moving): Promise<readonly string[]> {
  const brought: string[] = [];
  for (const [name, origin] of origins) {
    const done = await contained(name, origin, moving, () => bring(name, origin, moving));
    if (done === true) brought.push(name);
  }
  return brought;
}

/** Never rejects but by an abort. */
export async function deliverPairs(destinations: ReadonlyMap<string, PairDestination>, moving: Moving): Promise<void> {
  for (const [name, destination] of destinations) {
    await contained(name, destination, moving, () => deliver(name, destination, moving));
  }
}

async function contained<T>(name: string, place: Place, { log, signal }: Moving, work: () => Promise<T>) {
  try {
    return await work();
  } catch (err) {
    signal.throwIfAborted();
    const code = err instanceof RecoveryError ? err.code : undefined;
    log.warn('pair.failed', { artefact: name, message: place.text, err: errorText(err), code });
    return undefined;
  }
}

function targetOf(name: string, { artefacts }: Resolved): ResolvedTarget | undefined {
  const found = artefacts.find((one) => one.name === name);
  return found?.kind === 'target' && isFile(found.location) ? found : undefined;
}

async function bring(name: string, origin: PairOrigin, { resolved, store, clock, log, signal }: Moving) {
  const target = targetOf(name, resolved);
  if (target === undefined) return false; // it does not exist on this machine
  const { location } = target;
  const found = await store.read(location, signal).catch(unlessUnreadable);
  const present = leafOf(found);
  const now = clock.now();
  if (isWhole(found) && !isEnding(present, now)) return false;
  const offered = await origin.read(signal);
  const leaf = checkedPair(offered, origin.text);
  const problem = offerProblem({
    target,
    offered: leaf,
    present: isWhole(found) ? present : undefined,
    authorities: await authoritiesOf(target, { resolved, store, signal }),
    now,
  });
  if (problem !== undefined) {
    const isUrgent = !isWhole(found) || present === undefined || now >= present.facts.notAfter;
    log[isUrgent ? 'warn' : 'debug']('pair.failed', {
      artefact: name,
      message: origin.text,
      err: `not brought: ${problem}`,
    });
    return false;
  }
  const next = { entries: { [certificateKey]: offered.certificate, [privateKeyKey]: offered.key }, annotations: {} };
  if ((await store.write(location, next, seenOf(found), signal)) === 'conflict') return false; // the next run looks again
  const { notAfter } = leaf.facts;
  log.info('pair.brought', {
    artefact: name,
    path: locationText(location),
    message: origin.text,
    notAfter: notAfter.toISOString(),
  });
  return true;
}

async function deliver(name: string, { text, location, withStore }: PairDestination, moving: Moving) {
  const { resolved, store, clock, log, signal } = moving;
  const target = targetOf(name, resolved);
  if (target === undefined) return;
  const own = await store.read(target.location, signal);
  const leaf = leafOf(own);
  const now = clock.now();
  if (own === undefined || leaf === undefined || !isWhole(own) || now >= leaf.facts.notAfter) return;
  const authorities = await authoritiesOf(target, moving);
  await withStore(async (there) => {
    const found = await there.read(location, signal);
    if (found === undefined)
      throw new RecoveryError('MaterialInvalid', `Cannot use ${text}: it is absent, and not made here`);
    const present = leafOf(found);
    if (isWhole(found) && !isEnding(present, now)) return;
    const problem = offerProblem({
      target,
      offered: leaf,
      present: isWhole(found) ? present : undefined,
      authorities,
      now,
    });
    if (problem !== undefined) return;
    const { [certificateKey]: certificate, [privateKeyKey]: key } = own.entries;
    if (certificate === undefined || key === undefined) return;
    const next = { entries: { [certificateKey]: certificate, [privateKeyKey]: key }, annotations: {} };
    if ((await there.write(location, next, seenOf(found), signal)) === 'conflict') return;
    log.info('pair.delivered', { artefact: name, message: text, notAfter: leaf.facts.notAfter.toISOString() });
  });
}

/** What cannot be understood is replaced like what is absent; what cannot be read is not. */
function unlessUnreadable(err: unknown): undefined {
  if (isCode(err, 'MaterialInvalid')) return undefined;
  throw err;
}

const leafOf = (found: Found | undefined): Certificate | undefined =>
  wholeCertificates(found?.entries[certificateKey] ?? new Uint8Array())[0];

const seenOf = (found: Found | undefined): Seen => (found === undefined ? 'absent' : { version: found.version });

function isWhole(found: Found | undefined): boolean {
  const key = found?.entries[privateKeyKey];
  const leaf = leafOf(found);
  if (leaf === undefined || key === undefined) return false;
  try {
    return pairMatches(leaf, key, 'pair');
  } catch {
    return false;
  }
}

/** Throws MaterialInvalid. */
function checkedPair({ certificate, key }: PairBytes, what: string): Certificate {
  const [leaf] = parseCertificates(certificate, what, 'skipped');
  if (leaf === undefined) throw new RecoveryError('MaterialInvalid', `Cannot use ${what}: it has no certificate`);
  if (pairMatches(leaf, key, what)) return leaf;
  throw new RecoveryError('MaterialInvalid', `Cannot use ${what}: its key does not belong to its certificate`);
}

/** The CA of the target, as far as it is on this machine. */
async function authoritiesOf(
  { issuer }: ResolvedTarget,
  { resolved, store, signal }: Pick<Moving, 'resolved' | 'store' | 'signal'>,
): Promise<readonly Certificate[]> {
  const signer = resolved.artefacts.find(({ name }) => name === issuer);
  if (signer === undefined) return [];
  const found = await store.read(signer.location, signal).catch(unlessUnreadable);
  return wholeCertificates(found?.entries[certificateKey] ?? new Uint8Array());
}
