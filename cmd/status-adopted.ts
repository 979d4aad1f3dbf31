// What `status` adds on an adopted machine: its objects in the API, the files of all three pods, and our containers.
import { lookAtPods } from '../lib/adopt/container-state.ts';
import { podLayout } from '../lib/adopt/pod-files.ts';
import { type AdoptionRecord, readRecord } from '../lib/adopt/record.ts';
import { systemClock } from '../lib/clock.ts';
import type { ToolConfig } from '../lib/config-types.ts';
import { parseToolConfig } from '../lib/config.ts';
import { errorText } from '../lib/errors.ts';
import { createLog } from '../lib/log.ts';
import type { AdoptedSight } from '../lib/status/node-report.ts';
import { connectFirst, repairCredentials } from './adopt-repair.ts';
import { connect } from './connections.ts';
import type { Io } from './io.ts';
import { configInput } from './read-config.ts';
import { resolveHere } from './resolve-here.ts';
import { clusterReport } from './status-cluster.ts';

export interface AdoptedMachine {
  /** Of `status` itself. */
  readonly config: ToolConfig;
  readonly at: Date | undefined;
  readonly io: Io;
}

/** Never rejects: what cannot be looked at is said as such. Undefined: the machine is not adopted. */
export async function adoptedSight(directory: string, machine: AdoptedMachine): Promise<AdoptedSight | undefined> {
  try {
    const record = await readRecord(directory);
    return record === undefined ? undefined : await sightOf(directory, record, machine);
  } catch (err) {
    return { pods: [], problem: errorText(err) };
  }
}

async function sightOf(
  directory: string,
  record: AdoptionRecord,
  { config: typed, at, io }: AdoptedMachine,
): Promise<AdoptedSight> {
  const { configFile } = podLayout(directory, 'kube-apiserver');
  const config = parseToolConfig(configInput({ config: configFile }, io));
  const log = createLog({ ...typed.log, level: 'error', write: (text) => void io.stderr.write(text) });
  const connecting = { config: typed, clock: systemClock, log, signal: io.signal };
  const resolved = await resolveHere(config, log);
  const kubeconfigs = typed.kubeconfig === undefined ? repairCredentials(record, directory) : [typed.kubeconfig];
  const tried = await connectFirst(kubeconfigs, record, connecting);
  const connection = 'connection' in tried ? tried.connection : undefined;
  const administrator = 'connection' in tried ? tried.connection : { problem: problemOf(tried.failures) };
  try {
    const look = { record, resolved, pods: administrator, clock: systemClock, signal: io.signal };
    const reporting = { resolved, connection, record, at, signal: io.signal };
    const [pods, objects] = await Promise.all([
      at === undefined ? lookAtPods({ ...look, connect: (kubeconfig) => connect(kubeconfig, connecting) }) : [],
      connection === undefined ? undefined : clusterReport(config, reporting),
    ]);
    return {
      pods,
      ...(objects !== undefined && { objects }),
      ...('problem' in administrator && { problem: administrator.problem }),
    };
  } finally {
    await connection?.close();
  }
}

function problemOf(failures: readonly { readonly kubeconfig: string; readonly err: unknown }[]): string {
  const told = failures.map(({ kubeconfig, err }) => `by "${kubeconfig}": ${errorText(err)}`);
  return `the API cannot be asked ${told.join('; ')}`;
}
