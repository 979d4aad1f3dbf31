// Whether a recovered machine works: its API server serves the certificate that lies on disk, and each identity that was
// renewed is accepted, which only a Lease shows that its holder has renewed since. Each identity asks for itself: that its
// credential may read the Lease proves half of it.
//
// Whose use has not been shown is kept in the lock directory until it is: a pass that finds nothing to renew must not
// report a success that was not seen. Asked for again after a minute, then at growing distances, of an hour at most. It
// does not outlive a boot (/run), and a note of another boot counts for nothing: everything has been started again since.
import { X509Certificate } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, notLater } from '../clock.ts';
import { attempt } from '../disk/disk.ts';
import { replaceFile } from '../disk/files.ts';
import { errorText, RecoveryError } from '../errors.ts';
import type { Proof, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Log } from '../log.ts';
import { askForProof, type AskOptions } from '../proof/prove.ts';
import type { ProofResult } from '../proof/result.ts';
import { backoffMs } from '../retry.ts';
import { type Store } from '../store/store.ts';
import type { Component } from './decide.ts';
import type { RestartNotes } from './markers.ts';
import { certificateKey } from '../inventory/content.ts';

export interface ProvingOptions {
  readonly resolved: Resolved;
  readonly components: readonly Component[];
  readonly store: Pick<Store, 'read'>;
  /** Of the API server on this machine; undefined where unknown. */
  readonly apiServer: AskOptions['apiServer'];
  /** With a kubeconfig as credential. */
  readonly connect: (kubeconfig: string) => Promise<KubeConnection>;
  /** Go's os.Hostname(). */
  readonly hostName: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Whose use is to be shown: the API server, or a component that has read its files again since then. */
export interface WantedProof {
  /** `servingName`, or a component's. */
  readonly name: string;
  readonly since: Date;
  /** How long it is asked for. Default: a minute. */
  readonly patienceMs?: number;
}

export const servingName = 'kube-apiserver';
const defaultPatienceMs = 60_000;
const askAgainMs = 500;

interface NotProven extends WantedProof {
  readonly message: string;
}

/** What could not be shown; empty when all works. Never rejects. */
export async function proveUse(wanted: readonly WantedProof[], options: ProvingOptions): Promise<readonly NotProven[]> {
  const { components, clock, log } = options;
  const began = clock.now();
  const results = wanted.map(async (one): Promise<readonly NotProven[]> => {
    const { name, patienceMs = defaultPatienceMs } = one;
    // A clock that was set back since must not ask for a renewal in the future.
    const since = notLater(one.since, began);
    const component = components.find((each) => each.name === name);
    const result = await (component === undefined
      ? proveServing(patienceMs, options)
      : proveIdentity(component, since, patienceMs, options));
    if (result === undefined) return [];
    const fields = { component: name, message: result.message };
    if (result.state !== 'unproven') {
      log.info('proof.given', fields);
      return [];
    }
    log.warn('proof.missing', fields);
    return [{ ...one, message: `${name}: ${result.message}` }];
  });
  return (await Promise.all(results)).flat();
}

/** Resolves when the API server serves what is on disk, or after half a minute. */
export async function waitForApi(options: ProvingOptions): Promise<void> {
  await proveServing(defaultPatienceMs / 2, options);
}

/** A handshake needs no credential. Undefined where nothing is known that could be asked for. */
async function proveServing(patienceMs: number, options: ProvingOptions): Promise<ProofResult | undefined> {
  const { resolved, apiServer, clock, signal } = options;
  for (const artefact of resolved.artefacts) {
    const proof = artefact.readers.find((reader) => reader.proof.kind === 'served')?.proof;
    if (proof === undefined || artefact.location.kind !== 'pemPair' || apiServer === undefined) continue;
    const question = { artefact, proof, publishedAt: clock.now() };
    return repeat(() => askForProof(question, { apiServer, clock, signal }), patienceMs, options);
  }
  return undefined;
}

async function proveIdentity(
  component: Component,
  since: Date,
  patienceMs: number,
  options: ProvingOptions,
): Promise<ProofResult> {
  const { clock, signal } = options;
  let connection: KubeConnection | undefined;
  const connect = async (): Promise<KubeConnection> => (connection ??= await options.connect(component.kubeconfig));
  const ask = async (): Promise<ProofResult> => {
    const question = { ...(await identityOf(component, options)), publishedAt: since };
    const isNode = question.proof.namespace === nodeLeases;
    return askForProof(question, { connect, clock, signal, hostName: isNode ? undefined : options.hostName });
  };
  try {
    return await repeat(ask, patienceMs, options);
  } finally {
    await connection?.close();
  }
}

/** Where every kubelet renews a Lease of its own node's name (KEP-589). */
const nodeLeases = 'kube-node-lease';

/** The kubeconfig of a component, and the Lease by which its use is shown. Throws ProofFailed and what the store throws. */
async function identityOf(
  { kubeconfig }: Component,
  { resolved, store, signal }: ProvingOptions,
): Promise<{ readonly artefact: ResolvedArtefact; readonly proof: Proof & { readonly kind: 'lease' } }> {
  const artefact = resolved.artefacts.find(({ location: at }) => at.kind === 'kubeconfig' && at.file === kubeconfig);
  if (artefact !== undefined) {
    const declared = artefact.readers.flatMap(({ proof }) => (proof.kind === 'lease' ? [proof] : []))[0];
    if (declared !== undefined) return { artefact, proof: declared };
    const pem = (await store.read(artefact.location, signal))?.entries[certificateKey];
    const name = pem && /^CN=system:node:(.+)$/m.exec(new X509Certificate(pem).subject)?.[1];
    if (name) return { artefact, proof: { kind: 'lease', namespace: nodeLeases, name } };
  }
  const state = 'its certificate names no node, wanted system:node:NAME';
  throw new RecoveryError('ProofFailed', `Cannot prove use of kubeconfig "${kubeconfig}": ${state}`);
}

/** Asks until it is proven, for so long at most; the last answer. */
async function repeat(
  ask: () => Promise<ProofResult>,
  patienceMs: number,
  { clock, signal }: ProvingOptions,
): Promise<ProofResult> {
  const until = clock.now().getTime() + patienceMs;
  for (;;) {
    const result = await ask().catch((err: unknown): ProofResult => ({
      state: 'unproven',
      message: errorText(err),
      at: clock.now(),
    }));
    if (result.state !== 'unproven' || signal.aborted || clock.now().getTime() >= until) return result;
    await clock.sleep(askAgainMs, signal);
  }
}

interface PendingProof {
  /** kube-apiserver, or a component that was restarted. */
  readonly name: string;
  /** Its processes have read the present files since then. */
  readonly since: Date;
  /** Why it was not proven the last time. */
  readonly message: string;
  readonly askedAt: Date;
  readonly attempts: number;
}

/** Of what an earlier pass could not prove. A pass fails until it is proven, although it is asked for at growing distances. */
const laterPatienceMs = 10_000;

/** What was not proven, one sentence each: by this pass, or by an earlier one that need not be asked again yet. */
export async function proveAll(
  fresh: readonly WantedProof[],
  notes: RestartNotes,
  proving: ProvingOptions,
): Promise<readonly string[]> {
  const now = proving.clock.now();
  const before = await loadPending(notes);
  const others = before.filter(({ name }) => !fresh.some((one) => one.name === name));
  const later = others.filter((one) => !isDue(one, now));
  const isKnown = (name: string): boolean =>
    name === servingName || proving.components.some((component) => component.name === name);
  const again = others
    .filter((one) => isDue(one, now) && isKnown(one.name))
    .map(({ name, since }): WantedProof => ({ name, since, patienceMs: laterPatienceMs }));
  const noted = ({ name, since }: WantedProof, message: string): PendingProof => {
    const attempts = (before.find((one) => one.name === name)?.attempts ?? 0) + 1;
    return { name, since, message, askedAt: now, attempts };
  };
  const wanted = [...fresh, ...again];
  // Before it is asked: a pass that is ended meanwhile has proven nothing.
  await savePending(
    [...later, ...wanted.map((one) => noted(one, `${one.name}: its use has not been proven yet`))],
    notes,
  );
  const failed = await proveUse(wanted, proving);
  const pending = [...later, ...failed.map((one) => noted(one, one.message))];
  await savePending(pending, notes);
  return pending.map(({ message }) => message);
}

const asking = { firstMs: 60_000, longestMs: 3_600_000 };

/** Pure. Without an answer in the future: then the clock was set back. */
export function isDue({ askedAt, attempts }: Pick<PendingProof, 'askedAt' | 'attempts'>, now: Date): boolean {
  const sinceMs = now.getTime() - askedAt.getTime();
  // The timer that asks fires once a minute, not to the millisecond.
  const pauseMs = backoffMs(attempts, asking) - asking.firstMs / 2;
  return sinceMs < 0 || sinceMs >= pauseMs;
}

const fileIn = (directory: string): string => join(directory, 'unproven');

/** None where nothing is to be read, and where it cannot be read: then the next renewal asks again. */
export async function loadPending({
  directory,
  boot,
}: Pick<RestartNotes, 'directory' | 'boot'>): Promise<readonly PendingProof[]> {
  const text = await readFile(fileIn(directory), 'utf8').catch(() => '');
  try {
    const { boot: noted, unproven } = JSON.parse(text) as { readonly boot?: unknown; readonly unproven?: unknown };
    return noted === boot && Array.isArray(unproven) ? unproven.flatMap(entryOf) : [];
  } catch {
    return [];
  }
}

const removing = { code: 'WriteFailed', action: 'remove', remains: '' } as const;

/** Never rejects: this run reports them anyway. */
async function savePending(unproven: readonly PendingProof[], notes: RestartNotes): Promise<void> {
  const { directory, boot, onFailed } = notes;
  const path = fileIn(directory);
  try {
    const content = JSON.stringify({ boot, unproven });
    if (unproven.length > 0) await replaceFile({ path, content, mode: 0o600, what: 'note' });
    else await attempt({ ...removing, what: `note "${path}"`, directory }, () => rm(path, { force: true }));
  } catch (err) {
    onFailed(err as RecoveryError);
  }
}

function entryOf(value: unknown): readonly PendingProof[] {
  const { name, since, message, askedAt, attempts } = (value ?? {}) as Readonly<Record<string, unknown>>;
  const [from, asked] = [dateOf(since), dateOf(askedAt)];
  if (typeof name !== 'string' || typeof message !== 'string' || from === undefined || asked === undefined) return [];
  return [{ name, since: from, message, askedAt: asked, attempts: typeof attempts === 'number' ? attempts : 1 }];
}

function dateOf(value: unknown): Date | undefined {
  const date = typeof value === 'string' ? new Date(value) : undefined;
  return date === undefined || Number.isNaN(date.getTime()) ? undefined : date;
}
