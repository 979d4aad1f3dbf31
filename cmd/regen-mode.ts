// Mode regen as this program runs it: the stores of its locations, the connection of its own, the lock of this host, the
// stale leader-election leases, and at the end of a single pass the components that must read renewed files again.
import type { RegenConfig } from '../lib/config/config.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import { createEventRecorder } from '../lib/kube/events.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { createOtherClocks } from '../lib/regen/other-clocks.ts';
import { observeBoot, releaseStaleLeases } from '../lib/regen/stale-leases.ts';
import type { LeaseName } from '../lib/kube/leases.ts';
import { createKeyPool } from '../lib/pki/key-pool.ts';
import { runRegen } from '../lib/regen/run.ts';
import { createApiStore } from '../lib/store/api-store.ts';
import { createDiskStore } from '../lib/store/disk-store.ts';
import { lockHost, refuseBesideKubeadm } from '../lib/host/sole-writer.ts';
import { createStore } from '../lib/store/store.ts';
import { clockFactsFor } from './clock-facts.ts';
import { connect, keepConnection, namesInApi, noApi } from './connections.ts';
import { createHostRestarts } from './restarts.ts';
import { noteSummary, readSummaryNote } from './summary-note.ts';
import { instanceOf, type Shared } from './shared.ts';
import { unmetConditions, type UnmetCondition } from './unmet.ts';
import { isFile } from '../lib/inventory/places.ts';

/** How long the process stays for the release of stale leases, when everything else is done. */
const leasesMs = 15_000;

export async function regen(mode: RegenConfig, shared: Shared): Promise<readonly UnmetCondition[]> {
  const { config, resolved, hostName, clock, signal, builtAt, health, metrics } = shared;
  const log = shared.log.with({ mode: 'regen' });
  const connection = needsApi(mode, resolved) ? await healFilesUnless(mode, shared) : undefined;
  const events = connection && createEventRecorder({ connection, clock, log, instance: instanceOf(shared) });
  const size = resolved.artefacts.filter(({ kind }) => kind === 'signer' || kind === 'target').length;
  const { keyAlgorithm = { name: 'RSA', bits: 2048 } } = mode;
  const stopped = new AbortController();
  const background = AbortSignal.any([signal, stopped.signal]);
  const besides =
    connection === undefined || config.once ? [] : [keepConnection(connection, { ...shared, signal: background })];
  if (events !== undefined && !config.once) besides.push(events.run(background));
  const leases = staleLeases(connection, shared, background);
  const disk = createDiskStore({
    backupDir: mode.backupDir,
    owners: resolved.artefacts,
    ...(resolved.endpoints !== undefined && { endpoints: resolved.endpoints }),
    onBackupFailed: ({ code, message }) => log.warn('backup.failed', { path: mode.backupDir, code, err: message }),
    onAttributesLost: ({ code, message }) => log.warn('attributes.lost', { code, err: message }),
  });
  const restarts = createHostRestarts(mode, disk, shared);
  const noted = config.once && !config.dryRun ? await readSummaryNote(mode.lockDir) : undefined;
  try {
    const report = await runRegen({
      resolved,
      store: createStore({
        api: connection === undefined ? noApi : createApiStore({ connection, fieldManager: 'kube-cert-recovery' }),
        disk: restarts.store,
      }),
      ...namesInApi(resolved, connection),
      policy: mode.policy,
      clockFacts: clockFactsFor(mode, builtAt),
      ...(connection !== undefined && {
        otherClocks: createOtherClocks({ connection, leases: leasesOf(resolved), hostName, clock }),
      }),
      keyPool: createKeyPool({ algorithm: keyAlgorithm, size }),
      ...(mode.keyAlgorithm !== undefined && { keyAlgorithm: mode.keyAlgorithm }),
      locations: connection === undefined ? 'disk' : mode.locations,
      ...(events !== undefined && { events }),
      ...(noted !== undefined && { summaryToldAt: noted }),
      ...(connection !== undefined && !config.dryRun && { onFirstAnswer: leases.release }),
      lockDisk: () => lockHost({ lockDir: mode.lockDir, once: config.once, clock, signal }),
      refuseBesideOthers: refuseBesideKubeadm,
      once: config.once,
      dryRun: config.dryRun,
      clock,
      log,
      signal,
      health,
      metrics,
    });
    await events?.flush(AbortSignal.timeout(2000));
    const { summaryToldAt: toldAt } = report;
    if (config.once && !config.dryRun && toldAt !== undefined && toldAt !== noted)
      await noteSummary(mode.lockDir, toldAt);
    const unfinished = mode.restart && !config.dryRun ? await restarts.finish(report) : [];
    return config.once ? [...unmetConditions(report), ...unfinished] : [];
  } finally {
    if (connection !== undefined) await Promise.race([leases.released(), clock.sleep(leasesMs, background)]);
    stopped.abort();
    await Promise.all(besides);
    await connection?.close();
  }
}

function needsApi({ locations, kubeconfig }: RegenConfig, { artefacts }: Resolved): boolean {
  return locations !== 'disk' && kubeconfig !== undefined && artefacts.some(({ location }) => !isFile(location));
}

/** The connection of regen. When its kubeconfig is unusable, files are healed first: they need no API. */
async function healFilesUnless(mode: RegenConfig, shared: Shared): Promise<KubeConnection> {
  try {
    return await connect(mode.kubeconfig, shared);
  } catch (err) {
    if (mode.locations === 'all' && shared.resolved.artefacts.some(({ location }) => isFile(location))) {
      await regen({ ...mode, locations: 'disk' }, { ...shared, config: { ...shared.config, once: true } });
    }
    throw err;
  }
}

interface StaleLeases {
  readonly release: (seen: { readonly wasAway: boolean }) => void;
  readonly released: () => Promise<unknown>;
}

/** Notes the time of the boot at once: a clock that is set later must not move it. */
function staleLeases(
  connection: KubeConnection | undefined,
  { resolved, hostName, clock, log }: Shared,
  signal: AbortSignal,
): StaleLeases {
  const boot = observeBoot(clock);
  const leases = leasesOf(resolved);
  let released: Promise<unknown> = Promise.resolve();
  return {
    release({ wasAway }) {
      if (connection === undefined) return;
      const told = log.with({ mode: 'regen' });
      const mayHaveRenewed = !wasAway;
      released = releaseStaleLeases({ connection, leases, hostName, clock, log: told, signal, boot, mayHaveRenewed });
    },
    released: () => released,
  };
}

/** The leases whose renewal proves something are the leader leases of this control plane. */
function leasesOf({ artefacts }: Resolved): readonly LeaseName[] {
  const named = artefacts.flatMap(({ readers }) =>
    readers.flatMap(({ proof }) => (proof.kind === 'lease' ? [proof] : [])),
  );
  return [...new Map(named.map(({ namespace, name }) => [`${namespace}/${name}`, { namespace, name }])).values()];
}
