// How everything stands, in one line: at the start and once a day. Without it a log that says nothing may mean that all is
// well, or that nobody looks. `summaryOf` is pure.
import type { Clock } from './clock.ts';
import type { Log, LogEvent } from './log.ts';

interface Standing {
  readonly name: string;
  readonly isGood: boolean;
  /** Of its certificate, where it has one that can expire. */
  readonly notAfter: Date | undefined;
}

export interface Summary {
  /** Those that need nothing. */
  readonly count: number;
  readonly message: string;
  /** Which certificate ends first, and when. */
  readonly artefact?: string | undefined;
  readonly notAfter?: string | undefined;
}

const mostNames = 10;

/** `areGood`: what is said of those that are: `artefacts are good`. */
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
  /** By another process. */
  readonly loggedAt?: Date | undefined;
}

/** Tells once a day, from the first call on. A clock that is set back tells once more. */
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

  /** Undefined: there is nothing to tell yet. */
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
