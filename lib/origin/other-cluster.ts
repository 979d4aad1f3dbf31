// Places outside of this cluster that the configuration names: how they are called in messages, and connections to them
// for a limited time.
import { createHash } from 'node:crypto';
import type { ManagementPlace, PairSource } from '../config/management-settings.ts';
import { RecoveryError } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { createApiStore } from '../store/api-store.ts';
import type { Store } from '../store/store.ts';
import type { Connect } from './obtaining.ts';

/** Limit for all requests to one place. The repair itself needs a part of the drop-in's time, too. */
const placeMs = 8000;

export const secretText = ({ namespace, name, kubeconfig }: ManagementPlace): string =>
  `Secret "${namespace}/${name}" (kubeconfig "${kubeconfig}")`;

export function sourceText({ secret, pemPair, command }: PairSource): string {
  if (secret !== undefined) return secretText(secret);
  if (pemPair !== undefined) return `files "${pemPair.certFile}" and "${pemPair.keyFile}"`;
  return `command "${command?.[0] ?? ''}"`;
}

/** Hash of a place in its configured form: a note about another place counts for nothing. */
export const identityOf = (place: object): string => createHash('sha256').update(JSON.stringify(place)).digest('hex');

/** Reports work that is cut off by the time limit as KubeUnavailable. */
export async function inTime<T>(
  signal: AbortSignal,
  place: string,
  work: (limited: AbortSignal) => Promise<T>,
): Promise<T> {
  const over = AbortSignal.timeout(placeMs);
  try {
    return await work(AbortSignal.any([signal, over]));
  } catch (cause) {
    if (!over.aborted || signal.aborted) throw cause;
    throw new RecoveryError('KubeUnavailable', `Cannot use ${place}: no answer in ${placeMs / 1000} s`, { cause });
  }
}

/** Connects to another cluster: the TLS server name configured for this cluster's API server does not apply. */
export async function withPlace<T>(
  { kubeconfig }: ManagementPlace,
  connect: Connect,
  work: (connection: KubeConnection) => Promise<T>,
): Promise<T> {
  const connection = await connect(kubeconfig, { tlsServerNameOverride: undefined });
  try {
    return await work(connection);
  } finally {
    await connection.close();
  }
}

export const withSecretsOf = <T>(
  place: ManagementPlace,
  connect: Connect,
  work: (store: Store) => Promise<T>,
): Promise<T> =>
  withPlace(place, connect, (connection) => work(createApiStore({ connection, fieldManager: 'kube-cert-recovery' })));
