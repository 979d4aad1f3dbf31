// A syncer in this process against a test control plane, and objects for it: written by an admin's requests that share
// no code with what is tested.
import { readFileSync } from 'node:fs';
import { systemClock } from '../../../lib/clock.ts';
import type { ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import { createLog } from '../../../lib/log.ts';
import { runSyncer, type SyncerOptions, type SyncReport } from '../../../lib/syncer/run.ts';
import type { Pair } from '../certificates/certificates.ts';
import type { ControlPlane } from './control-plane.ts';

export type Content = Readonly<Record<string, string | Buffer>>;

export interface ObjectName {
  readonly kind: 'secret' | 'configMap';
  readonly namespace: string;
  readonly name: string;
}

const resources = { secret: 'secrets', configMap: 'configmaps' } as const;
const pathOf = ({ kind, namespace }: ObjectName): string => `/api/v1/namespaces/${namespace}/${resources[kind]}`;

/** Creates or replaces an object; resolves when the API server has acknowledged it. */
export async function putObject(controlPlane: ControlPlane, object: ObjectName, content: Content): Promise<void> {
  const { kind, namespace, name } = object;
  const encoded = Object.fromEntries(
    Object.entries(content).map(([key, value]) => [
      key,
      kind === 'secret' ? Buffer.from(value).toString('base64') : value.toString(),
    ]),
  );
  const body = { apiVersion: 'v1', metadata: { name, namespace }, data: encoded };
  const replaced = await controlPlane.admin(`${pathOf(object)}/${name}`, { method: 'PUT', body });
  if (replaced.status === 200) return;
  const created = await controlPlane.admin(pathOf(object), { method: 'POST', body });
  if (created.status !== 201) throw new Error(`cannot put ${kind} ${name}: ${JSON.stringify(created.body)}`);
}

export async function deleteObject(controlPlane: ControlPlane, object: ObjectName): Promise<void> {
  const { status, body } = await controlPlane.admin(`${pathOf(object)}/${object.name}`, { method: 'DELETE' });
  if (status !== 200) throw new Error(`cannot delete ${object.name}: ${JSON.stringify(body)}`);
}

export async function createNamespace(controlPlane: ControlPlane, name: string): Promise<string> {
  const { status } = await controlPlane.admin('/api/v1/namespaces', { method: 'POST', body: { metadata: { name } } });
  if (status !== 201) throw new Error(`cannot create namespace ${name}: ${status}`);
  return name;
}

export const pairContent = (pair: Pair): Content => ({
  'tls.crt': readFileSync(pair.cert),
  'tls.key': readFileSync(pair.key),
});

/** An artefact that is only synced. */
export function opaque(object: ObjectName, published: 'required' | 'optional' = 'required'): ResolvedArtefact {
  return { kind: 'opaque', name: `${object.kind}-${object.name}`, location: object, published, readers: [] };
}

export type LogLine = Readonly<Record<string, unknown>> & { readonly event: string };

export interface Syncing extends AsyncDisposable {
  readonly log: readonly LogLine[];
  /** The state of one object, from the health check. */
  health(): { readonly ok: boolean; readonly message?: string };
  /** Ends it; what it reports. */
  stop(): Promise<SyncReport>;
  /** Resolves by itself only after `once`. */
  readonly report: Promise<SyncReport>;
}

export type SyncingOptions = Pick<SyncerOptions, 'destinationDir' | 'once' | 'dryRun' | 'recheckMs'> & {
  /** Whose recovery kubeconfig is used. */
  readonly controlPlane: Pick<ControlPlane, 'recoveryKubeconfig'>;
  readonly artefacts: readonly ResolvedArtefact[];
  /** Of the connection. */
  readonly pingMs?: number;
};

export async function startSyncing(given: SyncingOptions): Promise<Syncing> {
  const { controlPlane, artefacts, pingMs, ...options } = given;
  const lines: LogLine[] = [];
  const write = (line: string): void => {
    lines.push(JSON.parse(line) as LogLine);
  };
  const log = createLog({ level: 'debug', write });
  const kubeconfigFile = controlPlane.recoveryKubeconfig;
  const connection = await openConnection({
    kubeconfigFile,
    clock: systemClock,
    log,
    userAgent: 'syncer-test',
    pingMs,
  });
  const stopped = new AbortController();
  const checks: Syncing['health'][] = [];
  const report = runSyncer({
    ...options,
    resolved: { name: 'test', artefacts },
    connection,
    clock: systemClock,
    log,
    health: { set: (_, state) => void checks.push(typeof state === 'function' ? state : () => state) },
    signal: stopped.signal,
  });
  const ended = report.then(
    () => connection.close(),
    () => connection.close(),
  );
  const stop = async (): Promise<SyncReport> => {
    stopped.abort();
    await ended;
    return report;
  };
  return {
    log: lines,
    health: () => checks.at(-1)?.() ?? { ok: false },
    stop,
    report,
    [Symbol.asyncDispose]: async () => void (await stop()),
  };
}
