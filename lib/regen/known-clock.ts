// What this process knows of its machine's clock, from look to look: what the machine says of it, whether it was set
// while we ran, which certificates we have dated by it while nothing confirmed it, and, when something is to be signed and nothing says
// that the clock is right, what the clocks of other machines show.
import { isConfirmed } from '../plan/clock-rules.ts';
import type { ClockFacts } from '../plan/clock-rules.ts';
import { observeClock, type ClockWatch } from './clock-watch.ts';
import type { StepResult } from './execute.ts';
import type { RegenOptions } from './options.ts';

export interface KnownClock {
  /** At the begin of each look. Costs no process and no request. */
  observe(): Promise<ClockFacts>;
  /** Whoever can say more is asked, other machines only where the API answers. May take some seconds. */
  ask(where: { readonly apiAnswers: boolean }): Promise<ClockFacts>;
  /** After a look has carried out these steps. */
  dated(steps: readonly StepResult[]): void;
}

type Asked = Pick<RegenOptions, 'clock' | 'clockFacts' | 'otherClocks' | 'log' | 'signal'>;

export function knownClock({ clock, clockFacts, otherClocks, log, signal }: Asked): KnownClock {
  let watch: ClockWatch | undefined;
  const made = new Set<string>();
  let latest: ClockFacts | undefined;

  const factsOf = async (thorough: boolean): Promise<ClockFacts> => {
    const said = await clockFacts(thorough);
    const observed = observeClock(watch, clock.now(), clock.uptimeSeconds());
    watch = observed.watch;
    const { jumpedMs, settlesAt } = observed;
    if (jumpedMs !== undefined) {
      const until = settlesAt === undefined ? {} : { recheckAt: settlesAt.toISOString() };
      log.warn('clock.jumped', { duration: jumpedMs, ...until });
    }
    latest = { ...said, made, ...(settlesAt !== undefined && { settlesAt }) };
    return latest;
  };

  return {
    observe: () => factsOf(false),
    async ask({ apiAnswers }) {
      const facts = await factsOf(true);
      if (facts.synchronised || !apiAnswers || otherClocks === undefined) return facts;
      const others = await otherClocks(signal);
      latest = { ...(await factsOf(false)), others };
      return latest;
    },
    dated(steps) {
      // What a clock has dated that is known to be right tells the time, whatever this clock shows later.
      if (latest !== undefined && isConfirmed(latest, clock.now())) return;
      for (const { artefact, certificates } of steps) {
        const [first] = certificates ?? [];
        if (first !== undefined && (artefact.kind === 'signer' || artefact.kind === 'target')) {
          made.add(first.facts.fingerprint);
        }
      }
    },
  };
}
