// The repair of one run: a pass of regen over the artefacts of this cluster and this host, with all its collaborators.
import { steadyMs } from '../clock.ts';
import type { RegenConfig } from '../config/mode-settings.ts';
import { isCode } from '../errors.ts';
import { lockHost, refuseBesideKubeadm } from '../host/sole-writer.ts';
import { RunState } from '../host/state.ts';
import { defaultDirectory, hostLayout, workerTokenFile } from '../install/layout.ts';
import type { Resolved } from '../inventory/model.ts';
import { fileDirectories, isObtained } from '../inventory/places.ts';
import { createKeyPool } from '../pki/key-pool.ts';
import type { Obtaining } from '../origin/obtaining.ts';
import { askingNodes } from '../plan/gather-nodes.ts';
import type { Sources } from '../plan/gather-offers.ts';
import type { RegenReport } from '../regen/journal.ts';
import type { Boot } from '../regen/judge-lease.ts';
import { createOtherClocks } from '../regen/other-clocks.ts';
import { runRegen } from '../regen/run.ts';
import { releaseStaleLeases } from '../regen/stale-leases.ts';
import type { UnmetCondition } from '../regen/unmet.ts';
import type { RestartOutcome } from '../restart/host-restarts.ts';
import type { Store } from '../store/store.ts';
import { defaultKeyAlgorithm } from '../well-known.ts';
import { connectorOf, namesInApi, storeOf } from './connections.ts';
import { type AsHost, clocksAskedAs, type HostIdentity, leaderLeases } from './host-identity.ts';
import { createHostRestarts, type HostRestarts } from './host-restart.ts';
import { createUnitRestarts } from './unit-restart.ts';
import { clockFactsFor, type Connected, type Runtime } from './runtime.ts';

/** A run of regen: how it was started, and the results of its steps so far. */
export interface RegenRun {
  readonly mode: RegenConfig;
  /** Files alone are repaired where it has no connection. */
  readonly runtime: Runtime | Connected;
  readonly disk: Store;
  /** Observed at the start: a clock that is set later must not move the time of the boot. */
  readonly boot: () => Boot;
  readonly identity: HostIdentity | undefined;
  /** This host as a user of the API, for a run that restarts: no kubelet waits for such a run. */
  readonly asHost: AsHost | undefined;
  /** When it began, by a clock that nobody sets: all waits together are bounded. */
  readonly beganMs: number;
  /** The inventory, with the validity period of certificates that the cluster sets. */
  resolved: Resolved;
  restarts: HostRestarts | undefined;
  /** The time in the note `summary` when the run began. */
  summaryNotedAt: Date | undefined;
  sources: Sources | undefined;
  /** Entries whose content was requested elsewhere in this run: each once. */
  readonly obtained: Set<string>;
  report: RegenReport;
  outcomes: readonly RestartOutcome[];
  /** A message for each failed restart, and for each file whose use is not proven. */
  unproven: readonly string[];
  /** Conditions that a run of preset node-ca after this one has left unmet. */
  followed: readonly UnmetCondition[];
  /** The release of stale leader Leases, for which the end of the run waits. */
  released: Promise<unknown>;
}

export function restartsOf(run: RegenRun): HostRestarts {
  const { mode, disk, identity, resolved } = run;
  const runtime = { ...run.runtime, resolved, identity };
  run.restarts ??= isWithoutKey(run)
    ? createUnitRestarts(mode, disk, runtime)
    : createHostRestarts(mode, disk, runtime);
  return run.restarts;
}

/** Whether all certificates here are obtained from the cluster: there is no key of a CA, and only a kubelet. */
export const isWithoutKey = ({ mode, resolved }: Pick<RegenRun, 'mode' | 'resolved'>): boolean =>
  mode.obtaining !== undefined || resolved.artefacts.every(isObtained);

const usualWaitMs = 40_000;
const usualTokenFile = workerTokenFile(hostLayout(defaultDirectory));

export function obtainingOf({ mode, runtime, resolved, disk: store, report, beganMs }: RegenRun): Obtaining {
  const { config, clock, log, signal, dryRun } = runtime;
  const { tokenFile = usualTokenFile, waitMs = usualWaitMs } = mode.obtaining ?? {};
  return {
    resolved,
    store,
    sources: mode.sources,
    tokenFile,
    tlsServerNameOverride: config.tlsServerNameOverride,
    purpose: dryRun ? 'dryRun' : 'run',
    notes: new RunState(mode.lockDir),
    isUrgent: (name) => report.artefacts.some(({ artefact, action }) => artefact === name && action !== 'keep'),
    leftMs: () => Math.max(0, waitMs - 1000 * Math.floor((steadyMs(clock) - beganMs) / 1000)),
    connect: connectorOf({ clock, log, signal }),
    clock,
    log,
    signal,
  };
}

/** Started by a person or a program, not by a unit. */
export const isByHand = ({ runtime: { once, dryRun, isOfUnit } }: RegenRun): boolean =>
  (once || dryRun) && isOfUnit !== true;

/** Resolves after one pass with `once`, otherwise when the signal aborts. */
export function repair(run: RegenRun, summaryLoggedAt: Date | undefined): Promise<RegenReport> {
  const { mode, runtime, resolved, sources, asHost, boot } = run;
  const { connection } = 'connection' in runtime ? runtime : {};
  const { lockDir, keyAlgorithm } = mode;
  const here = { ...runtime, resolved };
  const leases = leaderLeases(resolved.artefacts);
  const directories = fileDirectories(resolved.artefacts.map(({ location }) => location));
  const restarts = restartsOf(run);
  return runRegen({
    ...here,
    ...mode,
    sources,
    store: storeOf(connection, restarts.store),
    renewalLease: restarts.renewalLease,
    namesInApi: namesInApi(resolved, connection),
    askNodes: connection && askingNodes({ ...here, connection }, mode.policy),
    clockFacts: clockFactsFor(mode, runtime.builtAt),
    otherClocks: connection ? createOtherClocks({ ...here, connection, leases }) : clocksAskedAs(asHost, here),
    keyPool: createKeyPool({
      algorithm: keyAlgorithm ?? defaultKeyAlgorithm,
      size: resolved.artefacts.filter(({ kind }) => kind === 'signer' || kind === 'target').length,
    }),
    locations: connection === undefined ? 'disk' : mode.locations,
    summaryLoggedAt,
    isByHand: isByHand(run),
    onFirstAnswer({ wasAway }) {
      // A repeated run does that as a host (regen-steps.ts), once for each boot.
      if (connection === undefined || runtime.dryRun || runtime.isRepeated === true) return;
      run.released = releaseStaleLeases({ ...here, connection, leases, boot, mayHaveRenewed: !wasAway });
    },
    lockDisk: () => lockHost({ ...here, lockDir, directories }),
    refuseBesideOthers: () => refuseBesideKubeadm(directories),
  });
}

/**
 * A second pass, with the answers of the sources. Another run may hold the files by now: then the next run fetches
 * again.
 */
export async function repairFetched(run: RegenRun): Promise<RegenReport> {
  const { report: before } = run;
  try {
    const after = await repair(run, before.summaryLoggedAt);
    return reportOfBoth(before, after);
  } catch (err) {
    if (!isCode(err, 'AlreadyRunning')) throw err;
    const { message } = err;
    run.runtime.log.warn('pair.failed', { err: message, code: err.code });
    const left = before.artefacts.map((one) =>
      one.obtains !== undefined && one.action === 'renew' ? ({ ...one, action: 'blocked', message } as const) : one,
    );
    return { ...before, artefacts: left };
  }
}

/** Report of two passes: files written by either one are restarted for, proven and told. Pure. */
export function reportOfBoth(before: RegenReport, after: RegenReport): RegenReport {
  const had = new Map(before.artefacts.map(({ artefact, writes }) => [artefact, writes]));
  const artefacts = after.artefacts.map((one) => ({ ...one, writes: one.writes + (had.get(one.artefact) ?? 0) }));
  return { ...after, artefacts, writes: before.writes + after.writes };
}
