// Pairs of this machine go into the Secrets that the administrator names. Nothing is signed. What is there is replaced only
// by what ends later and would be accepted (plan/judge-pair.ts), by the store's compare-and-swap; each line in the log names
// the place it went to.
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

/** Where a pair goes to. */
export interface PairDestination {
  /** In words for the log. */
  readonly text: string;
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
  /** Whether the one with this fingerprint is known to be there, or needless. */
  readonly isDone: (name: string, fingerprint: string) => Promise<boolean>;
  readonly done: (name: string, fingerprint: string) => Promise<void>;
}

/** Never rejects but by an abort: what fails is logged, and the others go on. */
export async function deliverPairs(destinations: ReadonlyMap<string, PairDestination>, moving: Moving): Promise<void> {
  const { log, signal } = moving;
  for (const [name, destination] of destinations) {
    try {
      await deliver(name, destination, moving);
    } catch (err) {
      signal.throwIfAborted();
      const code = err instanceof RecoveryError ? err.code : undefined;
      log.warn('pair.failed', { artefact: name, message: destination.text, err: errorText(err), code });
    }
  }
}

async function deliver(name: string, { text, location, withStore }: PairDestination, moving: Moving): Promise<void> {
  const { resolved, store, clock, log, signal, isDone, done } = moving;
  const target = targetOf(name, resolved);
  if (target === undefined) return; // it does not exist on this machine
  const own = await store.read(target.location, signal);
  const leaf = leafOf(own);
  const now = clock.now();
  if (own === undefined || leaf === undefined || !isWhole(own) || now >= leaf.facts.notAfter) return;
  if (await isDone(name, leaf.facts.fingerprint)) return;
  const authorities = await authoritiesOf(target, moving);
  await withStore(async (there) => {
    const found = await there.read(location, signal);
    if (found === undefined)
      throw new RecoveryError('MaterialInvalid', `Cannot use ${text}: it is absent, and not made here`);
    const present = isWhole(found) ? leafOf(found) : undefined;
    const offer = { target, offered: leaf, present, authorities, now };
    if (!isEnding(present?.facts, now) || offerProblem(offer) !== undefined) return;
    const { [certificateKey]: certificate, [privateKeyKey]: key } = own.entries;
    if (certificate === undefined || key === undefined) return;
    const next = { entries: { [certificateKey]: certificate, [privateKeyKey]: key }, annotations: {} };
    const outcome = await there.write(location, next, { version: found.version }, signal);
    if (outcome === 'conflict') throw new RecoveryError('KubeConflict', `Cannot write ${text}: it has just changed`);
    log.info('pair.delivered', { artefact: name, message: text, notAfter: leaf.facts.notAfter.toISOString() });
  });
  await done(name, leaf.facts.fingerprint);
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

/** The CA of the target, as far as it is on this machine. What cannot be understood counts as absent. */
async function authoritiesOf(
  { issuer }: ResolvedTarget,
  { resolved, store, signal }: Pick<Moving, 'resolved' | 'store' | 'signal'>,
): Promise<readonly Certificate[]> {
  const signer = resolved.artefacts.find(({ name }) => name === issuer);
  if (signer === undefined) return [];
  const found = await store.read(signer.location, signal).catch((err: unknown) => {
    if (isCode(err, 'MaterialInvalid')) return undefined;
    throw err;
  });
  return wholeCertificates(found?.entries[certificateKey] ?? new Uint8Array());
}
