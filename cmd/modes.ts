// The composition root: makes what the modes of a configuration need, each with a connection of its own, and runs them
// until the signal aborts. A mode that fails ends the process.
import { hostname } from 'node:os';
import type { Clock } from '../lib/clock.ts';
import { isClockSynchronised } from '../lib/clock-synchronised.ts';
import type { Config, RegenConfig, SyncerConfig } from '../lib/config-types.ts';
import { createHealth, serveHealth } from '../lib/health.ts';
import type { Health } from '../lib/health.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import { createEventRecorder } from '../lib/kube/events.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { observeBoot } from '../lib/leases/boot.ts';
import { releaseDeadLeases } from '../lib/leases/release.ts';
import type { LeaseName } from '../lib/leases/release.ts';
import type { Log } from '../lib/log.ts';
import { createMetrics, noMetrics } from '../lib/metrics.ts';
import type { Metrics } from '../lib/metrics.ts';
import { createKeyPool } from '../lib/pki/key-pool.ts';
import { createProver } from '../lib/proof/prove.ts';
import type { RegenReport } from '../lib/regen/journal.ts';
import { runRegen } from '../lib/regen/run.ts';
import { createApiStore } from '../lib/store/api.ts';
import { createDiskStore } from '../lib/store/disk.ts';
import { acquireLock } from '../lib/store/lock.ts';
import { createStore, isOnDisk } from '../lib/store/stores.ts';
import { runFileObserver } from '../lib/fileobserver/run.ts';
import { runSyncer } from '../lib/syncer/run.ts';
import { addressOf, connect, keepConnection, noApi } from './connections.ts';
import { version } from './version.ts';

export interface Runtime {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly builtAt: Date;
}

/** What the modes of one process share. */
export interface Shared extends Runtime {
  readonly config: Config;
  readonly resolved: Resolved;
  readonly health: Health;
  readonly metrics: Metrics;
  /** Go's os.Hostname(), which is how kube-controller-manager and kube-scheduler begin their identities. */
  readonly hostName: string;
}

/** What is not as it should be at the end of `--once`, one sentence each; empty when all is well. */
export type Shortfalls = readonly string[];

/** How long the process stays for the leases of the dead, when everything else is done. */
const leasesMs = 5000;

/** Resolves when all modes have stopped: after one pass with `once`, otherwise when the signal aborts. */
export async function runModes(config: Config, runtime: Runtime): Promise<Shortfalls> {
  const failed = new AbortController();
  const signal = AbortSignal.any([runtime.signal, failed.signal]);
  const resolved = resolve(config.inventory, config.environment);
  const health = createHealth();
  const { healthProbeBindAddress: address } = config;
  const modes = config.modes.map(({ mode }) => mode);
  const metrics = address === undefined ? noMetrics : await createMetrics({ version, modes });
  const shared: Shared = { ...runtime, signal, config, resolved, health, metrics, hostName: hostname() };
  const server =
    address === undefined
      ? undefined
      : await serveHealth({ address: { host: address.host ?? '::', port: address.port }, health, metrics, signal });
  try {
    const shortfalls = await Promise.all(
      config.modes.map(async (mode) => {
        try {
          return mode.mode === 'regen' ? await regen(mode, shared) : await syncer(mode, shared);
        } catch (err) {
          failed.abort(); // the other mode stops in good order before the process ends
          throw err;
        }
      }),
    );
    return shortfalls.flat();
  } finally {
    failed.abort();
    await server?.closed;
  }
}

async function regen(mode: RegenConfig, shared: Shared): Promise<Shortfalls> {
  const { config, resolved, clock, signal, hostName, builtAt, health, metrics } = shared;
  const log = shared.log.with({ mode: 'regen' });
  const bootOf = observeBoot(clock);
  const needsApi = mode.rows !== 'disk' && mode.kubeconfig !== undefined;
  const connection = needsApi ? await healFilesUnless(mode, shared) : undefined;
  const events = connection && createEventRecorder({ connection, clock, log, instance: instanceOf(shared) });
  const size = resolved.artefacts.filter(({ kind }) => kind === 'signer' || kind === 'target').length;
  const { keyAlgorithm = { name: 'RSA', bits: 2048 } } = mode;
  const stopped = new AbortController();
  const background = AbortSignal.any([signal, stopped.signal]);
  const besides =
    connection === undefined || config.once ? [] : [keepConnection(connection, { ...shared, signal: background })];
  if (events !== undefined && !config.once) besides.push(events.run(background));
  const leases = leasesOf(resolved);
  let released: Promise<unknown> = Promise.resolve();
  try {
    const report = await runRegen({
      resolved,
      store: createStore({
        api: connection === undefined ? noApi : createApiStore({ connection, fieldManager: 'kube-cert-recovery' }),
        disk: createDiskStore({
          backupDir: mode.backupDir,
          onBackupFailed: ({ code, message }) =>
            log.warn('backup.failed', { path: mode.backupDir, code, err: message }),
        }),
      }),
      policy: mode.policy,
      clockFacts: async () => ({ builtAt, synchronised: await isClockSynchronised(mode.clockSynchronised) }),
      keyPool: createKeyPool({ algorithm: keyAlgorithm, size }),
      ...(mode.keyAlgorithm !== undefined && { keyAlgorithm: mode.keyAlgorithm }),
      rows: connection === undefined ? 'disk' : mode.rows,
      ...(events !== undefined && { events }),
      ...(connection !== undefined &&
        !config.dryRun && {
          onFirstAnswer: () => {
            released = releaseDeadLeases({
              connection,
              leases,
              hostName,
              clock,
              log,
              signal: background,
              boot: bootOf,
            });
          },
        }),
      lockDisk: () => acquireLock({ directory: mode.lockDir, clock }),
      once: config.once,
      dryRun: config.dryRun,
      clock,
      log,
      signal,
      health,
      metrics,
    });
    await events?.flush(AbortSignal.timeout(2000));
    return config.once ? shortfallsOf(report) : [];
  } finally {
    await Promise.race([released, clock.sleep(leasesMs, background)]);
    stopped.abort();
    await Promise.all(besides);
    await connection?.close();
  }
}

function shortfallsOf({ gaveUp, artefacts }: RegenReport): Shortfalls {
  // An attempt that failed and left nothing to do, because its answer was lost or another writer was quicker, is none.
  const rows = artefacts.filter(
    ({ action, outcome }) => action === 'blocked' || (action === 'renew' && outcome === 'failed'),
  );
  return [
    ...(gaveUp === undefined ? [] : [`regen gave up: ${gaveUp}`]),
    ...rows.map(({ artefact, message, err }) => `${artefact}: ${err ?? message}`),
  ];
}

/** The connection of regen. When its kubeconfig is unusable, files are healed first: they need no API. */
async function healFilesUnless(mode: RegenConfig, shared: Shared): Promise<KubeConnection> {
  try {
    return await connect(mode.kubeconfig, shared);
  } catch (err) {
    if (mode.rows === 'all' && shared.resolved.artefacts.some(({ truth }) => isOnDisk(truth))) {
      await regen({ ...mode, rows: 'disk' }, { ...shared, config: { ...shared.config, once: true } });
    }
    throw err;
  }
}

async function syncer(mode: SyncerConfig, shared: Shared): Promise<Shortfalls> {
  const { config, resolved, clock, signal, hostName, health } = shared;
  const log = shared.log.with({ mode: 'syncer' });
  const connection = await connect(mode.kubeconfig, shared);
  const events = createEventRecorder({ connection, clock, log, instance: instanceOf(shared) });
  const { destinationDir } = mode;
  try {
    const { once, dryRun } = config;
    const run = runSyncer({ resolved, connection, destinationDir, once, dryRun, clock, log, health, events, signal });
    if (once || dryRun) {
      const report = await run;
      await events.flush(AbortSignal.timeout(2000));
      return once && !report.ok ? ['not every object is on disk'] : [];
    }
    const prove = createProver({
      connection,
      apiServer: addressOf(config, connection),
      destinationDir,
      clock,
      signal,
      hostName,
    });
    await Promise.all([
      run,
      runFileObserver({ resolved, destinationDir, prove, clock, log, signal, health }),
      keepConnection(connection, shared),
      events.run(signal),
    ]);
    return [];
  } finally {
    await connection.close();
  }
}

/** The leases whose renewal proves something are the leader leases of this control plane. */
function leasesOf({ artefacts }: Resolved): readonly LeaseName[] {
  const named = artefacts.flatMap(({ readers }) =>
    readers.flatMap(({ proof }) => (proof.kind === 'lease' ? [proof] : [])),
  );
  return [...new Map(named.map(({ namespace, name }) => [`${namespace}/${name}`, { namespace, name }])).values()];
}

function instanceOf({ config, hostName }: Shared): string {
  return config.identity.podName ?? hostName;
}
