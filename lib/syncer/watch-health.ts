// Whether the watches of the syncer follow the API: files on disk may be as the API had them hours ago. A watch of a
// quiet object hears a bookmark about every minute, so silence means that it fails, or hangs.
import type { CheckState } from '../health.ts';
import type { WatchStatus } from '../kube/watch-object.ts';

export const longestSilenceMs = 120_000;

/** What failed is said by one of them: most often it is the same for all. */
export class WatchHealth {
  readonly #began: Date;
  readonly #statuses = new Map<string, WatchStatus>();

  constructor(began: Date) {
    this.#began = began;
  }

  /** `what`: `Secret "namespace/name"`. */
  set(what: string, status: WatchStatus): void {
    this.#statuses.set(what, status);
  }

  check(now: Date): CheckState {
    const silent = [...this.#statuses].filter(([, { lastProgress, phase }]) => {
      const since = lastProgress ?? this.#began;
      return phase !== 'stopped' && now.getTime() - since.getTime() > longestSilenceMs;
    });
    if (silent.length === 0) return { ok: true, message: `${this.#statuses.size} objects watched` };
    const names = silent.slice(0, 10).map(([what]) => what);
    const rest = silent.length > names.length ? [`and ${silent.length - names.length} more`] : [];
    const why = silent.map(([, status]) => status).find((status) => status.phase === 'waiting')?.message;
    const list = [...names, ...rest].join(', ');
    return { ok: false, message: `nothing heard for two minutes of ${list}${why === undefined ? '' : `: ${why}`}` };
  }
}
