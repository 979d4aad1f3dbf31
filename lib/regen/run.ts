// The loop of regen: read every artefact, plan, carry the plan out, repeat until nothing is left to do, then wait for
// the next date, half a minute at most. Changes are noticed by that tick alone: regen has the right to get its objects,
// not to watch them. During a recovery it polls external inputs in between (poll.ts). Files of this host come first and
// wait for no API: etcd and with it the API server do not start with expired certificates. Objects follow when the API
// answers; until then keys are made ahead. There is no lease: the stores' compare-and-swap makes one winner.
import { prepareSigning } from '../pki/encode.ts';
import { notLater } from '../clock.ts';
import type { Health } from '../health.ts';
import { isCode, type RecoveryError } from '../errors.ts';
import type { Location, ResolvedArtefact } from '../inventory/model.ts';
import { pause, untilAnswered } from './poll.ts';
import { Journal, type JournalOptions, type RegenReport } from './journal.ts';
import { createLook, type Look, type LookOptions } from './look.ts';
import { apiPollDelay, counted, filesPatienceMs, isOver, isSettled, next, noStreaks, patienceMs } from './waits.ts';
import { pollPace } from './waits.ts';
import type { PollPace, PassOutcome } from './waits.ts';
import { isFile } from '../inventory/places.ts';
import { longestSettleMs } from '../plan/settling.ts';

export interface RegenOptions extends LookOptions, JournalOptions {
  /** Which artefacts this run covers. `disk`: before there is an API server, on the host. Default: all. */
  readonly locations?: 'all' | 'disk' | 'api';
  readonly health?: Health;
  /** Time for which a single run waits for an API server. Default: as long as one may take to start. */
  readonly apiPatienceMs?: number;
  /**
   * Called once when the API answers for the first time, for work that waits for it. `wasAway`: it did not answer
   * before, since this process began. Must not throw.
   */
  readonly onFirstAnswer?: (seen: { readonly wasAway: boolean }) => void;
}

const tickMs = 30_000;
/** Passes over files alone, before the wait for the API. */
const mostDiskLooks = 5;
const stuckMs = 4 * tickMs;

/** Runs until `signal` aborts; with `once` until nothing is left to do, or to hope for. Throws AlreadyRunning. */
export async function runRegen(options: RegenOptions): Promise<RegenReport> {
  const { locations = 'all', dryRun, once, lockDisk, keyPool } = options;
  const { artefacts } = options.resolved;
  const disk = locations === 'api' ? [] : artefacts.filter(({ location }) => isFile(location));
  const api = locations === 'disk' ? [] : artefacts.filter(({ location }) => !isFile(location));
  // While an API server may keep a run waiting, only a pass that writes files holds the lock (look.ts).
  const lock = disk.length > 0 && api.length === 0 && !dryRun && once ? await lockDisk?.() : undefined;
  try {
    return await loop({ ...options, lock }, disk, api);
  } finally {
    keyPool.drop();
    await lock?.release();
  }
}

async function loop(
  options: RegenOptions,
  disk: readonly ResolvedArtefact[],
  api: readonly ResolvedArtefact[],
): Promise<RegenReport> {
  const { signal, clock, once, keyPool, log, apiPatienceMs = patienceMs } = options;
  const journal = new Journal(options);
  const look = createLook({ ...options, journal });
  const pulse = watchPulse(options);
  const ours = new Set([...disk, ...api].map(({ location }) => location));
  const all = (location: Location): boolean => ours.has(location);
  const filesOnly = (location: Location): boolean => all(location) && isFile(location);

  if (api.length > 0 && !options.dryRun) makeKeysAhead(options, api);
  // A single run for files alone needs no such head start.
  if (disk.length > 0 && (api.length > 0 || !once)) await healFiles(look, filesOnly, signal);

  let awaySince = api.length > 0 ? clock.now() : undefined;
  let streaks = noStreaks;
  while (!signal.aborted) {
    pulse.beat();
    if (awaySince !== undefined) {
      awaySince = notLater(awaySince, clock.now());
      const asked = { artefacts: api, since: awaySince, forMs: tickMs, onFailure: pulse.away };
      const answered = await untilAnswered({ ...options, ...asked, journal });
      if (!answered) {
        if (disk.length > 0) await look(filesOnly);
        if (once && !signal.aborted && isOver(awaySince, clock.now(), apiPatienceMs))
          return journal.report(false, noAnswer(apiPatienceMs));
        continue;
      }
    }
    const { outcome, unavailable, external } = await look(all);
    if (signal.aborted) break;
    if (api.length > 0 && api.every(({ name }) => unavailable.has(name))) {
      // An answer to one poll but to no pass does not mean that it is back.
      awaySince ??= clock.now();
      const failure = unavailable.get(api[0]?.name ?? '');
      if (failure !== undefined) pulse.away(failure);
      if (once && isOver(awaySince, clock.now(), apiPatienceMs)) return journal.report(false, noAnswer(apiPatienceMs));
      await clock.sleep(apiPollDelay(0), signal);
      continue;
    }
    awaySince = undefined;
    const now = clock.now();
    streaks = counted(streaks, outcome, now);
    if (isSettled({ outcome, streaks, now })) {
      keyPool.drop();
      journal.settled();
    }
    const isGood = pulse.looked(outcome);
    options.metrics?.looked(isGood);
    // Artefacts alone: names known to the API only have no location, and are read by passes.
    const unread = api.flatMap(({ name, location }) => (unavailable.has(name) ? [location] : []));
    const polled = unread.length > 0 && unread.length === outcome.unavailable;
    const step = next({
      outcome,
      streaks,
      now,
      once,
      polled,
      patienceMs: api.length > 0 ? apiPatienceMs : filesPatienceMs,
      settlesMs: longestSettleMs(options.policy),
    });
    if (step.kind === 'done') return journal.report(step.converged, step.converged ? undefined : remains(outcome));
    // Failed writes do not stop the polls.
    const pace = (at: Date): PollPace | undefined => (outcome.unavailable === 0 ? pollPace(streaks, at) : undefined);
    const { unavailableSince: unreadSince } = streaks;
    await pause({ ...options, external, unread: polled ? unread : [], unreadSince, delayMs: step.delayMs, pace });
  }
  log.debug('process.stopped');
  return journal.report(false);
}

/**
 * Repairs files until nothing more can be done for them now: a failure is retried later, together with the API's
 * objects.
 */
async function healFiles(look: Look, filesOnly: (location: Location) => boolean, signal: AbortSignal): Promise<void> {
  for (let count = 0; count < mostDiskLooks && !signal.aborted; count += 1) {
    const { outcome } = await look(filesOnly);
    if (outcome.written + outcome.conflicts === 0) return;
  }
}

/** Makes as many keys as a complete reissue needs. Dropped when the first pass has left nothing to do. */
function makeKeysAhead({ keyPool, log }: RegenOptions, api: readonly ResolvedArtefact[]): void {
  const count = api.filter(({ kind }) => kind === 'signer' || kind === 'target').length;
  const failed = (err: unknown): void =>
    // Keys are then made when they are needed, and a failure there is reported with its artefact.
    log.debug('rotation.failed', { code: isCode(err, 'SignFailed') ? err.code : 'unknown' });
  void prepareSigning().catch(failed);
  void keyPool.fill(count).catch(failed);
}

const noAnswer = (forMs: number): string => `the API server has not answered for ${forMs / 1000} s`;

function remains({ unavailable, failed, conflicts, settling, blocked }: PassOutcome): string {
  const changed = conflicts + settling;
  return `${unavailable} not readable, ${failed} failed, ${changed} changed meanwhile, ${blocked} blocked`;
}

/** Liveness: the loop turns. Readiness: the last pass has left nothing to do. */
function watchPulse({ health, clock }: RegenOptions) {
  let lastBeat = clock.now().getTime();
  health?.set(
    'regen-loop',
    () => {
      const now = clock.now().getTime();
      lastBeat = Math.min(lastBeat, now); // set back: a stall would not be noticed before the old time
      const idleMs = now - lastBeat;
      return idleMs < stuckMs ? { ok: true } : { ok: false, message: `no look for ${Math.round(idleMs / 1000)} s` };
    },
    'liveness',
  );
  health?.set('regen', { ok: false, message: 'nothing has been looked at yet' });
  return {
    beat(): void {
      lastBeat = clock.now().getTime();
    },
    /** The API server is away, or refuses us: the failure names which. */
    away: ({ message }: RecoveryError): void => {
      health?.set('regen', { ok: false, message });
    },
    /** Whether nothing is left to do. */
    looked(outcome: PassOutcome): boolean {
      const { unavailable, failed, conflicts, blocked } = outcome;
      const ok = unavailable + failed + conflicts + blocked === 0;
      health?.set('regen', ok ? { ok } : { ok, message: remains(outcome) });
      return ok;
    },
  };
}
