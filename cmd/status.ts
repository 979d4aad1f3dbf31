// `status`: what is expired, what would break, what would be done; with --at as of another day.
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import { isClockSynchronised } from '../lib/clock-synchronised.ts';
import { parseToolConfig } from '../lib/config.ts';
import type { ToolConfig } from '../lib/config-types.ts';
import { unitPaths } from '../lib/install/host.ts';
import { adoptionFile, defaultDirectory } from '../lib/install/layout.ts';
import { discoverEnvironment } from '../lib/inventory/discover/discover.ts';
import { allDirectories, resolve } from '../lib/inventory/resolve.ts';
import type { ClockFacts } from '../lib/plan/plan-types.ts';
import { createLog } from '../lib/log.ts';
import { valueText } from '../lib/problems.ts';
import type { Problem } from '../lib/problems.ts';
import { createProver } from '../lib/proof/prove.ts';
import { runNodeStatus } from '../lib/status/node-status.ts';
import { renderNode } from '../lib/status/node-structured.ts';
import { renderStatus } from '../lib/status/render.ts';
import { runStatus } from '../lib/status/status.ts';
import { createApiStore } from '../lib/store/api.ts';
import { createDiskStore } from '../lib/store/disk.ts';
import { createStore } from '../lib/store/stores.ts';
import { addressOf, connect, namesInApi, noApi } from './connections.ts';
import { exitOfNode, exitOfStatus } from './exit-codes.ts';
import type { Io } from './io.ts';
import { outputFormat } from './output-format.ts';
import { configInput, orKubeadm, type CommandLine } from './read-config.ts';
import { resolveHere } from './resolve-here.ts';
import { builtAt } from './version.ts';
import { isFile } from '../lib/inventory/places.ts';

const formats = ['table', 'json', 'yaml'] as const;

export interface StatusLine extends CommandLine {
  readonly output?: string;
  readonly at?: string;
}

export interface StatusOptions {
  readonly output: (typeof formats)[number];
  /** Undefined: now. */
  readonly at?: Date;
}

/** An RFC 3339 date or time; a date alone is its first second, UTC. */
function dateOf(text: string): Date | undefined {
  const [, day] = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2}))?$/.exec(text) ?? [];
  const [date, midnight] = [new Date(text), new Date(`${day}T00:00:00Z`)];
  if (Number.isNaN(date.getTime()) || Number.isNaN(midnight.getTime())) return undefined;
  // Date takes 30 February for 2 March: the day that comes out must be the day that went in.
  return midnight.toISOString().slice(0, 10) === day ? date : undefined;
}

export interface StatusFlags {
  readonly options: StatusOptions;
  readonly problems: readonly Problem[];
}

export function statusFlags({ output = 'table', at }: Pick<StatusLine, 'output' | 'at'>): StatusFlags {
  const problems: Problem[] = [];
  const wanted = outputFormat(output, formats);
  if (wanted.format === undefined) problems.push(wanted.problem);
  const date = at === undefined ? undefined : dateOf(at);
  if (at !== undefined && date === undefined) {
    const message = `must be a date such as 2027-05-31 or 2027-05-31T08:00:00Z, got ${valueText(at)}`;
    problems.push({ path: '--at', kind: 'invalid', message });
  }
  return { options: { output: wanted.format ?? 'table', ...(date === undefined ? {} : { at: date }) }, problems };
}

export async function statusCommand(line: StatusLine, io: Io): Promise<number> {
  const { output, at, ...rest } = line;
  const { options, problems } = statusFlags({
    ...(output === undefined ? {} : { output }),
    ...(at === undefined ? {} : { at }),
  });
  const config = parseToolConfig({ ...configInput(orKubeadm(rest), io), problems });
  const isMachine =
    config.inventory.discover === 'kubeadm' && config.inventory.artefacts.every(({ truth }) => isFile(truth));
  return isMachine ? nodeStatus(config, options, io) : clusterStatus(config, options, io);
}

/** Files of this machine alone: works with no API, so it opens no connection. */
async function nodeStatus(config: ToolConfig, { at, output }: StatusOptions, { stdout, signal }: Io): Promise<number> {
  const { environment, notes } = await discoverEnvironment(config.inventory, config.environment);
  const resolved = resolve(config.inventory, environment);
  const { backupDir } = config;
  const endpoints = resolved.endpoints === undefined ? {} : { endpoints: resolved.endpoints };
  const status = await runNodeStatus({
    resolved,
    notes: [...notes, ...missingUnits(), ...(await adoptionNotesOf(config))],
    store: createStore({ api: noApi, disk: createDiskStore({ backupDir, ...endpoints }) }),
    policy: config.policy,
    clockFacts: await clockFactsOf(config, at),
    clock: systemClock,
    ...(at !== undefined && { at }),
    signal,
  });
  stdout.write(renderNode(status, output));
  return exitOfNode(status);
}

/** Whatever the plan says: without these nothing carries it out. Other init systems have no place to look at. */
function missingUnits(): readonly string[] {
  const missing = unitPaths().find((path) => !existsSync(path));
  if (missing === undefined) return [];
  return [
    `"${missing}" is absent: nothing repairs this machine by itself until "kube-cert-recovery init host" has been run, ` +
      'unless another init system runs "kube-cert-recovery --mode=regen --once" before each start of the kubelet',
  ];
}

/** Of a machine that is adopted. `init adopt` has its files there, unless it was told otherwise. */
async function adoptionNotesOf({ inventory, environment }: ToolConfig): Promise<readonly string[]> {
  const { kubernetesDir = '/etc/kubernetes' } = allDirectories(inventory, environment.directories ?? {});
  const directory = join(kubernetesDir, basename(defaultDirectory));
  if (!existsSync(adoptionFile(directory))) return [];
  const { adoptionNotes } = await import('../lib/install/adopt-notes.ts');
  return adoptionNotes(directory);
}

/** Of another time nobody knows what its clock will say. */
async function clockFactsOf({ clockSynchronised }: ToolConfig, at: Date | undefined): Promise<ClockFacts> {
  const isKnown = at !== undefined || (await isClockSynchronised(clockSynchronised, { thorough: true }));
  return { builtAt, synchronised: isKnown };
}

async function clusterStatus(config: ToolConfig, options: StatusOptions, io: Io): Promise<number> {
  const log = createLog({ ...config.log, level: 'error', write: (text) => void io.stderr.write(text) });
  const resolved = await resolveHere(config, log);
  const connecting = { config, clock: systemClock, log, signal: io.signal };
  const connection = config.kubeconfig === undefined ? undefined : await connect(config.kubeconfig, connecting);
  try {
    const report = await runStatus({
      resolved,
      store: createStore({
        api: connection === undefined ? noApi : createApiStore({ connection, fieldManager: 'kube-cert-recovery' }),
        disk: createDiskStore(),
      }),
      ...namesInApi(resolved, connection),
      policy: config.policy,
      clockFacts: await clockFactsOf(config, options.at),
      clock: systemClock,
      ...(options.at !== undefined && { at: options.at }),
      ...(config.destinationDir !== undefined && { destinationDir: config.destinationDir }),
      ...(connection !== undefined &&
        config.destinationDir !== undefined && {
          prove: createProver({
            connection,
            apiServer: addressOf(config, connection),
            destinationDir: config.destinationDir,
            clock: systemClock,
            signal: io.signal,
            hostName: hostname(),
          }),
        }),
      ...(connection !== undefined && { connection }),
      recoveryServerName: config.recoveryServerName,
      signal: io.signal,
    });
    io.stdout.write(renderStatus(report, options.output));
    return exitOfStatus(report);
  } finally {
    await connection?.close();
  }
}
