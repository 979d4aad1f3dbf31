// Delivers pairs of this machine into the Secrets that the administrator configures. Nothing is signed. A present pair
// is replaced only by a pair that expires later and would be accepted (plan/judge-pair.ts), by the store's
// compare-and-swap; each log line names the destination.
import type { Clock } from '../clock.ts';
import { isCode, RecoveryError, errorText } from '../errors.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { Location, Resolved, ResolvedTarget } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import type { Log } from '../log.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { leafOfPair } from '../plan/gather-offers.ts';
import { isEnding, offerProblem } from '../plan/judge-pair.ts';
import type { Found, Store } from '../store/store.ts';

/** Destination of a pair. */
export interface PairDestination {
  /** Its name in the log. */
  readonly text: string;
  readonly location: Location;
  /** Opens the store for the duration of `work`; the signal aborts when the time of this destination is over. */
  readonly withStore: <T>(work: (store: Store, signal: AbortSignal) => Promise<T>) => Promise<T>;
}

interface Delivering {
  readonly resolved: Resolved;
  /** The files of this host. */
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Whether the destination needs no check for this pair now. */
  readonly isDone: (name: string, fingerprint: string) => Promise<boolean>;
  readonly done: (name: string, fingerprint: string, outcome: 'looked' | 'failed') => Promise<void>;
}

/** Delivers all in parallel. Never rejects but by an abort: a failure is logged, and other deliveries go on. */
export async function deliverPairs(
  destinations: ReadonlyMap<string, PairDestination>,
  delivering: Delivering,
): Promise<void> {
  await Promise.all([...destinations].map(([name, destination]) => deliver(name, destination, delivering)));
}

async function deliver(name: string, destination: PairDestination, delivering: Delivering): Promise<void> {
  const { store, clock, log, signal, isDone, done } = delivering;
  const target = targetOf(name, delivering.resolved);
  if (target === undefined) return; // it does not exist on this machine
  const fields = { artefact: name, message: destination.text };
  // The repair has reported pairs that cannot be read or used.
  const own = await store.read(target.location, signal).catch(() => undefined);
  signal.throwIfAborted();
  const leaf = leafOf(own);
  if (own === undefined || leaf === undefined || !isWhole(own) || clock.now() >= leaf.facts.notAfter) return;
  const { fingerprint } = leaf.facts;
  if (await isDone(name, fingerprint)) return;
  try {
    const outcome = await putInto(destination, { own, leaf, target }, delivering);
    if (outcome === 'written') log.info('pair.delivered', { ...fields, notAfter: leaf.facts.notAfter.toISOString() });
    else if (outcome !== undefined) log.warn('pair.failed', { ...fields, err: `Cannot be used there: ${outcome}` });
    await done(name, fingerprint, 'looked');
  } catch (err) {
    signal.throwIfAborted();
    const code = err instanceof RecoveryError ? err.code : undefined;
    log.warn('pair.failed', { ...fields, err: errorText(err), code });
    await done(name, fingerprint, 'failed');
  }
}

interface OwnPair {
  readonly own: Found;
  readonly leaf: Certificate;
  readonly target: ResolvedTarget;
}

/** Why the pair may not be put there, as the end of a sentence; undefined where nothing is to be done. */
async function putInto(
  { text, location, withStore }: PairDestination,
  { own, leaf, target }: OwnPair,
  delivering: Delivering,
): Promise<string | undefined> {
  const { clock } = delivering;
  const authorities = await authoritiesOf(target, delivering);
  return withStore(async (there, signal) => {
    const found = await there.read(location, signal);
    if (found === undefined)
      throw new RecoveryError('MaterialInvalid', `Cannot use ${text}: it is absent, and not made here`);
    const present = isWhole(found) ? leafOf(found) : undefined;
    const now = clock.now();
    // The present pair is kept unless ours expires later, whatever else is wrong with either.
    if (!isEnding(present?.facts, now) || (present && leaf.facts.notAfter <= present.facts.notAfter)) return undefined;
    const problem = offerProblem({ target, offered: leaf, present, authorities, now });
    if (problem !== undefined) return problem;
    const { [certificateKey]: certificate, [privateKeyKey]: key } = own.entries;
    if (certificate === undefined || key === undefined) return undefined;
    const next = { entries: { [certificateKey]: certificate, [privateKeyKey]: key }, annotations: {} };
    const outcome = await there.write(location, next, { version: found.version }, signal);
    if (outcome === 'conflict') throw new RecoveryError('KubeConflict', `Cannot write ${text}: it has just changed`);
    return outcome;
  });
}

function targetOf(name: string, { artefacts }: Resolved): ResolvedTarget | undefined {
  const found = artefacts.find((one) => one.name === name);
  return found?.kind === 'target' && isFile(found.location) ? found : undefined;
}

const leafOf = (found: Found | undefined): Certificate | undefined =>
  wholeCertificates(found?.entries[certificateKey] ?? new Uint8Array())[0];

function isWhole({ entries: { [certificateKey]: certificate, [privateKeyKey]: key } }: Found): boolean {
  if (certificate === undefined || key === undefined) return false;
  try {
    leafOfPair({ certificate, key }, 'pair');
    return true;
  } catch {
    return false;
  }
}

/** The CA of the target, as far as it is on this machine. An unparsable CA counts as absent. */
async function authoritiesOf(
  { issuer }: ResolvedTarget,
  { resolved, store, signal }: Pick<Delivering, 'resolved' | 'store' | 'signal'>,
): Promise<readonly Certificate[]> {
  const signer = resolved.artefacts.find(({ name }) => name === issuer);
  if (signer === undefined) return [];
  const found = await store.read(signer.location, signal).catch((err: unknown) => {
    if (isCode(err, 'MaterialInvalid')) return undefined;
    throw err;
  });
  return wholeCertificates(found?.entries[certificateKey] ?? new Uint8Array());
}
