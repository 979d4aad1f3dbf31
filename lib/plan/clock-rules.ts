// Whether this machine's clock may be believed when something is to be signed. Pure.
// A certificate made at a wrong time is worse than an expired one: made too early it cannot be used after the clock is
// set, made too late it lives shorter or longer than it should.
import type { Resolved } from '../inventory/model.ts';
import type { Facts } from './facts.ts';
import type { ClockFacts, Reason } from './plan-types.ts';

/** Certificates of other machines may begin this much later than our clock: machines differ by seconds, not by hours. */
export const clockSkewMs = 5 * 60_000;

export interface ClockVerdict {
  readonly reason: Extract<Reason, 'ClockImplausible' | 'ClockJumped'>;
  readonly message: string;
  readonly recheckAt: Date;
}

export interface ClockInput {
  readonly resolved: Resolved;
  readonly facts: Facts;
  readonly clock: ClockFacts;
  readonly now: Date;
}

/**
 * A clock this far after the build of this program is more likely wrong than the machine was off for so long: the
 * longest-lived certificates last ten years. A synchronised clock is believed all the same.
 */
const longestOffMs = 10 * 365 * 24 * 3_600_000;

const lookAgainMs = 30_000;

/** Why nothing may be signed now, or undefined when the clock is good enough. */
export function judgeClock({ resolved, facts, clock, now }: ClockInput): ClockVerdict | undefined {
  const soon = new Date(now.getTime() + lookAgainMs);
  if (now < clock.builtAt) {
    return {
      reason: 'ClockImplausible',
      message: `the clock shows ${now.toISOString()}, before this program was built (${clock.builtAt.toISOString()}); set the clock`,
      recheckAt: soon,
    };
  }
  if (!clock.synchronised && now.getTime() > clock.builtAt.getTime() + longestOffMs) {
    return {
      reason: 'ClockImplausible',
      message:
        `the clock shows ${now.toISOString()}, more than ten years after this program was built, and is not known to be ` +
        'synchronised; set the clock, or state that it is right (regen.clockSynchronised: true)',
      recheckAt: soon,
    };
  }
  if (!clock.synchronised) {
    const early = firstFromTheFuture({ resolved, facts, now });
    if (early !== undefined) {
      return {
        reason: 'ClockImplausible',
        message:
          `${early.artefact} begins at ${early.notBefore.toISOString()}, after this machine's time ${now.toISOString()}, and the clock ` +
          'is not known to be synchronised; set the clock, or state that it is right (regen.clockSynchronised: true)',
        recheckAt: early.notBefore < soon ? early.notBefore : soon,
      };
    }
  }
  if (clock.settlesAt !== undefined && now < clock.settlesAt) {
    return {
      reason: 'ClockJumped',
      message: `the clock has jumped; nothing is signed before ${clock.settlesAt.toISOString()}`,
      recheckAt: clock.settlesAt,
    };
  }
  return undefined;
}

function firstFromTheFuture({
  resolved,
  facts,
  now,
}: Omit<ClockInput, 'clock'>): { artefact: string; notBefore: Date } | undefined {
  for (const artefact of resolved.artefacts) {
    // A self-signed one is verified by nobody, and was made by whatever clock there was: it says little, and must not
    // keep the others from being healed.
    if (artefact.kind === 'target' && artefact.issuer === undefined) continue;
    const { name } = artefact;
    const fact = facts.get(name);
    if (fact?.state !== 'present') continue;
    const early = fact.certificates.find(({ notBefore }) => notBefore.getTime() > now.getTime() + clockSkewMs);
    if (early !== undefined) return { artefact: name, notBefore: early.notBefore };
  }
  return undefined;
}
