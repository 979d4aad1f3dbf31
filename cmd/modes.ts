// The composition root: what the modes of a configuration share, and how each of them is put together. A mode that fails
// ends the process. What only one mode needs is loaded for it: a repair of files alone has no connection and observes no
// file, and a kubelet waits for it.
import { hostname } from 'node:os';
import { requesterOf } from '../lib/bootstrap-identity.ts';
import type { Config } from '../lib/config/load.ts';
import type { ApproverConfig, ModeConfig, RegenConfig, SyncerConfig } from '../lib/config/mode-settings.ts';
import { Health, keepServingHealth } from '../lib/health.ts';
import { isNews, readNote, writeNote } from '../lib/host/notes.ts';
import { requireOwnLock } from '../lib/host/own-user.ts';
import { addressesNow, addressGone } from '../lib/host/own-address.ts';
import { bootId } from '../lib/host/proc.ts';
import { lockHost, refuseBesideKubeadm } from '../lib/host/sole-writer.ts';
import { leaderLeases } from '../lib/inventory/leader-leases.ts';
import { fileDirectories, isFile } from '../lib/inventory/places.ts';
import { readBy } from '../lib/inventory/resolve.ts';
import { EventRecorder } from '../lib/kube/events.ts';
import { Breakers } from '../lib/kube/circuit-breaker.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { createMetrics, noMetrics } from '../lib/metrics.ts';
import { createKeyPool } from '../lib/pki/key-pool.ts';
import { createProver } from '../lib/proof/prove.ts';
import { createOtherClocks } from '../lib/regen/other-clocks.ts';
import type { RegenReport } from '../lib/regen/journal.ts';
import type { Sources } from '../lib/plan/gather-offers.ts';
import { version } from '../lib/program.ts';
import { runRegen } from '../lib/regen/run.ts';
import { releaseAfterBoot } from '../lib/regen/boot-leases.ts';
import { observeBoot, releaseStaleLeases } from '../lib/regen/stale-leases.ts';
import { waitAtMost } from '../lib/retry.ts';
import { createDiskStore } from '../lib/store/disk-store.ts';
import { addressOf, connect, keepConnection, namesInApi, OtherConnections, storeOf } from './connections.ts';
import { type UnmetCondition, unmetConditions } from './exit-codes.ts';
import { clockFactsFor, resolveHere } from './read-config.ts';
import { defaultKeyAlgorithm } from '../lib/well-known.ts';
import { askLife, withLifeOfCluster } from './cluster-life.ts';
import { clocksAskedAs, hostIdentity } from './host-identity.ts';
import { createHostRestarts, createPodRestarts, type HostRestarts } from './restarts.ts';
import type { Runtime } from './runtime.ts';

type Unmet = Promise<readonly UnmetCondition[]>;

/** Resolves when all modes have stopped: after one pass with `once`, otherwise when the signal aborts. */
export async function runModes(
  config: Config,
  given: Pick<Runtime, 'clock' | 'log' | 'signal' | 'builtAt' | 'isOfUnit'>,
): Unmet {
  const failed = new AbortController();
  for (const one of config.modes)
    if (one.mode === 'regen' && !config.dryRun && one.locations !== 'api' && one.kubeconfig === undefined)
      await requireOwnLock(one.lockDir);
  const { healthProbeBindAddress: address, modes, once, dryRun } = config;
  const runtime: Runtime = {
    ...given,
    config,
    once,
    dryRun,
    signal: AbortSignal.any([given.signal, failed.signal]),
    resolved: await resolveHere(config, given.log, newsOf(config, given)),
    health: new Health(),
    metrics: address === undefined ? noMetrics : await createMetrics({ version, modes: modes.map(({ mode }) => mode) }),
    breakers: new Breakers(given.clock),
    hostName: hostname(),
  };
  const server = address && (await keepServingHealth({ ...runtime, address }));
  const run = async (mode: ModeConfig): Unmet => {
    const own = { ...runtime, log: runtime.log.with({ mode: mode.mode }) };
    try {
      if (mode.mode === 'regen') return await regen(mode, own);
      return await (mode.mode === 'syncer' ? syncer(mode, own) : approver(mode, own));
    } catch (err) {
      failed.abort(); // the other mode stops in good order before the process ends
      throw err;
    }
  };
  // The others' one pass begins with what regen leaves: it makes the objects that the syncer looks for.
  const isFirst = ({ mode }: ModeConfig): boolean => once && mode === 'regen';
  try {
    const before = await Promise.all(modes.filter((mode) => isFirst(mode)).map(run));
    return [...before, ...(await Promise.all(modes.filter((mode) => !isFirst(mode)).map(run)))].flat();
  } finally {
    failed.abort();
    await server?.closed;
  }
}

/** A unit says what lasts when it begins, and once an hour from then on. */
function newsOf({ modes, once, dryRun }: Config, { isOfUnit, clock }: Pick<Runtime, 'isOfUnit' | 'clock'>) {
  const lockDir = modes.flatMap((mode) => (mode.mode === 'regen' ? [mode.lockDir] : []))[0];
  if (lockDir === undefined || !once || dryRun || isOfUnit !== true) return undefined;
  return (text: string): Promise<boolean> => isNews(lockDir, 'discovery', text, clock.now());
}

/** `signal` aborts when the process is asked to stop, and when the mode has ended. */
interface Connected extends Runtime {
  readonly connection: KubeConnection;
  readonly events: EventRecorder;
}

/** How long the end of a mode waits for its connection's files to be left alone and its Events to end. */
const besideMs = 5_000;

/** The connection of one mode: kept up to date while the process lasts, as its Events are sent, and closed at the end. */
async function withApi(connection: KubeConnection, runtime: Runtime, run: (connected: Connected) => Unmet): Unmet {
  const { config, clock, log, hostName } = runtime;
  const ended = new AbortController();
  const signal = AbortSignal.any([runtime.signal, ended.signal]);
  const events = new EventRecorder({ connection, clock, log, instance: config.identity.podName ?? hostName });
  const beside = runtime.once ? [] : [keepConnection(connection, { ...runtime, signal }), events.run(signal)];
  try {
    const running = run({ ...runtime, connection, events, signal }).finally(() => ended.abort());
    return (await Promise.all([running, ...beside]))[0];
  } finally {
    ended.abort();
    // What hangs in a file system must not keep a failed mode from ending the process.
    await waitAtMost(besideMs, Promise.allSettled(beside), { clock });
    await connection.close();
  }
}

/** At the end of a single pass. */
const sendEvents = (events: EventRecorder): Promise<number> => events.flush(AbortSignal.timeout(2000));

async function regen(mode: RegenConfig, runtime: Runtime): Unmet {
  const { locations, kubeconfig } = mode;
  const { artefacts } = runtime.resolved;
  const usesApi = kubeconfig !== undefined && artefacts.some(({ location }) => !isFile(location));
  if (locations === 'disk' || !usesApi) return renew(mode, runtime);
  const connection = await connect(kubeconfig, runtime).catch(async (err: unknown) => {
    // Files are healed first: they need no API.
    if (locations === 'all' && artefacts.some(({ location }) => isFile(location))) {
      await renew(mode, { ...runtime, once: true });
    }
    throw err;
  });
  return withApi(connection, runtime, (connected) => renew(mode, connected));
}

/** How long the process stays for the release of stale leases, when everything else is done. */
const leasesMs = 15_000;
/** The same of a host whose API server may just be starting. */
const afterBootMs = 90_000;

/** Without a connection the files of this host alone. */
async function renew(mode: RegenConfig, given: Runtime | Connected): Unmet {
  const { clock, log, once, dryRun } = given;
  const { connection, events } = 'connection' in given ? given : {};
  const { backupDir, lockDir, keyAlgorithm } = mode;
  const leases = leaderLeases(given.resolved.artefacts);
  // At once: a clock that is set later must not move the time of the boot.
  const boot = observeBoot(clock);
  let released: Promise<unknown> = Promise.resolve();
  const disk = createDiskStore({
    backupDir,
    owners: given.resolved.artefacts,
    endpoints: given.resolved.endpoints,
    onBackupFailed: ({ code, message }) => log.warn('backup.failed', { path: backupDir, code, err: message }),
    onAttributesLost: ({ code, message }) => log.warn('attributes.lost', { code, err: message }),
  });
  const asHost = mode.restart && once && !dryRun ? hostIdentity(disk, given)?.asHost : undefined;
  const runtime = { ...given, resolved: await withLifeOfCluster(mode, given, asHost) };
  const { resolved } = runtime;
  const restarts = createHostRestarts(mode, disk, runtime);
  const directories = fileDirectories(resolved.artefacts.map(({ location }) => location));
  const isByHand = (once || dryRun) && given.isOfUnit !== true;
  // When a run of the timer has last logged how everything stands: the note keeps that line to one a day and boot.
  const keepsNote = once && !dryRun && !isByHand;
  const noted = keepsNote ? (await readNote(lockDir, 'summary'))?.at : undefined;
  try {
    const hasSources = (once || dryRun) && Object.keys(mode.sources).length > 0;
    const management = hasSources ? await import('./management.ts') : undefined;
    let summaryLoggedAt = noted;
    const pass = (sources: Sources | undefined): Promise<RegenReport> =>
      runRegen({
        ...runtime,
        ...mode,
        sources,
        store: storeOf(connection, restarts.store),
        renewalLease: restarts.renewalLease,
        namesInApi: namesInApi(resolved, connection),
        clockFacts: clockFactsFor(mode, runtime.builtAt),
        otherClocks: connection
          ? createOtherClocks({ ...runtime, connection, leases })
          : clocksAskedAs(asHost, runtime),
        keyPool: createKeyPool({
          algorithm: keyAlgorithm ?? defaultKeyAlgorithm,
          size: resolved.artefacts.filter(({ kind }) => kind === 'signer' || kind === 'target').length,
        }),
        locations: connection === undefined ? 'disk' : mode.locations,
        summaryLoggedAt,
        isByHand,
        onFirstAnswer({ wasAway }) {
          if (connection === undefined || dryRun) return;
          released = releaseStaleLeases({ ...runtime, connection, leases, boot, mayHaveRenewed: !wasAway });
        },
        lockDisk: () => lockHost({ ...runtime, lockDir, directories }),
        refuseBesideOthers: () => refuseBesideKubeadm(directories),
      });
    const places = await management?.sourcesOf(mode);
    let report = await pass(places);
    const wanted = report.artefacts.flatMap(({ artefact, asks }) => (asks === true ? [artefact] : []));
    if (management !== undefined && wanted.length > 0) {
      // What this machine can make itself came first, and its files are free for others while its sources are asked.
      ({ summaryLoggedAt } = report);
      const answers = await management.askSources({ ...mode, dryRun }, wanted, runtime);
      report = await management.afterAsking(report, pass, new Map([...(places ?? []), ...answers]), log);
    }
    if (events !== undefined) await sendEvents(events);
    const { summaryLoggedAt: loggedAt } = report;
    if (keepsNote && loggedAt !== undefined && loggedAt !== noted)
      await writeNote(lockDir, 'summary', loggedAt.toISOString(), loggedAt);
    if (asHost !== undefined) {
      const notes = { directory: lockDir, boot: bootId() };
      released = Promise.all([released, releaseAfterBoot({ ...runtime, asHost, leases, boot, notes })]);
    }
    if (once && !dryRun && !mode.restart) await restarts.observe();
    const unfinished = mode.restart && !dryRun ? await restarts.finish(report) : [];
    // Nothing waits for this but what needs these rights.
    if (asHost !== undefined) await (await import('./host-rights.ts')).keepRights(mode, runtime, asHost);
    if (once && !dryRun) await restarts.publishAuthority();
    await askLife(mode, runtime, asHost);
    if (once && !dryRun && mode.restart) await tellOthers(mode, restarts, runtime);
    const gone = once ? addressGone(resolved.endpoints?.local, addressesNow()) : undefined;
    // As often as how everything stands is logged.
    if (gone !== undefined && (!keepsNote || loggedAt !== noted)) log.warn('address.gone', { message: gone });
    return once ? [...unmetConditions(report), ...unfinished] : [];
  } finally {
    await waitAtMost(asHost === undefined ? leasesMs : afterBootMs, released, given);
  }
}

/** Of a run that no kubelet waits for, when all is done here: other clusters get what is theirs. */
async function tellOthers(mode: RegenConfig, restarts: HostRestarts, runtime: Runtime): Promise<void> {
  if (mode.machine === undefined && Object.keys(mode.deliveries).length === 0) return;
  const { deliverFromHere, keepMachineExpiry } = await import('./management.ts');
  await deliverFromHere(mode, restarts.store, runtime);
  const servedUntil = mode.machine && (await restarts.servedNotAfter());
  if (servedUntil !== undefined) await keepMachineExpiry(mode, servedUntil, runtime);
}

/** Publishes objects as files, observes the files, proves that they are in use. */
async function syncer(mode: SyncerConfig, runtime: Runtime): Unmet {
  const { once, dryRun } = runtime;
  const { kubeconfig, components } = mode;
  const resolved = components === undefined ? runtime.resolved : readBy(runtime.resolved, components);
  const { runSyncer } = await import('../lib/syncer/run.ts');
  const { runFileObserver } = await import('../lib/fileobserver/run.ts');
  return withApi(await connect(kubeconfig, runtime), { ...runtime, resolved }, async (connected) => {
    const run = runSyncer({ ...connected, ...mode });
    if (once || dryRun) {
      const { ok } = await run;
      await sendEvents(connected.events);
      return once && !ok ? [{ message: 'not every object is on disk' }] : [];
    }
    const apiServer = addressOf(runtime.config, connected.connection);
    const prove = createProver({ ...connected, ...mode, apiServer });
    const restarts = createPodRestarts(mode, connected);
    const observing = runFileObserver({ ...connected, ...mode, prove, restart: restarts.restart });
    await Promise.all([run, observing, restarts.run()]);
    return [];
  });
}

const approverRecheckMs = 30_000;

/** Approves requests of kubelets: for a client certificate when theirs has expired, and for their serving certificates. */
async function approver(mode: ApproverConfig, runtime: Runtime): Unmet {
  const { config, clock, hostName, once } = runtime;
  const { kubeconfig, bootstrapNamespace: namespace } = mode;
  const { runApprover } = await import('../lib/approver/run.ts');
  const boot = observeBoot(clock);
  return withApi(await connect(kubeconfig, runtime), runtime, async (connected) => {
    await using others = new OtherConnections(connected);
    const { failed } = await runApprover({
      ...connected,
      ...mode,
      connect: (file) => others.open(file),
      // A kubelet registers its host name in lower case (pkg/util/node/node.go, GetHostname).
      nodeName: config.identity.nodeName ?? hostName.toLowerCase(),
      namespace,
      requesters: mode.requesters.map((one) => requesterOf(one, namespace)),
      clockFacts: clockFactsFor(mode, runtime.builtAt),
      bootedAt: () => (boot().clockStepped ? undefined : boot().bootedAt),
      recheckMs: approverRecheckMs,
    });
    if (!once) return [];
    await sendEvents(connected.events);
    return failed.map((message) => ({ message }));
  });
}
