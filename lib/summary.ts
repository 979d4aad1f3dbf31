// The state of all artefacts, in one line: at the start and once a day. Without it a silent log may mean that all is
// well, or that no process is running. `summaryOf` is pure.
import type { Clock } from './clock.ts';
import type { Log, LogEvent } from './log.ts';

interface Standing {
  readonly name: string;
  readonly isGood: boolean;
  /** notAfter of its certificate, where it has one. */
  readonly notAfter: Date | undefined;
}

export interface Summary {
  /** Number of good artefacts. */
  readonly count: number;
  readonly message: string;
  /** Artefact whose certificate expires first, and its notAfter. */
  readonly artefact?: string | undefined;
  readonly notAfter?: string | undefined;
}

const mostNames = 10;

/** `areGood`: the words for the good ones: `artefacts are good`. */
export function summaryOf(standings: readonly Standing[], areGood: string): Summary {
  const bad = standings.filter(({ isGood }) => !isGood).map(({ name }) => name);
  const count = standings.length - bad.length;
  const [first] = standings
    .flatMap(({ name, notAfter }) => (notAfter === undefined ? [] : [{ name, notAfter }]))
    .toSorted((a, b) => a.notAfter.getTime() - b.notAfter.getTime());
  const others = bad.length === 0 ? '' : `; not as they should be: ${listed(bad)}`;
  const end = first === undefined ? '' : `; the first that ends is ${first.name}`;
  return {
    count,
    message: `${count} of ${standings.length} ${areGood}${others}${end}`,
    artefact: first?.name,
    notAfter: first?.notAfter.toISOString(),
  };
}

/** The first ten, and how many more there are. */
export function listed(names: readonly string[]): string {
  const rest = names.length - mostNames;
  return [...names.slice(0, mostNames), ...(rest > 0 ? [`and ${rest} more`] : [])].join(', ');
}

const dayMs = 24 * 3_600_000;

interface DailySummaryOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly event: LogEvent;
  /** Last summary of another process. */
  readonly loggedAt?: Date | undefined;
}

/** Logs once a day, from the first call on. After a clock is set back, once more. */
export class DailySummary {
  readonly #options: DailySummaryOptions;
  #loggedAt: Date | undefined;

  constructor(options: DailySummaryOptions) {
    this.#options = options;
    this.#loggedAt = options.loggedAt;
  }

  get loggedAt(): Date | undefined {
    return this.#loggedAt;
  }

  /** `summary` returns undefined while there is nothing to log yet. */
  tell(summary: () => Summary | undefined): void {
    const { clock, log, event } = this.#options;
    const now = clock.now();
    const sinceMs = this.#loggedAt === undefined ? dayMs : now.getTime() - this.#loggedAt.getTime();
    if (sinceMs >= 0 && sinceMs < dayMs) return;
    const found = summary();
    if (found === undefined) return;
    this.#loggedAt = now;
    log.info(event, found);
  }
}
