// The steps of a run of regen. A daemon stays in the repair until it is stopped; a single run takes all steps, and a
// daemon that restarts makes single runs again and again. Modules not loaded at the start are loaded by the step that
// needs them: a kubelet may wait for this run.
import { steadyMs } from '../clock.ts';
import type { RegenConfig } from '../config/mode-settings.ts';
import { addressGone, addressesNow } from '../host/own-address.ts';
import { RunState } from '../host/state.ts';
import { obtain, sourcesOf } from '../origin/obtain.ts';
import { releaseAfterBoot } from '../regen/boot-leases.ts';
import type { RegenReport } from '../regen/journal.ts';
import { observeBoot } from '../regen/stale-leases.ts';
import { type UnmetCondition, unmetConditions } from '../regen/unmet.ts';
import { waitAtMost } from '../retry.ts';
import { createDiskStore } from '../store/disk-store.ts';
import { askLife, withLifeOfCluster } from './cluster-life.ts';
import { hostIdentity, leaderLeases } from './host-identity.ts';
import { isByHand, isWithoutKey, obtainingOf, type RegenRun, repair, repairFetched, restartsOf } from './regen-run.ts';
import { afterBootMs, leasesMs, optional, sharedMs } from './run-limits.ts';
import { type Connected, type Runtime, storeReports } from './runtime.ts';
import { type Step, takeSteps } from './steps.ts';

const isSingle = ({ runtime: { once, dryRun } }: RegenRun): boolean => once && !dryRun;
/** No kubelet waits for a run that restarts. */
const restarts = (run: RegenRun): boolean => (run.mode.restart || isWithoutKey(run)) && !run.runtime.dryRun;
/** A run that does not restart leaves reports to the next one, and notes its renewals. */
const reportsRenewals = ({ mode, report }: RegenRun): boolean => mode.restart || report.writes > 0;
const isLast = (run: RegenRun): boolean => isSingle(run) && run.mode.restart;
/** Runs of units log once a day and boot the state of all artefacts. */
const keepsNote = (run: RegenRun): boolean => isSingle(run) && !isByHand(run);
/** Each inventory of a machine has a summary of its own. */
const summaryNote = ({ resolved }: RegenRun): string => `summary-${resolved.name}`;
const hasLogged = ({ report, summaryNotedAt }: RegenRun): boolean => report.summaryLoggedAt !== summaryNotedAt;
/** Entries whose content is still to be obtained: first the CAs, without which no API server can be verified. */
function wanted({ report, obtained, resolved }: RegenRun): RegenReport['artefacts'] {
  const left = report.artefacts.filter(({ artefact, obtains }) => obtains !== undefined && !obtained.has(artefact));
  const isAuthority = (name: string): boolean =>
    resolved.artefacts.some((one) => one.name === name && one.kind === 'external');
  const authorities = left.filter(({ artefact }) => isAuthority(artefact));
  return authorities.length > 0 ? authorities : left;
}

/** Whether files of this run follow objects in the API. */
const followsBundles = ({ resolved }: RegenRun): boolean =>
  resolved.artefacts.some((one) => one.kind === 'external' && one.inputs !== undefined);

export const regenSteps: readonly Step<RegenRun>[] = [
  {
    name: 'life of certificates',
    onFailure: 'stop',
    async run(run) {
      run.resolved = await withLifeOfCluster(run.mode, run.runtime, run.asHost);
    },
  },
  {
    name: 'notes of former runs',
    onFailure: 'stop',
    async run(run) {
      const { mode } = run;
      if (keepsNote(run)) run.summaryNotedAt = (await new RunState(mode.lockDir).getText(summaryNote(run)))?.at;
      if (run.runtime.once || run.runtime.dryRun) run.sources = await sourcesOf(obtainingOf(run));
    },
  },
  {
    name: 'repair',
    onFailure: 'stop',
    async run(run) {
      run.report = await repair(run, run.summaryNotedAt);
    },
  },
  {
    name: 'content from other places',
    when: (run) => run.sources !== undefined,
    onFailure: 'stop',
    // Artefacts that this machine can make itself came first, and no lock is held meanwhile.
    async run(run) {
      // What one answer has repaired may be needed to request the next: a CA, for a certificate.
      for (let open = wanted(run); open.length > 0; open = wanted(run)) {
        for (const { artefact } of open) run.obtained.add(artefact);
        const answers = await obtain(open, obtainingOf(run));
        if (answers.size === 0) continue;
        run.sources = new Map([...(run.sources ?? []), ...answers]);
        run.report = await repairFetched(run);
      }
    },
  },
  {
    name: 'Events',
    onFailure: 'report',
    async run({ runtime }) {
      if ('events' in runtime) await runtime.events.flush();
    },
  },
  {
    name: 'note of the summary',
    when: (run) => keepsNote(run) && hasLogged(run),
    onFailure: 'stop',
    async run(run) {
      const { summaryLoggedAt: at } = run.report;
      if (at !== undefined) await new RunState(run.mode.lockDir).keep(summaryNote(run), 'logged', at);
    },
  },
  {
    name: 'release of stale leader Leases',
    onFailure: 'stop',
    // Later steps do not wait for it.
    async run(run) {
      const { mode, runtime, asHost, boot, resolved } = run;
      if (asHost === undefined) return;
      const leases = leaderLeases(resolved.artefacts);
      const state = new RunState(mode.lockDir);
      run.released = Promise.all([run.released, releaseAfterBoot({ ...runtime, asHost, leases, boot, state })]);
    },
  },
  {
    name: 'note of what processes will read',
    when: (run) => isSingle(run) && !run.mode.restart,
    onFailure: 'stop',
    run: (run) => restartsOf(run).observe(),
  },
  {
    name: 'restart',
    when: restarts,
    onFailure: 'stop',
    // Its kubelet may have been marked by a run before it started, which may not restart it.
    afterFailure: isWithoutKey,
    async run(run) {
      run.outcomes = await restartsOf(run).restart(run.report);
    },
  },
  {
    name: 'proof of use',
    when: restarts,
    onFailure: 'stop',
    async run(run) {
      run.unproven = await restartsOf(run).prove(run.outcomes, run.report);
    },
  },
  {
    name: 'return of the renewal Lease',
    when: restarts,
    onFailure: 'stop',
    run: (run) => restartsOf(run).returnLease(run.unproven, run.report),
  },
  {
    name: 'rights of the host',
    ...optional,
    async run({ mode, runtime, asHost, resolved }, signal) {
      if (asHost === undefined) return;
      await (await import('./host-rights.ts')).keepRights(mode, { ...runtime, resolved, signal }, asHost);
    },
  },
  {
    name: 'renewed CA in cluster-info',
    when: isSingle,
    ...optional,
    async run({ mode, runtime, identity, disk: store, resolved }, signal) {
      if (identity === undefined) return;
      const { publishRenewed } = await import('./publish-authority.ts');
      await publishRenewed({ mode, identity, store, runtime: { ...runtime, resolved, signal } });
    },
  },
  {
    name: 'life of certificates for the next run',
    ...optional,
    run: ({ mode, runtime, asHost, resolved }, signal) => askLife(mode, { ...runtime, resolved, signal }, asHost),
  },
  {
    name: 'deliveries to other clusters',
    when: (run) => isLast(run) && Object.keys(run.mode.deliveries).length > 0,
    ...optional,
    async run(run, signal) {
      const { deliverPairs } = await import('./deliver.ts');
      await deliverPairs(run.mode, restartsOf(run).store, { ...run.runtime, resolved: run.resolved, signal });
    },
  },
  {
    name: 'expiry of the Machine',
    when: (run) => isLast(run) && run.mode.machine !== undefined,
    ...optional,
    async run(run, signal) {
      const notAfter = await restartsOf(run).servedNotAfter();
      if (notAfter === undefined) return;
      const { keepMachineExpiry } = await import('./machine-expiry.ts');
      await keepMachineExpiry(run.mode, notAfter, { ...run.runtime, signal });
    },
  },
  {
    name: 'report of CA bundles',
    when: (run) => isLast(run) && followsBundles(run),
    ...optional,
    async run({ mode, disk, runtime, resolved }, signal) {
      const { reportBundles } = await import('./report-bundles.ts');
      await reportBundles(mode, disk, { ...runtime, resolved, signal });
    },
  },
  {
    name: 'CA bundles of the cluster',
    // A component that waits for the repair of one file must not be restarted for another one.
    when: (run) => isLast(run) && !followsBundles(run) && run.outcomes.every(({ failure }) => failure === undefined),
    ...optional,
    limitMs: 90_000, // it proves restarts
    async run(run, signal) {
      const { followBundles } = await import('./follow-bundles.ts');
      const unmet = await followBundles(run.mode, { ...run.runtime, signal }, takeRun);
      // A proof that is still pending is reported by both runs.
      run.followed = unmet.filter(({ message }) => !run.unproven.includes(message));
    },
  },
  {
    name: 'command after renewals',
    when: (run) => isSingle(run) && run.mode.onRenewed !== undefined && reportsRenewals(run),
    onFailure: 'report',
    limitMs: 70_000, // after the limit of the command, which reports that once an hour
    async run(run, signal) {
      await (await import('./on-renewed.ts')).runOnRenewed(run, isLast(run), signal);
    },
  },
  {
    name: 'Events on the Node',
    when: (run) => isSingle(run) && reportsRenewals(run),
    onFailure: 'report',
    limitMs: 15_000,
    async run(run, signal) {
      await (await import('./node-events.ts')).recordNodeEvents(run, isLast(run), signal);
    },
  },
  {
    name: 'metrics file',
    when: (run) => isSingle(run) && run.mode.metricsFile !== undefined,
    onFailure: 'report',
    limitMs: 2000,
    afterFailure: () => true,
    async run(run, signal) {
      await (await import('./metrics-file.ts')).writeMetrics(run, signal);
    },
  },
  {
    name: 'address of the API server',
    // Checked as often as the summary is logged.
    when: (run) => run.runtime.once && (!keepsNote(run) || hasLogged(run)),
    onFailure: 'report',
    async run({ resolved, runtime: { log } }) {
      const message = addressGone(resolved.endpoints?.local, addressesNow());
      if (message !== undefined) log.warn('address.gone', { message });
    },
  },
];

/** Returns conditions that a single run leaves unmet. Rejects with the error of a step that stops a single run. */
export async function runRegenMode(
  mode: RegenConfig,
  runtime: Runtime | Connected,
): Promise<readonly UnmetCondition[]> {
  if (!mode.restart || runtime.once || runtime.dryRun) return takeRun(mode, runtime);
  const { repeatRuns } = await import('./repeated-runs.ts');
  await repeatRuns(mode, runtime, takeRun);
  return [];
}

async function takeRun(mode: RegenConfig, runtime: Runtime | Connected): Promise<readonly UnmetCondition[]> {
  const { clock, log, resolved, once, dryRun } = runtime;
  const { backupDir, restart } = mode;
  const disk = createDiskStore({
    backupDir,
    owners: resolved.artefacts,
    endpoints: resolved.endpoints,
    ...storeReports(backupDir, log),
  });
  const identity = hostIdentity(disk, runtime);
  const run: RegenRun = {
    mode,
    runtime,
    disk,
    identity,
    resolved,
    boot: observeBoot(clock),
    asHost: restart && once && !dryRun ? identity?.asHost : undefined,
    restarts: undefined,
    summaryNotedAt: undefined,
    beganMs: steadyMs(clock),
    sources: undefined,
    obtained: new Set(),
    report: { converged: false, artefacts: [], writes: 0 },
    outcomes: [],
    unproven: [],
    followed: [],
    released: Promise.resolve(),
  };
  try {
    await takeSteps(regenSteps, run, { ...runtime, sharedMs });
    const unproven = run.unproven.map((message) => ({ message }));
    return once ? [...unmetConditions(run.report), ...unproven, ...run.followed] : [];
  } finally {
    await waitAtMost(run.asHost === undefined ? leasesMs : afterBootMs, run.released, runtime);
  }
}
