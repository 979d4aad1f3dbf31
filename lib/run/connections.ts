// Connections as the modes and commands need them: opened from a kubeconfig, kept up to date when its files change.
// Modules of the client are loaded for the first connection: a repair of files alone has none, and a kubelet waits for
// it.
import type { Config, ToolConfig } from '../config/load.ts';
import { RecoveryError } from '../errors.ts';
import type { Location, Resolved } from '../inventory/model.ts';
import type { NamesInApi } from '../inventory/names-in-api.ts';
import { type Address, serverAddress } from '../address.ts';
import type { Breakers } from '../kube/circuit-breaker.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Credentials } from '../kubeconfig/credentials.ts';
import type { Connect } from '../origin/obtaining.ts';
import { createApiStore } from '../store/api-store.ts';
import { locationText, type Store, createStore } from '../store/store.ts';
import { type Clock, systemClock } from '../clock.ts';
import type { Log } from '../log.ts';
import { version } from '../program.ts';
import { type LogPlace, processLog } from './process-log.ts';
import { waitAtMost } from '../retry.ts';

export interface Connecting {
  /** `once: false`: the process is a daemon, and waits for a kubeconfig that cannot be used yet. */
  readonly config: Partial<Pick<Config, 'tlsServerNameOverride' | 'once'>>;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Replaces the user of the kubeconfig. */
  readonly tokenFile?: string;
  /** Replace the credentials in the kubeconfig. */
  readonly credentials?: Credentials;
  /** Shared by the connections of a process. */
  readonly breakers?: Breakers;
}

/**
 * Sends nothing yet. An unusable kubeconfig is ConfigInvalid for a single run; for daemons it is an API server that is
 * away: the files may be in the middle of being written, or be healed by this process.
 */
export async function connect(
  kubeconfig: string | undefined,
  { config, clock, log, breakers, tokenFile, credentials }: Connecting,
): Promise<KubeConnection> {
  if (kubeconfig === undefined) throw new RecoveryError('ConfigInvalid', 'Cannot reach the API: give --kubeconfig');
  const { openConnection } = await import('../kube/connection.ts');
  return openConnection({
    kubeconfigFile: kubeconfig,
    waitsForKubeconfig: config.once === false,
    tlsServerNameOverride: config.tlsServerNameOverride,
    tokenFile,
    credentials,
    userAgent: `kube-cert-recovery/${version}`,
    clock,
    log,
    breakers,
  });
}

/** Connects a single run to any cluster. */
export const connectorOf =
  (connecting: Omit<Connecting, 'config'>): Connect =>
  (kubeconfig, { tlsServerNameOverride, ...as }) =>
    connect(kubeconfig, { ...connecting, ...as, config: { once: true, tlsServerNameOverride } });

/** The process of a command. */
interface CommandProcess extends LogPlace {
  readonly signal: AbortSignal;
}

/** The connections of a command, which logs to standard error. */
export function connectingOf(
  config: Pick<ToolConfig, 'log' | 'tlsServerNameOverride'>,
  place: CommandProcess,
): Connecting {
  return { config, clock: systemClock, log: processLog(place, config.log), signal: place.signal };
}

/** Closes the connection when the work is done. */
export async function withConnection<T>(
  kubeconfig: string | undefined,
  connecting: Connecting,
  work: (connection: KubeConnection) => Promise<T>,
): Promise<T> {
  const connection = await connect(kubeconfig, connecting);
  try {
    return await work(connection);
  } finally {
    await connection.close();
  }
}

/** Reads kubeconfig, token and CA again whenever any of them changes, until the signal aborts. */
export async function keepConnection(connection: KubeConnection, { clock, log, signal }: Connecting): Promise<void> {
  const { observeOwnFiles } = await import('../fileobserver/own-files.ts');
  await observeOwnFiles({ files: () => connection.files, reload: () => connection.reload(), clock, log, signal });
}

/** Connections that a mode opens next to its own: kept up to date, and closed with it. */
export class OtherConnections implements AsyncDisposable {
  readonly #connecting: Connecting;
  readonly #ended = new AbortController();
  readonly #open: KubeConnection[] = [];
  readonly #kept: Promise<void>[] = [];

  constructor(connecting: Connecting) {
    // A configured TLS server name is the name of this cluster's API server only.
    const { config, clock, log, signal } = connecting;
    const { once = true } = config;
    this.#connecting = { config: { once }, clock, log, signal: AbortSignal.any([signal, this.#ended.signal]) };
  }

  async open(kubeconfig: string): Promise<KubeConnection> {
    const connection = await connect(kubeconfig, this.#connecting);
    this.#open.push(connection);
    if (this.#connecting.config.once !== true) this.#kept.push(keepConnection(connection, this.#connecting));
    return connection;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort();
    await waitAtMost(5000, Promise.allSettled(this.#kept), this.#connecting);
    for (const connection of this.#open) await connection.close();
  }
}

/** How to read the names that the inventory takes from the API; undefined where it takes none. */
export function namesInApi(
  { asks }: Pick<Resolved, 'asks'>,
  connection: KubeConnection | undefined,
): ((signal: AbortSignal) => Promise<NamesInApi>) | undefined {
  if (asks === undefined || connection === undefined) return undefined;
  return async (signal) => {
    const { readNamesInApi } = await import('../inventory/discover/openshift.ts');
    return readNamesInApi(connection, signal);
  };
}

/**
 * Address of the local API server for proofs. Resolved when a proof needs it: kubeconfigs change, or are written late.
 */
export function addressOf(
  { apiServerAddress }: Partial<Pick<Config, 'apiServerAddress'>>,
  connection: Pick<KubeConnection, 'server'>,
): Address {
  const url = (): URL => {
    const found = URL.parse(connection.server);
    if (found !== null) return found;
    throw new RecoveryError('ProofFailed', `Cannot prove use: the address of the API server is ${connection.server}`);
  };
  if (apiServerAddress !== undefined) return apiServerAddress;
  return {
    get host() {
      return serverAddress(url()).host;
    },
    get port() {
      return serverAddress(url()).port;
    },
  };
}

/** Store in which every object is out of reach without a connection. */
export function storeOf(connection: KubeConnection | undefined, disk: Store): Store {
  const api = connection && createApiStore({ connection, fieldManager: 'kube-cert-recovery' });
  return createStore({ api: api ?? noApi, disk });
}

const noApi: Store = {
  read: (location) => outOfReach('read', location),
  write: (location) => outOfReach('write', location),
};

function outOfReach(verb: string, location: Location): Promise<never> {
  const message = `Cannot ${verb} ${locationText(location)}: no kubeconfig was given (--kubeconfig)`;
  return Promise.reject(new RecoveryError('KubeUnavailable', message));
}
