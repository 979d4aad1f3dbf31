// The loop of regen: look at every artefact, plan, carry the plan out, look again until nothing is left to do, then
// wait for the next date, half a minute at most, or a change. Files of this host come first and wait for nobody: etcd
// and with it the API server do not start with expired certificates. Objects follow when the API answers; until then
// keys are made ahead. There is no lease: the stores' compare-and-swap makes one winner.
import { isCode } from '../errors.ts';
import type { Location, ResolvedArtefact } from '../inventory/model.ts';
import { noMetrics } from '../metrics.ts';
import type { Metrics } from '../metrics.ts';
import { prepareSigning } from '../pki/sign.ts';
import { isOnDisk } from '../store/stores.ts';
import { knock } from './api-wait.ts';
import { Journal } from './journal.ts';
import type { RegenReport } from './journal.ts';
import { createLook } from './look.ts';
import type { Look } from './look.ts';
import { isBusy, knockDelay, next } from './waits.ts';
import type { PassOutcome } from './waits.ts';
import type { RegenOptions } from './options.ts';

export type { RegenOptions };

const tickMs = 30_000;
/** Looks at the files alone, before anybody waits for the API. */
const mostDiskLooks = 5;
const stuckMs = 4 * tickMs;

/** Runs until `signal` aborts; with `once` until nothing is left to do. Throws AlreadyRunning. */
export async function runRegen(options: RegenOptions): Promise<RegenReport> {
  const { rows = 'all', dryRun, lockDisk, keyPool } = options;
  const { artefacts } = options.resolved;
  const disk = rows === 'api' ? [] : artefacts.filter(({ truth }) => isOnDisk(truth));
  const api = rows === 'disk' ? [] : artefacts.filter(({ truth }) => !isOnDisk(truth));
  const lock = disk.length > 0 && !dryRun ? await lockDisk?.() : undefined;
  try {
    return await loop({ ...options, metrics: options.metrics ?? noMetrics }, { disk, api });
  } finally {
    keyPool.drop();
    await lock?.release();
  }
}

interface Rows {
  readonly disk: readonly ResolvedArtefact[];
  readonly api: readonly ResolvedArtefact[];
}

type LoopOptions = RegenOptions & { readonly metrics: Metrics };

async function loop(options: LoopOptions, { disk, api }: Rows): Promise<RegenReport> {
  const { signal, clock, once, keyPool, log } = options;
  const journal = new Journal(options);
  const look = createLook({ ...options, journal });
  const pulse = watchPulse(options);
  const ours = new Set([...disk, ...api].map(({ truth }) => truth));
  const all = (location: Location): boolean => ours.has(location);
  const filesOnly = (location: Location): boolean => all(location) && isOnDisk(location);

  if (api.length > 0 && !options.dryRun) makeKeysAhead(options, api);
  if (disk.length > 0) await healFiles(look, filesOnly, signal);

  let apiAway = api.length > 0;
  let awaySince = clock.now();
  let streak = 0;
  let busySince = clock.now();
  while (!signal.aborted) {
    pulse.beat();
    if (apiAway) {
      apiAway = !(await knock({ ...options, rows: api, journal, since: awaySince, forMs: tickMs }));
      if (apiAway) {
        pulse.away();
        if (disk.length > 0) await look(filesOnly);
        continue;
      }
    }
    const { outcome, unavailable } = await look(all);
    if (signal.aborted) break;
    apiAway = api.length > 0 && api.every(({ name }) => unavailable.has(name));
    if (apiAway) {
      awaySince = clock.now();
      await clock.sleep(knockDelay(0), signal);
      continue;
    }
    if (streak === 0) busySince = clock.now();
    streak = isBusy(outcome) ? streak + 1 : 0;
    if (streak === 0) {
      keyPool.drop();
      journal.settled();
    }
    pulse.looked(outcome);
    const step = next({ outcome, streak, busySince, now: clock.now(), once });
    if (step.kind === 'done') return journal.report(step.converged);
    if (step.kind === 'again') await clock.sleep(step.delayMs, signal);
    else await waitOrChange(options, step.delayMs);
  }
  log.debug('process.stopped', { mode: 'regen' });
  return journal.report(false);
}

/** Until nothing more can be done for the files now: a failure is tried again later, beside the API's rows. */
async function healFiles(look: Look, filesOnly: (location: Location) => boolean, signal: AbortSignal): Promise<void> {
  for (let count = 0; count < mostDiskLooks && !signal.aborted; count += 1) {
    const { outcome } = await look(filesOnly);
    if (outcome.written + outcome.conflicts === 0) return;
  }
}

/** As many as could be needed, if everything had to be made anew. Dropped when the first look has left nothing to do. */
function makeKeysAhead({ keyPool, log }: LoopOptions, api: readonly ResolvedArtefact[]): void {
  const count = api.filter(({ kind }) => kind === 'signer' || kind === 'target').length;
  const failed = (err: unknown): void =>
    // Keys are then made when they are needed, and a failure of that one is reported with its artefact.
    log.debug('rotation.failed', { mode: 'regen', code: isCode(err, 'SignFailed') ? err.code : 'unknown' });
  void prepareSigning().catch(failed);
  void keyPool.fill(count).catch(failed);
}

async function waitOrChange({ clock, changes, signal }: LoopOptions, delayMs: number): Promise<void> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const waits = [clock.sleep(delayMs, either), ...(changes === undefined ? [] : [changes.wait(either)])];
  await Promise.race(waits);
  over.abort();
}

interface Pulse {
  beat(): void;
  away(): void;
  looked(outcome: PassOutcome): void;
}

/** Liveness: the loop turns. Readiness: the last look has left nothing to do. */
function watchPulse({ health, clock }: LoopOptions): Pulse {
  let lastBeat = clock.now().getTime();
  health?.set(
    'regen-loop',
    () => {
      const idleMs = clock.now().getTime() - lastBeat;
      return idleMs < stuckMs ? { ok: true } : { ok: false, message: `no look for ${Math.round(idleMs / 1000)} s` };
    },
    'liveness',
  );
  health?.set('regen', { ok: false, message: 'nothing has been looked at yet' });
  return {
    beat() {
      lastBeat = clock.now().getTime();
    },
    away() {
      health?.set('regen', { ok: false, message: 'the API server does not answer' });
    },
    looked(outcome) {
      const { unavailable, failed, conflicts, blocked } = outcome;
      const ok = unavailable + failed + conflicts + blocked === 0;
      const message = `${unavailable} not readable, ${failed} failed, ${conflicts} changed meanwhile, ${blocked} blocked`;
      health?.set('regen', ok ? { ok } : { ok, message });
    },
  };
}
