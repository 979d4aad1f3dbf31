// A rehearsal: the files of this machine are copied into memory, expire there (the engine takes the time as an argument),
// are repaired by the engine of a real run, and verified as their readers would. No file of this machine is written, and
// nothing is restarted or requested. Settings of components are read where they are.
import { dirname } from 'node:path';
import { type Clock, steadyMs, systemClock } from '../clock.ts';
import type { ToolConfig } from '../config/load.ts';
import { attempt } from '../disk/disk.ts';
import { copyBelow, diskBelow } from '../disk/disk-below.ts';
import { RecoveryError } from '../errors.ts';
import { withMemoryDirectory } from '../host/memory-directory.ts';
import { discoverEnvironment } from '../inventory/discover/discover.ts';
import type { Resolved } from '../inventory/model.ts';
import { filesOf, isFile, isObtained } from '../inventory/places.ts';
import { resolve } from '../inventory/resolve.ts';
import { createLog } from '../log.ts';
import { createKeyPool } from '../pki/key-pool.ts';
import { builtAt } from '../program.ts';
import { runRegen } from '../regen/run.ts';
import { nodeRows, type NodeStatus } from '../status/node-report.ts';
import type { RehearsalReport } from '../status/rehearsal.ts';
import { runNodeStatus } from '../status/status.ts';
import { createDiskStore } from '../store/disk-store.ts';
import { verifyMachine } from '../trust/verify-machine.ts';
import { defaultKeyAlgorithm } from '../well-known.ts';
import { withNotedLife } from './cluster-life.ts';

export interface RehearsalOptions extends Pick<
  NodeStatus,
  'isArmed' | 'reasons' | 'stillRepairs' | 'remedy' | 'starter'
> {
  /** Default: a day after the last certificate here has expired. */
  readonly at?: Date | undefined;
  readonly signal: AbortSignal;
}

const dayMs = 24 * 3_600_000;
const clockFacts = { builtAt, synchronised: true };

/** Throws AlreadyRunning beside another rehearsal, ReadFailed, and PreconditionFailed where nothing can be rehearsed. */
export async function rehearse(config: ToolConfig, options: RehearsalOptions): Promise<RehearsalReport> {
  const { environment, notes } = await discoverEnvironment(config.inventory, config.environment);
  const resolved = await withNotedLife(resolve(config.inventory, environment), config);
  return withMemoryDirectory(systemClock, async (root) => {
    const beganMs = steadyMs(systemClock);
    await copyMachine(root, resolved, config);
    const rehearsal = await repairCopy(root, { config, resolved, ...options });
    if (options.signal.aborted)
      throw new RecoveryError('PreconditionFailed', 'Rehearsal stopped; nothing is left of it');
    return { ...rehearsal, notes, tookMs: steadyMs(systemClock) - beganMs };
  });
}

async function copyMachine(root: string, { artefacts }: Resolved, { backupDir }: ToolConfig): Promise<void> {
  const places = artefacts.flatMap(({ location }) => (isFile(location) ? [location] : []));
  const files = places.flatMap((place) => filesOf(place).map(({ file }) => file));
  // A kubelet's earlier pairs lie beside the present one.
  const directories = places.flatMap((place) => (place.kind === 'combinedPem' ? [dirname(place.file)] : []));
  for (const path of [...files, ...directories, backupDir]) {
    const copying = { code: 'ReadFailed', action: 'copy', what: 'files of this machine', directory: path } as const;
    await attempt(copying, () => copyBelow(root, path));
  }
}

interface Copied extends RehearsalOptions {
  readonly config: ToolConfig;
  readonly resolved: Resolved;
}

type Repaired = Omit<RehearsalReport, 'notes' | 'tookMs'>;

async function repairCopy(root: string, { config, resolved, ...options }: Copied): Promise<Repaired> {
  const { backupDir, policy, keyAlgorithm, sources } = config;
  const { signal } = options;
  const { artefacts, endpoints } = resolved;
  const disk = diskBelow(root);
  const storeAt = (clock: Clock) =>
    createDiskStore({ backupDir, owners: artefacts, endpoints, disk, now: () => clock.now() });
  const look = (at: Date): Promise<NodeStatus> =>
    runNodeStatus({ ...options, resolved, policy, clockFacts, clock: systemClock, store: storeAt(systemClock), at });
  const at = options.at ?? dayAfterLast(await look(systemClock.now()));
  const [beganMs, before] = [steadyMs(systemClock), await look(at)];
  const clock: Clock = { ...systemClock, now: () => new Date(at.getTime() + steadyMs(systemClock) - beganMs) };
  const report = await runRegen({
    resolved,
    policy,
    clock,
    clockFacts: () => clockFacts,
    store: storeAt(clock),
    signal,
    keyAlgorithm,
    log: createLog({ level: 'error', write: () => undefined }), // each failure is part of the report
    keyPool: createKeyPool({ algorithm: keyAlgorithm ?? defaultKeyAlgorithm, size: artefacts.length }),
    locations: 'disk',
    once: true,
    dryRun: false,
  });
  const after = await look(clock.now());
  const { rows } = await verifyMachine(config, { at: clock.now(), disk });
  const written = new Set(report.artefacts.flatMap(({ artefact, writes }) => (writes > 0 ? [artefact] : [])));
  return {
    at,
    before,
    after,
    made: nodeRows(after).filter(({ artefact }) => written.has(artefact)),
    failures: report.artefacts.flatMap(({ artefact, err, outcome }) =>
      outcome === 'failed' ? [`${artefact}: ${(err ?? '').replaceAll(root, '')}`] : [],
    ),
    broken: rows.filter(({ verdict }) => verdict === 'fails'),
    obtained: [...artefacts.filter(isObtained).map(({ name }) => name), ...Object.keys(sources)],
  };
}

function dayAfterLast(today: NodeStatus): Date {
  const ends = nodeRows(today).flatMap(({ kind, notAfter }) =>
    kind === 'target' && notAfter ? [notAfter.getTime()] : [],
  );
  return new Date(Math.max(today.at.getTime(), ...ends) + dayMs);
}
