// `status` of what lies in the API: objects, the files that follow them on this machine, and their use.
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { type AdoptionRecord, readRecord } from '../lib/adopt/record.ts';
import { systemClock } from '../lib/clock.ts';
import type { ToolConfig } from '../lib/config-types.ts';
import { componentsOfPod } from '../lib/install/accounts.ts';
import { adoptionFile } from '../lib/install/layout.ts';
import { readBy } from '../lib/inventory/components.ts';
import type { Resolved, ResolvedArtefact } from '../lib/inventory/model.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { createLog } from '../lib/log.ts';
import { createProver, type Prove } from '../lib/proof/prove.ts';
import { renderStatus, type StatusFormat } from '../lib/status/print.ts';
import type { StatusReport } from '../lib/status/report.ts';
import { runStatus } from '../lib/status/status.ts';
import { createApiStore } from '../lib/store/api.ts';
import { createDiskStore } from '../lib/store/disk.ts';
import { createStore } from '../lib/store/stores.ts';
import { clockFactsOf } from './clock-facts.ts';
import { addressOf, connect, namesInApi, noApi } from './connections.ts';
import { exitOfStatus } from './exit-codes.ts';
import type { Io } from './io.ts';
import { resolveHere } from './resolve-here.ts';

export interface ClusterOptions {
  readonly output: StatusFormat;
  readonly at?: Date;
}

export async function clusterStatus(config: ToolConfig, options: ClusterOptions, io: Io): Promise<number> {
  const log = createLog({ ...config.log, level: 'error', write: (text) => void io.stderr.write(text) });
  const resolved = await resolveHere(config, log);
  const connecting = { config, clock: systemClock, log, signal: io.signal };
  const connection = config.kubeconfig === undefined ? undefined : await connect(config.kubeconfig, connecting);
  try {
    const record = await recordBeside(config.destinationDir);
    const { at } = options;
    const report = await clusterReport(config, { resolved, connection, record, at, signal: io.signal });
    io.stdout.write(renderStatus(report, options.output));
    return exitOfStatus(report);
  } finally {
    await connection?.close();
  }
}

/** Of the adoption that has made this directory of one of its pods. */
async function recordBeside(destinationDir: string | undefined): Promise<AdoptionRecord | undefined> {
  const directory = destinationDir === undefined ? undefined : dirname(dirname(destinationDir));
  return directory !== undefined && existsSync(adoptionFile(directory)) ? readRecord(directory) : undefined;
}

export interface Looking {
  readonly resolved: Resolved;
  readonly connection: KubeConnection | undefined;
  /** Where this machine is adopted: the pods of all components have directories of their own. */
  readonly record: AdoptionRecord | undefined;
  readonly at: Date | undefined;
  readonly signal: AbortSignal;
}

export async function clusterReport(config: ToolConfig, looking: Looking): Promise<StatusReport> {
  const { resolved, connection, at, signal } = looking;
  const { destinationDir, rows, policy, recoveryServerName } = config;
  const directoriesOf = publishersOf(config, looking);
  return runStatus({
    resolved,
    store: createStore({
      api: connection === undefined ? noApi : createApiStore({ connection, fieldManager: 'kube-cert-recovery' }),
      disk: createDiskStore(),
    }),
    ...namesInApi(resolved, connection),
    policy,
    rows,
    clockFacts: await clockFactsOf(config, at),
    clock: systemClock,
    ...(at !== undefined && { at }),
    directoriesOf,
    ...(connection !== undefined &&
      destinationDir !== undefined && {
        prove: proverIn(destinationDir, { config, connection, directoriesOf, signal }),
      }),
    ...(connection !== undefined && { connection }),
    recoveryServerName,
    signal,
  });
}

type DirectoriesOf = (artefact: ResolvedArtefact) => readonly string[];

/** Below which directories of this machine syncers publish an artefact. */
function publishersOf({ destinationDir, components }: ToolConfig, { resolved, record }: Looking): DirectoriesOf {
  const own = destinationDir === undefined ? [] : [{ certs: destinationDir, components }];
  const syncers = record?.additions.map(({ pod, layout: { certs } }) => ({ certs, components: componentsOfPod[pod] }));
  const places = (syncers ?? own).map(({ certs, components: readers }) => {
    const { artefacts } = readers === undefined ? resolved : readBy(resolved, readers);
    const names = artefacts.flatMap(({ name, published }) => (published === undefined ? [] : [name]));
    return { certs, names: new Set(names) };
  });
  return ({ name }) => places.flatMap(({ certs, names }) => (names.has(name) ? [certs] : []));
}

interface Proving {
  readonly config: ToolConfig;
  readonly connection: KubeConnection;
  readonly directoriesOf: DirectoriesOf;
  readonly signal: AbortSignal;
}

/** Each artefact is proven by the files that its readers have. */
function proverIn(usual: string, { config, connection, directoriesOf, signal }: Proving): Prove {
  const apiServer = addressOf(config, connection);
  const common = { connection, apiServer, clock: systemClock, signal, hostName: hostname() };
  return (artefact, ...rest) => {
    const [destinationDir = usual] = directoriesOf(artefact);
    return createProver({ ...common, destinationDir })(artefact, ...rest);
  };
}
