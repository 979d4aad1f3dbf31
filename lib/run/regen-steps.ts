// The steps of a run of regen. A daemon stays in the repair until it is stopped; a single run takes all steps. Modules
// not loaded at the start are loaded by the step that needs them: a kubelet may wait for this run.
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
import { type Connected, type Runtime, storeReports } from './runtime.ts';
import { type Step, takeSteps } from './steps.ts';

const isSingle = ({ runtime: { once, dryRun } }: RegenRun): boolean => once && !dryRun;
/** No kubelet waits for a run that restarts. */
const restarts = (run: RegenRun): boolean => (run.mode.restart || isWithoutKey(run)) && !run.runtime.dryRun;
const isLast = (run: RegenRun): boolean => isSingle(run) && run.mode.restart;
/** Runs of units log once a day and boot the state of all artefacts. */
const keepsNote = (run: RegenRun): boolean => isSingle(run) && !isByHand(run);
const hasLogged = ({ report, summaryNotedAt }: RegenRun): boolean => report.summaryLoggedAt !== summaryNotedAt;
/** Entries whose content is still to be obtained: first the CAs, without which no API server can be verified. */
function wanted({ report, obtained, resolved }: RegenRun): RegenReport['artefacts'] {
  const left = report.artefacts.filter(({ artefact, obtains }) => obtains !== undefined && !obtained.has(artefact));
  const isAuthority = (name: string): boolean =>
    resolved.artefacts.some((one) => one.name === name && one.kind === 'external');
  const authorities = left.filter(({ artefact }) => isAuthority(artefact));
  return authorities.length > 0 ? authorities : left;
}

/** A step that reads an API server and that no repair needs. */
const optional = { limitMs: 180_000, onFailure: 'report' } as const;

const regenSteps: readonly Step<RegenRun>[] = [
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
      if (keepsNote(run)) run.summaryNotedAt = (await new RunState(mode.lockDir).getText('summary'))?.at;
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
    async run({ mode, report: { summaryLoggedAt: at } }) {
      if (at !== undefined) await new RunState(mode.lockDir).keep('summary', 'logged', at);
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

/** Time for the release of stale Leases after the last step, and on a host whose API server may just be starting. */
const [leasesMs, afterBootMs] = [15_000, 90_000];

/** Returns conditions that a single run leaves unmet. Rejects with the error of a step that stops the run. */
export async function runRegenMode(
  mode: RegenConfig,
  runtime: Runtime | Connected,
): Promise<readonly UnmetCondition[]> {
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
    released: Promise.resolve(),
  };
  try {
    await takeSteps(regenSteps, run, runtime);
    return once ? [...unmetConditions(run.report), ...run.unproven.map((message) => ({ message }))] : [];
  } finally {
    await waitAtMost(run.asHost === undefined ? leasesMs : afterBootMs, run.released, runtime);
  }
}
