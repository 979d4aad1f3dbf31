// Whether a recovered machine works: its API server serves the certificate that lies on disk, and each identity that was
// renewed is accepted, which only a Lease shows that its holder has renewed since. Each identity asks for itself: that
// its credential may read the Lease proves half of it. Asked again until it is so or a minute is over; never rejects.
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Clock } from '../clock.ts';
import { errorText, RecoveryError } from '../errors.ts';
import type { Location, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Log } from '../log.ts';
import { proveLease } from '../proof/lease.ts';
import type { ProofResult } from '../proof/result.ts';
import { proveServed } from '../proof/served.ts';
import { certificateKey, type Store } from '../store/store.ts';
import type { Component } from './component.ts';
import type { RestartOutcome } from './restart.ts';

export interface ProvingOptions {
  readonly resolved: Resolved;
  readonly store: Pick<Store, 'read'>;
  /** Of the API server on this machine; undefined where unknown. */
  readonly apiServer: { readonly host: string; readonly port: number } | undefined;
  /** With a kubeconfig as credential. */
  readonly connect: (kubeconfig: string) => Promise<KubeConnection>;
  /** Go's os.Hostname(). */
  readonly hostName: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const patienceMs = 60_000;
const askAgainMs = 500;

/** Whose use is to be shown: the API server, or a component that has read its files anew since then. */
export interface Wanted {
  readonly name: string;
  readonly since: Date;
  /** Undefined: the API server. */
  readonly component?: Component;
  /** How long it is asked for. Default: a minute. */
  readonly patienceMs?: number;
}

export const servingName = 'kube-apiserver';

export interface NotProven {
  readonly wanted: Wanted;
  readonly message: string;
}

/** What could not be shown; empty when all works. */
export async function proveUse(wanted: readonly Wanted[], options: ProvingOptions): Promise<readonly NotProven[]> {
  const { clock } = options;
  const began = clock.now().getTime();
  const results = wanted.map(async (one): Promise<readonly NotProven[]> => {
    const until = began + (one.patienceMs ?? patienceMs);
    const { component } = one;
    // A clock that was set back since must not ask for a renewal in the future.
    const since = new Date(Math.min(one.since.getTime(), began));
    const message = await (component === undefined
      ? proveServing(until, options)
      : proveIdentity({ component, since }, until, options));
    return message === undefined ? [] : [{ wanted: one, message }];
  });
  return (await Promise.all(results)).flat();
}

/** Resolves when the API server serves what is on disk, or after half a minute. */
export async function waitForApi(options: ProvingOptions): Promise<void> {
  const ask = servedProof(options);
  if (ask !== undefined) await repeat(ask, options.clock.now().getTime() + patienceMs / 2, options);
}

async function proveServing(until: number, options: ProvingOptions): Promise<string | undefined> {
  const ask = servedProof(options);
  return ask === undefined ? undefined : tell(servingName, await repeat(ask, until, options), options);
}

type Ask = () => Promise<ProofResult>;

function servedProof({ resolved, apiServer, clock, signal }: ProvingOptions): Ask | undefined {
  for (const { location, readers } of resolved.artefacts) {
    const proof = readers.flatMap((reader) => (reader.proof.kind === 'served' ? [reader.proof] : []))[0];
    if (proof === undefined || location.kind !== 'pemPair' || apiServer === undefined) continue;
    return async () => {
      const leaf = new X509Certificate(await readFile(location.certFile));
      const expected = leaf.fingerprint256.replaceAll(':', '').toLowerCase();
      return proveServed({ ...apiServer, serverName: proof.serverName, expected, clock, signal });
    };
  }
  return undefined;
}

async function proveIdentity(
  { component, since }: RestartOutcome,
  until: number,
  options: ProvingOptions,
): Promise<string | undefined> {
  const { connect, clock, signal, hostName } = options;
  let connection: KubeConnection | undefined;
  const ask: Ask = async () => {
    const lease = await leaseOf(component, options);
    connection ??= await connect(component.kubeconfig);
    const isNode = lease.namespace === nodeLeases;
    const now = (): Date => clock.now();
    return proveLease({
      connection,
      ...lease,
      publishedAt: since,
      hostName: isNode ? undefined : hostName,
      now,
      signal,
    });
  };
  try {
    return tell(component.name, await repeat(ask, until, options), options);
  } finally {
    await connection?.close();
  }
}

/** Where every kubelet renews a Lease of its own node's name (KEP-589). */
const nodeLeases = 'kube-node-lease';

async function leaseOf(
  { kubeconfig }: Component,
  { resolved, store, signal }: ProvingOptions,
): Promise<{ namespace: string; name: string }> {
  const own = ({ location }: ResolvedArtefact): boolean =>
    location.kind === 'kubeconfig' && location.file === kubeconfig;
  const artefact = resolved.artefacts.find(own);
  const declared = artefact?.readers.flatMap(({ proof }) => (proof.kind === 'lease' ? [proof] : []))[0];
  if (declared !== undefined) return { namespace: declared.namespace, name: declared.name };
  const node = artefact && (await nodeOf(artefact.location, store, signal));
  if (node === undefined)
    throw new RecoveryError(
      'ProofFailed',
      `Cannot prove use of kubeconfig "${kubeconfig}": its certificate names no node, wanted system:node:NAME`,
    );
  return { namespace: nodeLeases, name: node };
}

async function nodeOf(
  location: Location,
  store: Pick<Store, 'read'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const pem = (await store.read(location, signal))?.entries[certificateKey];
  return pem && /^CN=system:node:(.+)$/m.exec(new X509Certificate(pem).subject)?.[1];
}

async function repeat(ask: Ask, until: number, { clock, signal }: ProvingOptions): Promise<ProofResult> {
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

function tell(component: string, { state, message }: ProofResult, { log }: ProvingOptions): string | undefined {
  if (state !== 'unproven') {
    log.info('proof.given', { component, message });
    return undefined;
  }
  log.warn('proof.missing', { component, message });
  return `${component}: ${message}`;
}
