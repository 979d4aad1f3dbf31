// What the commands and modes know of this machine's clock.
import type { HostConfig, ToolConfig } from '../lib/config/config.ts';
import { isClockSynchronised } from '../lib/host/clock-synchronised.ts';
import type { ClockFacts } from '../lib/plan/clock-rules.ts';
import { builtAt as thisBuild } from './version.ts';

type Stated = Pick<HostConfig, 'clockSynchronised'>;

/** For a mode, which asks again and again; `thorough` costs a process. */
export const clockFactsFor =
  ({ clockSynchronised }: Stated, builtAt: Date) =>
  async (thorough: boolean): Promise<ClockFacts> => ({
    builtAt,
    synchronised: await isClockSynchronised(clockSynchronised, { thorough }),
  });

/** For `status`. Of another time nobody knows what its clock will say. */
export async function clockFactsOf(config: ToolConfig, at: Date | undefined): Promise<ClockFacts> {
  return at === undefined ? clockFactsFor(config, thisBuild)(true) : { builtAt: thisBuild, synchronised: true };
}
