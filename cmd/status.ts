// `status`: expired certificates, future failures, planned actions; with --at for another day.
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import type { ToolConfig } from '../lib/config/load.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { installedCommand, missingUnits, missingWorkerUnits } from '../lib/install/host-apply.ts';
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
import type { Decision } from '../lib/plan/decision.ts';
import { componentsOf } from '../lib/restart/decide.ts';
import { formerHere } from '../lib/restart/former-files.ts';
import { waitingServices } from '../lib/restart/host-restarts.ts';
import { Markers } from '../lib/restart/markers.ts';
import { renderNode } from '../lib/status/print.ts';
import { runNodeStatus } from '../lib/status/status.ts';
import { trustNotes } from '../lib/status/trust-report.ts';
import { createDiskStore } from '../lib/store/disk-store.ts';
import { verifyMachine } from '../lib/trust/verify-machine.ts';
import { withNotedLife } from '../lib/run/cluster-life.ts';
import { connectingOf, connectorOf, storeOf } from '../lib/run/connections.ts';
import { rightsNote } from '../lib/run/host-rights.ts';
import { exitOfNode } from './exit-codes.ts';
import type { Io } from './io.ts';
import { sameMachine } from '../lib/config/given-flags.ts';
import { type Given, nextCommand } from '../lib/next-command.ts';
import { absoluteConfig, asWorker, clockFactsAt, type CommandLine, configInput, orKubeadm } from './read-config.ts';
import { statusFlags, type StatusRequest } from './status-flags.ts';

type StatusLine = CommandLine & FlagsOf<'status'>;

/** Adds the flags of the installed units: so the report shows the actions and times of this machine's timer. */
function asUnitsDo(line: StatusLine, cwd: string): StatusLine {
  const { config, ...told } = withInstalled(absoluteConfig(line, cwd), { words: installedCommand() });
  // A missing configuration file of the units must not prevent the report.
  const isThere = config !== undefined && (line.config !== undefined || existsSync(config));
  return isThere ? { ...told, config } : told;
}

export async function statusCommand(line: StatusLine, io: Io): Promise<number> {
  const { options, problems } = statusFlags(line);
  const typed = orKubeadm(asUnitsDo(line, io.cwd));
  const config = parseToolConfig({ ...configInput(typed, io), problems });
  const { inventory } = config;
  const isOfMachine = finderOf(inventory)?.looksAt === 'machine';
  if (isOfMachine && inventory.artefacts.every(({ location }) => isFile(location)))
    return machineStatus(config, { ...options, given: sameMachine(typed, io.cwd) }, io);
  const { clusterStatus } = await import('./status-api.ts');
  return clusterStatus(config, options, io);
}

interface NodeRequest extends StatusRequest {
  /** Flags, given or from the units, that select the machine. */
  readonly given: Given;
}

/** A worker holds no CA key: it has another inventory. */
async function machineStatus(config: ToolConfig, options: NodeRequest, io: Io): Promise<number> {
  const { inventory, environment } = config;
  const { kubernetesDir = '', pkiDir = '' } = allDirectories(inventory, environment.directories ?? {});
  const isKubeadm = inventory.discover === 'kubeadm';
  if (isKubeadm && isWorker({ kubernetesDir, pkiDir })) return nodeStatus(asWorker(config), options, io);
  if (isKubeadm && process.getuid?.() === 0) requireNode({ kubernetesDir, pkiDir });
  return nodeStatus(config, options, io);
}

/** Files of this machine: works without an API. Only an adopted machine adds objects and containers. */
async function nodeStatus(config: ToolConfig, options: NodeRequest, io: Io): Promise<number> {
  const { at, given } = options;
  const { stdout, signal } = io;
  const { environment, notes } = await discoverEnvironment(config.inventory, config.environment);
  const resolved = await withNotedLife(resolve(config.inventory, environment), config);
  const directory = adoptionDirectory(config);
  const api = directory === undefined ? undefined : await import('./status-api.ts');
  const adoption = directory === undefined ? undefined : await api?.adoptionStatus(directory, { config, options, io });
  const { repairsBefore } = config.inventory;
  const isWithoutKey = resolved.artefacts.some(isObtained);
  const missing = isWithoutKey ? missingWorkerUnits() : missingUnits(undefined, repairsBefore);
  const starter = starterText(repairsBefore);
  const isRoot = process.getuid?.() === 0;
  const store = storeOf(undefined, createDiskStore({ backupDir: config.backupDir, endpoints: resolved.endpoints }));
  const look = {
    ...connectingOf({ ...config, log: { ...config.log, level: 'error' } }, io),
    resolved,
    hostName: hostname(),
  };
  const rights = isRoot && at === undefined ? await rightsNote(config, store, look) : undefined;
  const status = await runNodeStatus({
    ...options,
    resolved,
    policy: config.policy,
    notes: [
      ...notes,
      ...(isWithoutKey
        ? missing.map(workerNote)
        : unitNotes(missing, { isAdopted: directory !== undefined, starter, given })),
      ...(adoption?.notes ?? []),
      ...(rights === undefined ? [] : [rights]),
      ...trustNotes((await verifyMachine(config, { at: at ?? systemClock.now() })).rows),
    ],
    isArmed: missing.length === 0,
    starter,
    isRoot,
    store,
    clockFacts: await clockFactsAt(at, config),
    clock: systemClock,
    adopted: adoption?.sight,
    sources: at === undefined ? await sourcesToAsk(config, { resolved, store }, io) : undefined,
    ...(at === undefined && (await runningHere(resolved, config))),
    signal,
  });
  stdout.write(renderNode(status, options));
  return exitOfNode(status);
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

/** Notes on missing units: without them nothing carries out the plan. Other init systems cannot be checked. */
function unitNotes(
  missing: readonly string[],
  { isAdopted, starter, given }: { isAdopted: boolean; starter: string; given: Given },
): readonly string[] {
  const { '--preset': preset, ...others } = given;
  const units = nextCommand('init host', preset === 'kubeadm' ? others : given);
  const plain = nextCommand('', { '--mode': 'regen', '--once': true, ...given });
  const what = isAdopted ? "etcd's certificates and the files of kubeadm" : 'this machine';
  return missing.map(
    (state) =>
      `${state}: nothing repairs ${what} by itself until "${units}" has been run, unless another ` +
      `init system runs "${plain}" before each start of ${starter}`,
  );
}

const workerNote = (state: string): string =>
  `${state}: nothing requests a new certificate by itself until the command has been run here that ` +
  `"${nextCommand('init workers')}" prints on a control-plane node`;

/** Directory of the files of `init adopt`, where this machine is adopted. Only the default path is checked. */
function adoptionDirectory({ inventory, environment }: ToolConfig): string | undefined {
  const { kubernetesDir = '/etc/kubernetes' } = allDirectories(inventory, environment.directories ?? {});
  const directory = join(kubernetesDir, basename(defaultDirectory));
  return existsSync(adoptionFile(directory)) ? directory : undefined;
}
