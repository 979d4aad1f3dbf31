// What `status` adds on an adopted machine: its objects in the API, the files of all three pods, and our containers.
import { join } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import { parseToolConfig } from '../lib/config.ts';
import type { ToolConfig } from '../lib/config-types.ts';
import { errorText } from '../lib/errors.ts';
import { type AdoptionRecord, readRecord } from '../lib/install/adopt-record.ts';
import { lookAtPods } from '../lib/install/adopted-state.ts';
import { kubeconfigFile } from '../lib/install/layout.ts';
import { podLayout } from '../lib/install/pod-files.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { createLog } from '../lib/log.ts';
import type { AdoptedSight } from '../lib/status/adopted.ts';
import { type Connecting, connect } from './connections.ts';
import type { Io } from './io.ts';
import { configInput } from './read-config.ts';
import { resolveHere } from './resolve-here.ts';
import { clusterReport } from './status-cluster.ts';

const answerMs = 5_000;

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
  const own = kubeconfigFile(podLayout(directory, 'kube-apiserver'), 'admin');
  const kubeconfigs =
    typed.kubeconfig === undefined ? [own, join(record.kubernetesDir, 'admin.conf')] : [typed.kubeconfig];
  const administrator = await asAdministrator(kubeconfigs, record, connecting);
  const connection = 'problem' in administrator ? undefined : administrator;
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

/** The first credential that may look at pods; else why none may. */
async function asAdministrator(
  kubeconfigs: readonly string[],
  { nodeName }: AdoptionRecord,
  connecting: Connecting,
): Promise<KubeConnection | { readonly problem: string }> {
  const { signal } = connecting;
  const path = `/api/v1/namespaces/kube-system/pods?fieldSelector=spec.nodeName%3D${nodeName}&limit=1`;
  const failures: string[] = [];
  for (const kubeconfig of kubeconfigs) {
    let connection: KubeConnection | undefined;
    try {
      connection = await connect(kubeconfig, connecting);
      await connection.request({ method: 'GET', path, timeoutMs: answerMs, signal });
      return connection;
    } catch (err) {
      failures.push(`by "${kubeconfig}": ${errorText(err)}`);
      await connection?.close();
    }
  }
  return { problem: `the API cannot be asked ${failures.join('; ')}` };
}
