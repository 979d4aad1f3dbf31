// Whether a recovered machine works: its API server serves the certificate that lies on disk, and each identity that was
// renewed is accepted, which only a Lease shows that its holder has renewed since. Each identity asks for itself: that its
// credential may read the Lease proves half of it.
//
// Whose use has not been shown is kept in the lock directory until it is: a pass that finds nothing to renew must not
// report a success that nobody has seen. Asked for again after a minute, then ever rarer, until an hour lies between. It
// does not outlive a boot (/run), and a note of another boot counts for nothing: everything has been started again since.
import { X509Certificate } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import { replaceFile } from '../disk/files.ts';
import { errorText, RecoveryError, systemCode } from '../errors.ts';
import type { Proof, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Log } from '../log.ts';
import { askForProof, type AskOptions } from '../proof/prove.ts';
import type { ProofResult } from '../proof/result.ts';
import { backoffMs } from '../retry.ts';
import { certificateKey, type Store } from '../store/store.ts';
import type { Component } from './decide.ts';

export interface ProvingOptions {
  readonly resolved: Resolved;
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
  readonly name: string;
  readonly since: Date;
  /** Undefined: the API server. */
  readonly component?: Component;
  /** How long it is asked for. Default: a minute. */
  readonly patienceMs?: number;
}

export const servingName = 'kube-apiserver';
const patienceMs = 60_000;
const askAgainMs = 500;

interface NotProven {
  readonly wanted: WantedProof;
  readonly message: string;
}

/** What could not be shown; empty when all works. Never rejects. */
export async function proveUse(wanted: readonly WantedProof[], options: ProvingOptions): Promise<readonly NotProven[]> {
  const { clock, log } = options;
  const began = clock.now().getTime();
  const results = wanted.map(async (one): Promise<readonly NotProven[]> => {
    const until = began + (one.patienceMs ?? patienceMs);
    // A clock that was set back since must not ask for a renewal in the future.
    const since = new Date(Math.min(one.since.getTime(), began));
    const { component } = one;
    const result = await (component === undefined
      ? proveServing(until, options)
      : proveIdentity({ component, since }, until, options));
    if (result === undefined) return [];
    const { state, message } = result;
    const told = { component: component?.name ?? servingName, message };
    if (state !== 'unproven') {
      log.info('proof.given', told);
      return [];
    }
    log.warn('proof.missing', told);
    return [{ wanted: one, message: `${told.component}: ${message}` }];
  });
  return (await Promise.all(results)).flat();
}

/** Resolves when the API server serves what is on disk, or after half a minute. */
export async function waitForApi(options: ProvingOptions): Promise<void> {
  await proveServing(options.clock.now().getTime() + patienceMs / 2, options);
}

/** A handshake needs no credential. Undefined where nothing is known that could be asked for. */
async function proveServing(until: number, options: ProvingOptions): Promise<ProofResult | undefined> {
  const { resolved, apiServer, clock, signal } = options;
  for (const artefact of resolved.artefacts) {
    const proof = artefact.readers.find((reader) => reader.proof.kind === 'served')?.proof;
    if (proof === undefined || artefact.location.kind !== 'pemPair' || apiServer === undefined) continue;
    const question = { artefact, proof, publishedAt: clock.now() };
    return repeat(() => askForProof(question, { apiServer, clock, signal }), until, options);
  }
  return undefined;
}

async function proveIdentity(
  { component, since }: { readonly component: Component; readonly since: Date },
  until: number,
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
    return await repeat(ask, until, options);
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

async function repeat(
  ask: () => Promise<ProofResult>,
  until: number,
  { clock, signal }: ProvingOptions,
): Promise<ProofResult> {
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

interface PendingNotes {
  /** The lock directory. */
  readonly directory: string;
  readonly boot: string;
  readonly onFailed: (err: RecoveryError) => void;
}

/** Of what was proven to nobody before the pass fails until it is, although it is asked for ever rarer. */
const laterPatienceMs = 10_000;

/** What was not proven, one sentence each: by this pass, or by an earlier one that need not be asked again yet. */
export async function proveAll(
  fresh: readonly WantedProof[],
  { components, ...notes }: PendingNotes & { readonly components: readonly Component[] },
  proving: ProvingOptions,
): Promise<readonly string[]> {
  const now = proving.clock.now();
  const before = await loadPending(notes);
  const others = before.filter(({ name }) => !fresh.some((one) => one.name === name));
  const later = others.filter((one) => !isDue(one, now));
  const again = others.flatMap(({ name, since, ...asked }): WantedProof[] => {
    const component = components.find((one) => one.name === name);
    if (!isDue(asked, now) || (component === undefined && name !== servingName)) return [];
    return [{ name, since, ...(component !== undefined && { component }), patienceMs: laterPatienceMs }];
  });
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
  const pending = [...later, ...failed.map(({ wanted: one, message }) => noted(one, message))];
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
}: Pick<PendingNotes, 'directory' | 'boot'>): Promise<readonly PendingProof[]> {
  const text = await readFile(fileIn(directory), 'utf8').catch(() => '');
  try {
    const { boot: noted, unproven } = JSON.parse(text) as { readonly boot?: unknown; readonly unproven?: unknown };
    return noted === boot && Array.isArray(unproven) ? unproven.flatMap(entryOf) : [];
  } catch {
    return [];
  }
}

/** Never rejects: what cannot be noted is told, and this run says it anyway. */
async function savePending(
  unproven: readonly PendingProof[],
  { directory, boot, onFailed }: PendingNotes,
): Promise<void> {
  const path = fileIn(directory);
  try {
    if (unproven.length === 0) return await rm(path, { force: true });
    await replaceFile({ path, content: JSON.stringify({ boot, unproven }), mode: 0o600, what: 'note' });
  } catch (err) {
    const message = `Cannot write note "${path}": ${systemCode(err) ?? errorText(err)}`;
    onFailed(err instanceof RecoveryError ? err : new RecoveryError('WriteFailed', message, { cause: err }));
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
