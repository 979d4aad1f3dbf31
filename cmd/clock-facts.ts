// What `status` knows of the clock.
import { isClockSynchronised } from '../lib/clock-synchronised.ts';
import type { ToolConfig } from '../lib/config-types.ts';
import type { ClockFacts } from '../lib/plan/plan-types.ts';
import { builtAt } from './version.ts';

/** Of another time nobody knows what its clock will say. */
export async function clockFactsOf({ clockSynchronised }: ToolConfig, at: Date | undefined): Promise<ClockFacts> {
  const isKnown = at !== undefined || (await isClockSynchronised(clockSynchronised, { thorough: true }));
  return { builtAt, synchronised: isKnown };
}
