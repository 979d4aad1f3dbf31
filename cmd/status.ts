// `status`: expired certificates, future failures, planned actions; with --at for another day.
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import type { ToolConfig } from '../lib/config/load.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { installedCommand } from '../lib/install/host-apply.ts';
import { starterText } from '../lib/install/host.ts';
import { withInstalled } from '../lib/install/installed-flags.ts';
import { adoptionFile, defaultDirectory } from '../lib/install/layout.ts';
import { isWorker, requireNode } from '../lib/install/worker-host.ts';
import { discoverEnvironment } from '../lib/inventory/discover/discover.ts';
import { RunState } from '../lib/host/state.ts';
import { finderOf } from '../lib/inventory/finders.ts';
import { allDirectories, isFile, isObtained } from '../lib/inventory/places.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import type { Obtaining } from '../lib/origin/obtaining.ts';
import { cutText } from '../lib/plan/ahead-rules.ts';
import type { Decision } from '../lib/plan/decision.ts';
import { componentsOf } from '../lib/restart/decide.ts';
import { formerHere } from '../lib/restart/former-files.ts';
import { waitingServices } from '../lib/restart/host-restarts.ts';
import { Markers } from '../lib/restart/markers.ts';
import { renderNode, showsColours } from '../lib/status/print.ts';
import { runNodeStatus } from '../lib/status/status.ts';
import { trustNotes } from '../lib/status/trust-report.ts';
import { verdictOf } from '../lib/status/verdict.ts';
import { isWell } from '../lib/status/well.ts';
import { createDiskStore } from '../lib/store/disk-store.ts';
import { verifyMachine } from '../lib/trust/verify-machine.ts';
import { withNotedLife } from '../lib/run/cluster-life.ts';
import { connectingOf, connectorOf, storeOf } from '../lib/run/connections.ts';
import { rightsNote } from '../lib/run/host-rights.ts';
import { exitOfNode } from './exit-codes.ts';
import type { Io } from './io.ts';
import { sameMachine } from '../lib/config/given-flags.ts';
import type { Given } from '../lib/next-command.ts';
import { absoluteConfig, asWorker, clockFactsAt, type CommandLine, configInput, orKubeadm } from './read-config.ts';
import { withoutGoneFile } from './host-flags.ts';
import { armingHere } from './host-units.ts';
import { type StatusLook, showStatus } from './status-again.ts';
import { type SightRequest, statusFlags, type StatusRequest } from './status-flags.ts';

type StatusLine = CommandLine & FlagsOf<'status'>;

/** Adds the flags of the installed units: so the report shows the actions and times of this machine's timer. */
export const asUnitsDo = (line: StatusLine, cwd: string): StatusLine =>
  withInstalled(absoluteConfig(line, cwd), { words: withoutGoneFile(installedCommand()) });

export async function statusCommand(line: StatusLine, io: Io): Promise<number> {
  const { options, again, problems } = statusFlags(line);
  if (options.fleet === true) {
    const named = line.config === undefined ? { preset: 'node-ca', ...line } : line;
    const { fleetStatus } = await import('./status-fleet.ts');
    return fleetStatus(parseToolConfig({ ...configInput(named, io), problems }), options, io);
  }
  const typed = orKubeadm(asUnitsDo(line, io.cwd));
  const config = parseToolConfig({ ...configInput(typed, io), problems });
  if (isOneMachine(config)) {
    const [here, given] = [configHere(config), sameMachine(typed, io.cwd)];
    return showStatus(() => nodeLook(here, { ...options, given }, io), again, io);
  }
  const { clusterLook } = await import('./status-api.ts');
  return showStatus(() => clusterLook(config, options, io), again, io);
}

interface NodeRequest extends SightRequest {
  /** Artefact whose outlook is wanted although nothing is announced. */
  readonly explained?: string;
  /** Directory of the units. Default: the administrator's. */
  readonly unitDirectory?: string | undefined;
  /** Flags, given or from the units, that select the machine. */
  readonly given: Given;
}

/** The configuration for this machine. A worker holds no CA key: it has another inventory. */
export function configHere(config: ToolConfig): ToolConfig {
  const { inventory, environment } = config;
  const { kubernetesDir = '', pkiDir = '' } = allDirectories(inventory, environment.directories ?? {});
  const isKubeadm = inventory.discover === 'kubeadm';
  if (isKubeadm && isWorker({ kubernetesDir, pkiDir })) return asWorker(config);
  if (isKubeadm && process.getuid?.() === 0) requireNode({ kubernetesDir, pkiDir });
  return config;
}

/** Whether all of an inventory are files of one machine. */
export const isOneMachine = ({ inventory }: Pick<ToolConfig, 'inventory'>): boolean =>
  finderOf(inventory)?.looksAt === 'machine' && inventory.artefacts.every(({ location }) => isFile(location));

async function nodeLook(config: ToolConfig, options: NodeRequest & StatusRequest, io: Io): Promise<StatusLook> {
  const { status } = await lookAtNode(config, options, io);
  return {
    status,
    text: renderNode(status, { ...options, isColoured: showsColours(io.stdout.isTTY, io.env) }),
    exit: exitOfNode(status),
    isWell: isWell(status),
    headline: verdictOf(status).lines[0] ?? '',
  };
}

/** Files of this machine: works without an API. Only an adopted machine adds objects and containers. */
export async function lookAtNode(config: ToolConfig, options: NodeRequest, io: Io) {
  const { at, given, unitDirectory } = options;
  const { signal } = io;
  const { environment, notes } = await discoverEnvironment(config.inventory, config.environment);
  const resolved = await withNotedLife(resolve(config.inventory, environment), config);
  const directory = adoptionDirectory(config);
  const api = directory === undefined ? undefined : await import('./status-api.ts');
  const adoption = directory === undefined ? undefined : await api?.adoptionStatus(directory, { config, options, io });
  const { repairsBefore } = config.inventory;
  const isWithoutKey = resolved.artefacts.some(isObtained);
  const starter = starterText(repairsBefore);
  const isRoot = process.getuid?.() === 0;
  const store = storeOf(undefined, createDiskStore({ backupDir: config.backupDir, endpoints: resolved.endpoints }));
  const look = {
    ...connectingOf({ ...config, log: { ...config.log, level: 'error' } }, io),
    resolved,
    hostName: hostname(),
  };
  const rights = isRoot && at === undefined ? await rightsNote(config, store, look) : undefined;
  const clockFacts = await clockFactsAt(at, config);
  const { rows: relations } = await verifyMachine(config, { at: at ?? systemClock.now() });
  const cut = cutText(resolved.artefacts, config.policy);
  const known = {
    given,
    unitDirectory,
    hasRights: rights === undefined,
    hasClock: clockFacts.synchronised || config.policy.ahead === undefined,
  };
  const { isInstalled, ...arming } = await armingHere(config, { isOfWorker: isWithoutKey, ...known }, io);
  const status = await runNodeStatus({
    ...options,
    resolved,
    policy: config.policy,
    notes: [
      ...notes,
      ...(adoption?.notes ?? []),
      ...[rights, cut].flatMap((note) => note ?? []),
      ...trustNotes(relations),
    ],
    ...arming,
    starter,
    isRoot,
    store,
    clockFacts,
    clock: systemClock,
    adopted: adoption?.sight,
    sources: at === undefined ? await sourcesToAsk(config, { resolved, store }, io) : undefined,
    ...(at === undefined && (await runningHere(resolved, config))),
    signal,
  });
  return { status, resolved, relations, isInstalled };
}

/** Logs errors only: the log would repeat the report. */
async function sourcesToAsk(config: ToolConfig, here: Pick<Obtaining, 'resolved' | 'store'>, io: Io) {
  const { sources, lockDir, tlsServerNameOverride } = config;
  if (Object.keys(sources).length === 0) return undefined;
  const { obtain, sourcesOf } = await import('../lib/origin/obtain.ts');
  const connecting = connectingOf({ ...config, log: { ...config.log, level: 'error' } }, io);
  const run: Obtaining = {
    ...connecting,
    ...here,
    sources,
    tokenFile: '',
    tlsServerNameOverride,
    purpose: 'report',
    notes: new RunState(lockDir),
    isUrgent: () => false,
    leftMs: () => 0,
    connect: connectorOf(connecting),
  };
  return { places: await sourcesOf(run), ask: (decisions: readonly Decision[]) => obtain(decisions, run) };
}

/** Processes that run with former files; none where processes and notes are unreadable. */
async function runningHere(resolved: Resolved, { lockDir }: ToolConfig) {
  if (process.getuid?.() !== 0) return {};
  const state = new RunState(lockDir);
  const [components, markers] = [componentsOf(resolved), new Markers({ state, onFailed: () => undefined })];
  return {
    stale: await waitingServices(components, markers),
    former: await formerHere({ components, resolved, state, markers, clock: systemClock }),
  };
}

/** Directory of the files of `init adopt`, where this machine is adopted. Only the default path is checked. */
function adoptionDirectory({ inventory, environment }: ToolConfig): string | undefined {
  const { kubernetesDir = '/etc/kubernetes' } = allDirectories(inventory, environment.directories ?? {});
  const directory = join(kubernetesDir, basename(defaultDirectory));
  return existsSync(adoptionFile(directory)) ? directory : undefined;
}
