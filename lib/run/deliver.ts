// Delivers pairs of this machine into the Secrets that the administrator configures. Nothing is signed. A present pair
// is replaced only by a pair that expires later and would be accepted (plan/judge-pair.ts), by the store's
// compare-and-swap; each log line names the destination.
import type { PairDelivery } from '../config/management-settings.ts';
import type { RegenConfig } from '../config/mode-settings.ts';
import { errorFields, isCode, RecoveryError } from '../errors.ts';
import { unlessInvalid } from '../pki/pem.ts';
import { RunState } from '../host/state.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { Resolved, ResolvedTarget } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import { identityOf, inTime, secretText, withSecretsOf } from '../origin/other-cluster.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { leafOfPair } from '../plan/gather-offers.ts';
import { isEnding, offerProblem } from '../plan/judge-pair.ts';
import type { Found, Store } from '../store/store.ts';
import { connectorOf } from './connections.ts';
import type { Runtime } from './runtime.ts';

interface Delivering extends Pick<Runtime, 'resolved' | 'clock' | 'log' | 'signal'> {
  /** The files of this host. */
  readonly store: Store;
  readonly state: RunState;
}

/** Delivers all in parallel. Never rejects but by an abort: a failure is logged, and other deliveries go on. */
export async function deliverPairs(
  { deliveries, lockDir }: RegenConfig,
  store: Store,
  runtime: Runtime,
): Promise<void> {
  const delivering = { ...runtime, store, state: new RunState(lockDir) };
  await Promise.all(Object.entries(deliveries).map(([name, delivery]) => deliver(name, delivery, delivering)));
}

/** A timer runs each minute: a Secret whose pair is up to date is read once an hour, and again soon after a failure. */
const pace = { againMs: 3_600_000, afterFailureMs: 600_000 };

async function deliver(name: string, delivery: PairDelivery, delivering: Delivering): Promise<void> {
  const { store, state, clock, log, signal } = delivering;
  const target = targetOf(name, delivering.resolved);
  if (target === undefined) return; // it does not exist on this machine
  // The repair has reported pairs that cannot be read or used.
  const own = await store.read(target.location, signal).catch(() => undefined);
  signal.throwIfAborted();
  const leaf = leafOf(own);
  if (own === undefined || leaf === undefined || !isWhole(own) || clock.now() >= leaf.facts.notAfter) return;
  const what = `${leaf.facts.fingerprint} ${identityOf(delivery)}`;
  const fields = { artefact: name, message: secretText(delivery.secret) };
  await state.whenDue(`delivered-${name}`, what, { ...pace, clock }, async () => {
    try {
      const outcome = await putInto(delivery, { own, leaf, target }, delivering);
      if (outcome === 'written') log.info('pair.delivered', { ...fields, notAfter: leaf.facts.notAfter.toISOString() });
      else if (outcome !== undefined) log.warn('pair.failed', { ...fields, err: `Cannot be used there: ${outcome}` });
      return 'done';
    } catch (err) {
      signal.throwIfAborted();
      log.warn('pair.failed', { ...fields, ...errorFields(err) });
      return 'failed';
    }
  });
}

interface OwnPair {
  readonly own: Found;
  readonly leaf: Certificate;
  readonly target: ResolvedTarget;
}

/** Why the pair may not be put there, as the end of a sentence; undefined where nothing is to be done. */
async function putInto(
  { secret }: PairDelivery,
  { own, leaf, target }: OwnPair,
  delivering: Delivering,
): Promise<string | undefined> {
  const { clock, log, signal } = delivering;
  const text = secretText(secret);
  const location = { kind: 'secret', namespace: secret.namespace, name: secret.name } as const;
  const authorities = await authoritiesOf(target, delivering);
  const put = async (there: Store, limited: AbortSignal): Promise<string | undefined> => {
    const found = await there.read(location, limited);
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
    const outcome = await there.write(location, next, { version: found.version }, limited);
    if (outcome === 'conflict') throw new RecoveryError('KubeConflict', `Cannot write ${text}: it has just changed`);
    return outcome;
  };
  const connect = connectorOf({ clock, log, signal });
  return inTime(signal, text, (limited) => withSecretsOf(secret, connect, (there) => put(there, limited)));
}

function targetOf(name: string, { artefacts }: Resolved): ResolvedTarget | undefined {
  const found = artefacts.find((one) => one.name === name);
  return found?.kind === 'target' && isFile(found.location) ? found : undefined;
}

const leafOf = (found: Found | undefined): Certificate | undefined =>
  wholeCertificates(found?.entries[certificateKey])[0];

function isWhole({ entries: { [certificateKey]: certificate, [privateKeyKey]: key } }: Found): boolean {
  if (certificate === undefined || key === undefined) return false;
  return unlessInvalid(() => leafOfPair({ certificate, key }, 'pair')) !== undefined;
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
  return wholeCertificates(found?.entries[certificateKey]);
}
