// Composition root: the shared parts of a configuration's modes, and the assembly of each mode. A mode that fails stops
// the process. Modules of one mode are loaded only for it: a repair of files alone has no connection and observes no
// file, and a kubelet waits for it.
import { hostname } from 'node:os';
import { requesterOf } from '../lib/bootstrap-identity.ts';
import type { Config } from '../lib/config/load.ts';
import type { ApproverConfig, ModeConfig, RegenConfig, SyncerConfig } from '../lib/config/mode-settings.ts';
import type { Mode } from '../lib/config/mode-names.ts';
import { Health, keepServingHealth } from '../lib/health.ts';
import { requireOwnLock } from '../lib/host/own-user.ts';
import { RunState } from '../lib/host/state.ts';
import { isFile } from '../lib/inventory/places.ts';
import { readBy } from '../lib/inventory/component-view.ts';
import { Breakers } from '../lib/kube/circuit-breaker.ts';
import { EventRecorder } from '../lib/kube/events.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { createMetrics, noMetrics } from '../lib/metrics.ts';
import { version } from '../lib/program.ts';
import { createProver } from '../lib/proof/prove.ts';
import { observeBoot } from '../lib/regen/stale-leases.ts';
import type { UnmetCondition } from '../lib/regen/unmet.ts';
import { waitAtMost } from '../lib/retry.ts';
import { addressOf, connect, keepConnection, OtherConnections } from '../lib/run/connections.ts';
import { createPodRestarts } from '../lib/run/pod-restarters.ts';
import { runRegenMode } from '../lib/run/regen-steps.ts';
import { clockFactsFor, type Connected, type Runtime } from '../lib/run/runtime.ts';
import { resolveHere } from './read-config.ts';

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
  const { healthProbeBindAddress: address, metrics, modes, once, dryRun } = config;
  const secured = once ? undefined : metrics;
  const runtime: Runtime = {
    ...given,
    config,
    once,
    dryRun,
    signal: AbortSignal.any([given.signal, failed.signal]),
    resolved: await resolveHere(config, given.log, newsOf(config, given)),
    resolveAgain: (log) => resolveHere(config, log),
    health: new Health(),
    metrics: await metricsOf(config, given),
    breakers: new Breakers(given.clock),
    hostName: hostname(),
  };
  const servers = [
    address && (await keepServingHealth({ ...runtime, address })),
    secured?.bindAddress && (await keepServingHealth({ ...runtime, address: secured.bindAddress, tls: secured })),
  ];
  const run = async (mode: ModeConfig): Unmet => {
    const own = { ...runtime, log: runtime.log.with({ mode: mode.mode }) };
    try {
      return await (runners[mode.mode] as (mode: ModeConfig, runtime: Runtime) => Unmet)(mode, own);
    } catch (err) {
      failed.abort(); // the other modes stop in good order before the process exits
      throw err;
    }
  };
  // regen's single pass runs before the other modes: it makes the objects that the syncer reads.
  const isFirst = ({ mode }: ModeConfig): boolean => once && mode === 'regen';
  try {
    const before = await Promise.all(modes.filter((mode) => isFirst(mode)).map(run));
    return [...before, ...(await Promise.all(modes.filter((mode) => !isFirst(mode)).map(run)))].flat();
  } finally {
    failed.abort();
    for (const server of servers) await server?.closed;
  }
}

/** A process that shows them nowhere has none. */
async function metricsOf(
  { healthProbeBindAddress, metrics, modes, once, dryRun }: Config,
  { clock }: Pick<Runtime, 'clock'>,
) {
  const isWritten = modes.some((mode) => mode.mode === 'regen' && mode.metricsFile !== undefined && !dryRun);
  const isServed = healthProbeBindAddress !== undefined || (metrics !== undefined && !once);
  if (!isServed && !isWritten) return noMetrics;
  return createMetrics({ version, clock, modes: modes.map(({ mode }) => mode) });
}

/** Limits repeated warnings of a unit: logged when they begin, and once an hour from then on. */
function newsOf({ modes, once, dryRun }: Config, { isOfUnit, clock }: Pick<Runtime, 'isOfUnit' | 'clock'>) {
  const lockDir = modes.flatMap((mode) => (mode.mode === 'regen' ? [mode.lockDir] : []))[0];
  if (lockDir === undefined || !once || dryRun || isOfUnit !== true) return undefined;
  return (text: string): Promise<boolean> => new RunState(lockDir).isNews('discovery', text, clock.now());
}

/** Longest wait of a stopping mode for the tasks of its connection: reading its files and sending Events. */
const besideMs = 5_000;

/** Runs one mode with its connection, which is kept up to date while the mode runs and closed when it stops. */
async function withApi(connection: KubeConnection, runtime: Runtime, run: (connected: Connected) => Unmet): Unmet {
  const { config, clock, log, hostName } = runtime;
  const ended = new AbortController();
  const signal = AbortSignal.any([runtime.signal, ended.signal]);
  const events = new EventRecorder({ connection, clock, log, instance: config.identity.podName ?? hostName });
  const { metrics } = runtime;
  metrics.queue('events', () => events.waiting);
  const beside = runtime.once ? [] : [keepConnection(connection, { ...runtime, signal }), events.run(signal)];
  try {
    const running = run({ ...runtime, connection, events, signal }).finally(() => ended.abort());
    return (await Promise.all([running, ...beside]))[0];
  } finally {
    ended.abort();
    // A call that hangs in the file system must not keep a failed mode from stopping the process.
    await waitAtMost(besideMs, Promise.allSettled(beside), { clock });
    await connection.close();
  }
}

async function regen(mode: RegenConfig, runtime: Runtime): Unmet {
  const { locations, kubeconfig } = mode;
  const { artefacts } = runtime.resolved;
  const usesApi = kubeconfig !== undefined && artefacts.some(({ location }) => !isFile(location));
  if (locations === 'disk' || !usesApi) return runRegenMode(mode, runtime);
  const connection = await connect(kubeconfig, runtime).catch(async (err: unknown) => {
    // Files are healed first: they need no API.
    if (locations === 'all' && artefacts.some(({ location }) => isFile(location))) {
      await runRegenMode(mode, { ...runtime, once: true });
    }
    throw err;
  });
  return withApi(connection, runtime, (connected) => runRegenMode(mode, connected));
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
      await connected.events.flush();
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

/** Approves requests of kubelets: for client certificates after their expiry, and for serving certificates. */
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
      longestLifeMs: mode.longestLife,
      requesters: mode.requesters.map((one) => requesterOf(one, namespace)),
      clockFacts: clockFactsFor(mode, runtime.builtAt),
      bootedAt: () => (boot().clockStepped ? undefined : boot().bootedAt),
      recheckMs: approverRecheckMs,
    });
    if (!once) return [];
    await connected.events.flush();
    return failed.map((message) => ({ message }));
  });
}

const runners: {
  readonly [M in Mode]: (mode: Extract<ModeConfig, { readonly mode: M }>, runtime: Runtime) => Unmet;
} = { regen, syncer, approver };
