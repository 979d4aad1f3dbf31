// `status` of the API: objects, the files that follow them on this machine, and their use; on an adopted machine also
// the files of all three pods, and our containers.
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { lookAtPods } from '../lib/adopt/container-state.ts';
import { podLayout } from '../lib/adopt/pod-files.ts';
import { type AdoptionRecord, readRecord } from '../lib/adopt/record.ts';
import { adoptionNotes } from '../lib/adopt/repair.ts';
import { systemClock } from '../lib/clock.ts';
import type { ToolConfig } from '../lib/config/load.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { errorText } from '../lib/errors.ts';
import { podContainers } from '../lib/install/accounts.ts';
import { adoptionFile } from '../lib/install/layout.ts';
import { readBy } from '../lib/inventory/component-view.ts';
import type { Resolved, ResolvedArtefact } from '../lib/inventory/model.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { createProver, type Prove } from '../lib/proof/prove.ts';
import type { AdoptionStatus } from '../lib/status/adoption-report.ts';
import { renderStatus } from '../lib/status/print.ts';
import type { StatusReport } from '../lib/status/report.ts';
import { runStatus } from '../lib/status/status.ts';
import { createDiskStore } from '../lib/store/disk-store.ts';
import { connectFirst, repairCredentials } from '../lib/run/repair-connection.ts';
import { addressOf, connect, type Connecting, connectingOf, namesInApi, storeOf } from '../lib/run/connections.ts';
import { exitOfStatus } from './exit-codes.ts';
import type { Io } from './io.ts';
import { clockFactsAt, configInput, resolveHere } from './read-config.ts';
import type { StatusLook } from './status-again.ts';
import type { SightRequest, StatusRequest } from './status-flags.ts';

export async function clusterLook(config: ToolConfig, options: StatusRequest, io: Io): Promise<StatusLook> {
  const connecting = quietly(config, io);
  const resolved = await resolveHere(config, connecting.log);
  const connection = config.kubeconfig === undefined ? undefined : await connect(config.kubeconfig, connecting);
  try {
    const record = await recordBeside(config.destinationDir);
    const looking = { ...options, resolved, connection, record, signal: io.signal };
    const report = await clusterReport(config, looking);
    const text = renderStatus(report, options);
    const headline = report.problems[0] ?? `The cluster is ${report.class}.`;
    return { status: report, text, exit: exitOfStatus(report), isWell: report.class === 'healthy', headline };
  } finally {
    await connection?.close();
  }
}

/** Logs errors only: the report contains the rest. */
const quietly = (config: ToolConfig, io: Io): Connecting =>
  connectingOf({ ...config, log: { ...config.log, level: 'error' } }, io);

/** Record of the adoption that made this pod directory. */
async function recordBeside(destinationDir: string | undefined): Promise<AdoptionRecord | undefined> {
  const directory = destinationDir === undefined ? undefined : dirname(dirname(destinationDir));
  return directory !== undefined && existsSync(adoptionFile(directory)) ? readRecord(directory) : undefined;
}

interface Looking extends SightRequest {
  readonly resolved: Resolved;
  readonly connection: KubeConnection | undefined;
  /** Record of an adopted machine: there each pod has its own directories. */
  readonly record: AdoptionRecord | undefined;
  readonly signal: AbortSignal;
}

async function clusterReport(config: ToolConfig, looking: Looking): Promise<StatusReport> {
  const { resolved, connection, at } = looking;
  const directoriesOf = publishersOf(config, looking);
  return runStatus({
    ...config,
    ...looking,
    store: storeOf(connection, createDiskStore({ backupDir: config.backupDir, endpoints: resolved.endpoints })),
    namesInApi: namesInApi(resolved, connection),
    clockFacts: await clockFactsAt(at, config),
    clock: systemClock,
    directoriesOf,
    prove: proverOf(config, looking, directoriesOf),
  });
}

type DirectoriesOf = (artefact: ResolvedArtefact) => readonly string[];

/** Directories of this machine below which syncers publish an artefact. */
function publishersOf({ destinationDir, components }: ToolConfig, { resolved, record }: Looking): DirectoriesOf {
  const own = destinationDir === undefined ? [] : [{ certs: destinationDir, components }];
  const syncers = record?.additions.map(({ pod, layout: { certs } }) => ({
    certs,
    components: podContainers[pod].components,
  }));
  const places = (syncers ?? own).map(({ certs, components: readers }) => {
    const { artefacts } = readers === undefined ? resolved : readBy(resolved, readers);
    const names = artefacts.flatMap(({ name, published }) => (published === undefined ? [] : [name]));
    return { certs, names: new Set(names) };
  });
  return ({ name }) => places.flatMap(({ certs, names }) => (names.has(name) ? [certs] : []));
}

/** Proves each artefact with the files of its readers. */
function proverOf(
  config: ToolConfig,
  { connection, resolved, signal }: Looking,
  directoriesOf: DirectoriesOf,
): Prove | undefined {
  const { destinationDir: usual } = config;
  if (connection === undefined || usual === undefined) return undefined;
  const apiServer = addressOf(config, connection);
  const common = { connection, resolved, apiServer, clock: systemClock, signal, hostName: hostname() };
  return (artefact, ...rest) => {
    const [destinationDir = usual] = directoriesOf(artefact);
    return createProver({ ...common, destinationDir })(artefact, ...rest);
  };
}

interface AdoptedMachine {
  /** Configuration of `status` itself. */
  readonly config: ToolConfig;
  readonly options: SightRequest;
  readonly io: Io;
}

/** Undefined `sight` where the machine is not adopted. Never rejects: read errors become problems. */
export async function adoptionStatus(directory: string, machine: AdoptedMachine) {
  const sight = readRecord(directory)
    .then((record) => record && sightOf(directory, record, machine))
    .catch((err: unknown): AdoptionStatus => ({ pods: [], problem: errorText(err) }));
  return { sight: await sight, notes: await adoptionNotes(directory) };
}

async function sightOf(
  directory: string,
  record: AdoptionRecord,
  { config: typed, options, io }: AdoptedMachine,
): Promise<AdoptionStatus> {
  const { configFile } = podLayout(directory, 'kube-apiserver');
  const config = parseToolConfig(configInput({ config: configFile }, io));
  const connecting = quietly(typed, io);
  const resolved = await resolveHere(config, connecting.log);
  const kubeconfigs = typed.kubeconfig === undefined ? repairCredentials(record, directory) : [typed.kubeconfig];
  const tried = await connectFirst(kubeconfigs, record, connecting);
  const connection = 'connection' in tried ? tried.connection : undefined;
  const administrator = 'connection' in tried ? tried.connection : { problem: problemOf(tried.failures) };
  try {
    const look = { record, resolved, pods: administrator, signal: io.signal };
    const reporting = { ...options, resolved, connection, record, signal: io.signal };
    const [pods, objects] = await Promise.all([
      options.at === undefined ? lookAtPods({ ...look, connect: (kubeconfig) => connect(kubeconfig, connecting) }) : [],
      connection === undefined ? undefined : clusterReport(config, reporting),
    ]);
    return { pods, objects, problem: 'problem' in administrator ? administrator.problem : undefined };
  } finally {
    await connection?.close();
  }
}

function problemOf(failures: readonly { readonly kubeconfig: string; readonly err: unknown }[]): string {
  const told = failures.map(({ kubeconfig, err }) => `by "${kubeconfig}": ${errorText(err)}`);
  return `the API cannot be asked ${told.join('; ')}`;
}
