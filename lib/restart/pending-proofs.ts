// Whether a recovered machine works: its API server serves the certificate that lies on disk, its etcd is healthy and
// has a quorum where it was restarted, and each renewed identity is accepted, which only a Lease shows that its holder
// has renewed since. Each identity reads its Lease itself: that its credential may read it proves half.
// Use that has not been proven is kept in the lock directory until it is: a pass that finds nothing to renew must not
// report a success that was not observed. Proofs are tried again after a minute, then at growing distances, of an hour
// at most. The note does not outlive a boot: all processes have been started again since.
import { notLater } from '../clock.ts';
import type { RunState } from '../host/state.ts';
import type { Log } from '../log.ts';
import { type HostProofs, proveEtcdHere, proveIdentityHere, proveServedHere } from '../proof/prove.ts';
import { backoffMs } from '../retry.ts';
import { type Component, ownKubeconfig } from './decide.ts';
import type { RestartNotes } from './markers.ts';

export interface ProvingOptions extends HostProofs {
  readonly components: readonly Component[];
  readonly log: Log;
}

/** Subject of a proof: the API server, or a component that has read its files again since then. */
export interface WantedProof {
  /** `apiServerComponent`, or a component's name. */
  readonly name: string;
  readonly since: Date;
  /** Time for which the proof is tried. Default: a minute. */
  readonly patienceMs?: number;
}

export const apiServerComponent = 'kube-apiserver';
const defaultPatienceMs = 60_000;

interface NotProven extends WantedProof {
  readonly message: string;
}

/** Proofs that failed; empty when all works. Never rejects. */
export async function proveUse(wanted: readonly WantedProof[], options: ProvingOptions): Promise<readonly NotProven[]> {
  const { components, clock, log, signal } = options;
  const began = clock.now();
  const results = wanted.map(async (one): Promise<readonly NotProven[]> => {
    const { name, patienceMs = defaultPatienceMs } = one;
    // After a clock was set back, a renewal in the future must not be waited for.
    const since = notLater(one.since, began);
    const component = components.find((each) => each.name === name);
    const kubeconfig = component && ownKubeconfig(component);
    const withoutIdentity = name === 'etcd' ? proveEtcdHere : proveServedHere;
    const result = await (kubeconfig === undefined
      ? withoutIdentity(patienceMs, options)
      : proveIdentityHere({ kubeconfig, since }, patienceMs, options));
    if (result === undefined) return [];
    const fields = { component: name, message: result.message };
    if (result.state !== 'unproven') {
      log.info('proof.succeeded', fields);
      return [];
    }
    if (!signal.aborted) log.warn('proof.missing', fields); // cut short, it says nothing about the component
    return [{ ...one, message: `${name}: ${result.message}` }];
  });
  return (await Promise.all(results)).flat();
}

/** Resolves when the API server serves the certificate on disk, or after half a minute. */
export async function waitForApi(options: ProvingOptions): Promise<void> {
  await proveServedHere(defaultPatienceMs / 2, options);
}

/** Proof still to be given; `message`: why it failed the last time. */
interface PendingProof extends NotProven {
  readonly askedAt: Date;
  readonly attempts: number;
}

/**
 * Patience for proofs that an earlier pass could not give. A pass fails until they are given, although they are tried
 * at growing distances.
 */
const laterPatienceMs = 10_000;

/** Failed proofs, one sentence each: of this pass, or of an earlier one where the next try is not due yet. */
export async function proveAll(
  fresh: readonly WantedProof[],
  notes: RestartNotes,
  proving: ProvingOptions,
): Promise<readonly string[]> {
  const now = proving.clock.now();
  const before = await loadPending(notes.state);
  const others = before.filter(({ name }) => !fresh.some((one) => one.name === name));
  const later = others.filter((one) => !isDue(one, now));
  const isKnown = (name: string): boolean =>
    name === apiServerComponent || proving.components.some((component) => component.name === name);
  const again = others
    .filter((one) => isDue(one, now) && isKnown(one.name))
    .map(({ name, since }): WantedProof => ({ name, since, patienceMs: laterPatienceMs }));
  const unasked = ({ name, since }: WantedProof): PendingProof => {
    const { askedAt = now, attempts = 0 } = before.find((one) => one.name === name) ?? {};
    return { name, since, message: `${name}: its use has not been proven yet`, askedAt, attempts };
  };
  const asked = (one: PendingProof): PendingProof => ({ ...one, askedAt: now, attempts: one.attempts + 1 });
  const wanted = [...fresh, ...again];
  // Noted before the proof: a pass that is terminated during it has proven nothing.
  await savePending([...later, ...wanted.map((one) => asked(unasked(one)))], notes);
  const failed = (await proveUse(wanted, proving)).map((one) => ({ ...unasked(one), message: one.message }));
  const pending = [...later, ...(proving.signal.aborted ? failed.map(unasked) : failed.map(asked))];
  await savePending(pending, notes);
  return pending.map(({ message }) => message);
}

const asking = { firstMs: 60_000, longestMs: 3_600_000 };

/** Pure. True for a try in the future: then the clock was set back. */
export function isDue({ askedAt, attempts }: Pick<PendingProof, 'askedAt' | 'attempts'>, now: Date): boolean {
  const sinceMs = now.getTime() - askedAt.getTime();
  // The timer of these runs fires once a minute, not to the millisecond.
  const pauseMs = backoffMs(attempts, asking) - asking.firstMs / 2;
  return sinceMs < 0 || sinceMs >= pauseMs;
}

const noteName = 'unproven';

/** Empty where there is no note, or it cannot be read: then the next renewal proves again. */
export const loadPending = async (state: RunState): Promise<readonly PendingProof[]> =>
  (await state.get(noteName, (value) => (Array.isArray(value) ? value.flatMap(entryOf) : undefined)))?.value ?? [];

/** Never rejects: this run reports them anyway. */
function savePending(unproven: readonly PendingProof[], { state, onFailed }: RestartNotes): Promise<void> {
  const saved = unproven.length > 0 ? state.set(noteName, unproven) : state.remove(noteName);
  return saved.catch(onFailed);
}

function entryOf(value: unknown): readonly PendingProof[] {
  const { name, message, since, askedAt, attempts } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof name !== 'string' || typeof message !== 'string') return [];
  if (typeof since !== 'string' || typeof askedAt !== 'string') return [];
  const times = { since: new Date(since), askedAt: new Date(askedAt) };
  const isWhole = Object.values(times).every((time) => !Number.isNaN(time.getTime()));
  return isWhole ? [{ name, message, attempts: typeof attempts === 'number' ? attempts : 1, ...times }] : [];
}
