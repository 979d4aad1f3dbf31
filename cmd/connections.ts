// Connections as the modes and commands need them: opened from a kubeconfig, kept up to date when its files change.
import type { CommonConfig } from '../lib/config-types.ts';
import { RecoveryError } from '../lib/errors.ts';
import { observeOwnFiles } from '../lib/fileobserver/own-files.ts';
import { openConnection } from '../lib/kube/connection.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import type { Store } from '../lib/store/store.ts';
import { locationText } from '../lib/store/store.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { version } from './version.ts';

export interface Connecting {
  readonly config: Pick<CommonConfig, 'tlsServerNameOverride'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Throws ConfigInvalid for an unusable kubeconfig. Nothing is opened yet. */
export async function connect(
  kubeconfig: string | undefined,
  { config, clock, log }: Connecting,
): Promise<KubeConnection> {
  if (kubeconfig === undefined) throw new RecoveryError('ConfigInvalid', 'Cannot reach the API: give --kubeconfig');
  return openConnection({
    kubeconfigFile: kubeconfig,
    ...(config.tlsServerNameOverride !== undefined && { tlsServerNameOverride: config.tlsServerNameOverride }),
    userAgent: `kube-cert-recovery/${version}`,
    clock,
    log,
  });
}

/** Reads kubeconfig, token and CA again whenever one of them changes, until the signal aborts. */
export async function keepConnection(connection: KubeConnection, { clock, log, signal }: Connecting): Promise<void> {
  await observeOwnFiles({ files: connection.files, reload: () => connection.reload(), clock, log, signal });
}

/** Where proofs meet the local API server. */
export function addressOf(
  { apiServerAddress }: CommonConfig,
  { server }: KubeConnection,
): { host: string; port: number } {
  const { hostname, port } = new URL(server);
  return { host: apiServerAddress?.host ?? hostname, port: apiServerAddress?.port ?? Number(port || '443') };
}

/** Stands for the API where none is configured: every object is out of reach. */
export const noApi: Store = {
  read: (location) =>
    Promise.reject(
      new RecoveryError(
        'KubeUnavailable',
        `Cannot read ${locationText(location)}: no kubeconfig was given (--kubeconfig)`,
      ),
    ),
  write: (location) =>
    Promise.reject(
      new RecoveryError(
        'KubeUnavailable',
        `Cannot write ${locationText(location)}: no kubeconfig was given (--kubeconfig)`,
      ),
    ),
};
