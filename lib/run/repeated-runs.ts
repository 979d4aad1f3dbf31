// Runs of regen again and again in one process: at the start, at each change of an external input in the API, and every
// half minute, by which changes of files, of the clock and of what cannot be watched are noticed. Each run takes all
// steps of a single one, and they never overlap: changes during a run make one more, and end its wait for proofs. While the API does not answer,
// runs cover files alone: no other process waits for a lock that is held until an API server answers.
import type { RegenConfig } from '../config/mode-settings.ts';
import { type ErrorCode, errorFields } from '../errors.ts';
import { Health } from '../health.ts';
import type { ResolvedArtefact } from '../inventory/model.ts';
import { isFile, isObject } from '../inventory/places.ts';
import type { WatchStatus } from '../kube/list-watch.ts';
import { namedListPath, watchPath } from '../kube/objects.ts';
import { withQuery } from '../kube/resources.ts';
import type { UnmetCondition } from '../regen/unmet.ts';
import { Wake } from '../retry.ts';
import { fieldListPath } from '../store/object-field.ts';
import { listed } from '../summary.ts';
import { createRunLog } from './run-log.ts';
import type { Connected, Runtime } from './runtime.ts';

type SingleRun = (mode: RegenConfig, runtime: Runtime | Connected) => Promise<readonly UnmetCondition[]>;

const tickMs = 30_000;

/** Resolves when the signal aborts. A failed run is logged; the next one tries again. */
export async function repeatRuns(mode: RegenConfig, runtime: Runtime | Connected, runOnce: SingleRun): Promise<void> {
  const { clock, signal, resolveAgain } = runtime;
  const wake = new Wake();
  let news = new AbortController();
  const onNews = (): void => {
    news.abort();
    wake.call();
  };
  const inputs = 'connection' in runtime ? followInputs(runtime, onNews) : undefined;
  const { log, runEnded, isNews } = createRunLog(runtime);
  const health = watchRuns(runtime);
  const single = { once: true, isOfUnit: true, isRepeated: true, health: new Health(), log };
  const events = 'events' in runtime ? { events: newsOnly(runtime.events, isNews) } : {};
  while (!signal.aborted) {
    const problem = inputs?.state.problem;
    health.began();
    news = new AbortController();
    try {
      const resolved = (await resolveAgain?.(log)) ?? runtime.resolved;
      const covered = problem === undefined ? mode : ({ ...mode, locations: 'disk' } as const);
      const unmet = await runOnce(covered, { ...runtime, ...events, ...single, resolved, news: news.signal });
      health.ended([...(problem === undefined ? [] : [problem]), ...unmet.map(({ message }) => message)]);
    } catch (err) {
      if (signal.aborted) break;
      const fields = errorFields(err);
      log.warn('run.failed', fields);
      health.ended([fields.err]);
    }
    runEnded();
    await wake.wait({ clock, signal }, tickMs);
  }
  await inputs?.ended;
}

/** Events of a problem that lasts are recorded as it is logged. */
const newsOnly = (events: Connected['events'], isNews: (text: string) => boolean): Connected['events'] => ({
  record: (event) => void (isNews(JSON.stringify(event)) && events.record(event)),
  flush: (signal) => events.flush(signal),
});

const stuckMs = 20 * 60_000;

/** Liveness: a run ends. Readiness: the last one has left nothing to do. */
function watchRuns({ health, clock }: Pick<Runtime, 'health' | 'clock'>) {
  let beganAt: Date | undefined;
  health.set(
    'regen-loop',
    () => {
      const ms = beganAt === undefined ? 0 : clock.now().getTime() - beganAt.getTime();
      return ms < stuckMs ? { ok: true } : { ok: false, message: `no end of a run for ${Math.round(ms / 1000)} s` };
    },
    'liveness',
  );
  health.set('regen', { ok: false, message: 'nothing has been looked at yet' });
  return {
    began: (): void => void (beganAt = clock.now()),
    ended(problems: readonly string[]): void {
      beganAt = undefined;
      health.set('regen', problems.length === 0 ? { ok: true } : { ok: false, message: listed(problems) });
    },
  };
}

/** Time for which a starting API server may refuse a watch that it will take. */
const refusedMs = 30_000;
/** Missing rights may be granted; until then half a minute passes before a change is noticed. */
const watchAgainMs = 3_600_000;
/** Codes of an API server that answers none of our requests. */
const away: ReadonlySet<ErrorCode> = new Set(['KubeUnavailable', 'KubeWrongAnswer', 'KubeUnauthorized']);

/** Path of the list that holds an external input in the API alone. */
function listPath({ kind, location }: ResolvedArtefact): string | [] {
  if (kind !== 'external' || isFile(location)) return [];
  if (isObject(location)) return namedListPath(location);
  return withQuery(fieldListPath(location), { fieldSelector: `metadata.name=${location.name}` });
}

/** Follows the versions of external inputs in the API until the signal aborts, and whether it answers these watches. */
function followInputs({ resolved, connection, clock, log, signal }: Connected, onNews: () => void) {
  const paths = new Set(resolved.artefacts.flatMap(listPath));
  /** Why the API is no part of the next run; undefined: it answers. */
  const state = { problem: paths.size === 0 ? undefined : 'the API server has not answered yet' };
  const met = ({ phase, code, message }: WatchStatus): void => {
    if (phase === 'waiting' && code !== undefined && away.has(code)) state.problem = message;
    else if (state.problem !== undefined && (phase === 'watching' || code !== undefined)) {
      state.problem = undefined;
      onNews();
    }
  };
  const follow = async (path: string): Promise<void> => {
    let known: string | undefined;
    const onVersion = (version: string | undefined): void => {
      if (version !== known) onNews();
      known = version;
    };
    while (!signal.aborted) {
      const refused = new AbortController();
      let since: Date | undefined;
      const onStatus = (status: WatchStatus): void => {
        met(status);
        if (status.phase === 'watching') since = undefined;
        if (status.code !== 'KubeForbidden') return;
        since ??= clock.now();
        if (clock.now().getTime() - since.getTime() >= refusedMs) refused.abort();
      };
      const watching = AbortSignal.any([signal, refused.signal]);
      await watchPath({ path, connection, onVersion, onStatus, clock, log, signal: watching });
      await clock.sleep(watchAgainMs, signal);
    }
  };
  return { state, ended: Promise.all([...paths].map(follow)) };
}
