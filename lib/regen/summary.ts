// How all artefacts stand, in one line: at the start and once a day. Without it a log that says nothing may mean that all
// is well, or that nobody looks. The deciding part is pure.
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Decision } from '../plan/plan-types.ts';

export interface Standing {
  readonly artefact: string;
  readonly decision: Decision | undefined;
  /** Of its certificate, where it has one that can expire. */
  readonly notAfter: Date | undefined;
}

export interface Summary {
  /** Artefacts that need nothing. */
  readonly count: number;
  readonly message: string;
  /** Which certificate ends first, and when. */
  readonly artefact?: string;
  readonly notAfter?: string;
}

/** Undefined where nothing was looked at. */
export function summaryOf(standings: readonly Standing[]): Summary | undefined {
  const seen = standings.filter(({ decision }) => decision !== undefined);
  if (seen.length === 0) return undefined;
  const good = seen.filter(({ decision }) => decision?.action === 'keep');
  const bad = seen.filter((one) => !good.includes(one)).map(({ artefact }) => artefact);
  const [first] = seen
    .flatMap(({ artefact, notAfter }) => (notAfter === undefined ? [] : [{ artefact, notAfter }]))
    .toSorted((a, b) => a.notAfter.getTime() - b.notAfter.getTime());
  const others = bad.length === 0 ? '' : `; not as they should be: ${bad.slice(0, 10).join(', ')}`;
  const more = bad.length > 10 ? ` and ${bad.length - 10} more` : '';
  const end = first === undefined ? '' : `; the first that ends is ${first.artefact}`;
  return {
    count: good.length,
    message: `${good.length} of ${seen.length} artefacts are good${others}${more}${end}`,
    ...(first !== undefined && { artefact: first.artefact, notAfter: first.notAfter.toISOString() }),
  };
}

const dayMs = 24 * 3_600_000;

/** Tells once a day, from the first call on. A clock that is set back tells once more. */
export class DailySummary {
  readonly #clock: Clock;
  readonly #log: Log;
  #toldAt: Date | undefined;

  constructor({ clock, log, toldAt }: { readonly clock: Clock; readonly log: Log; readonly toldAt?: Date }) {
    this.#clock = clock;
    this.#log = log;
    this.#toldAt = toldAt;
  }

  get toldAt(): Date | undefined {
    return this.#toldAt;
  }

  tell(standings: () => readonly Standing[]): void {
    const now = this.#clock.now();
    const sinceMs = this.#toldAt === undefined ? dayMs : now.getTime() - this.#toldAt.getTime();
    if (sinceMs >= 0 && sinceMs < dayMs) return;
    const summary = summaryOf(standings());
    if (summary === undefined) return;
    this.#toldAt = now;
    this.#log.info('regen.summary', summary);
  }
}
