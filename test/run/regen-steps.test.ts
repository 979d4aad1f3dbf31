// The limits of the steps of a run, against that of the unit that starts it.
import { describe, expect, it } from 'vitest';
import { timerRunMinutes } from '../../lib/install/host.ts';
import { timerWaitMinutes, workerRunMinutes } from '../../lib/install/worker-units.ts';
import { regenSteps } from '../../lib/run/regen-steps.ts';
import { afterBootMs, leasesMs, sharedMs } from '../../lib/run/run-limits.ts';

describe('regenSteps', () => {
  it('end before systemd ends the run, whatever hangs after a short repair, restart and proof', () => {
    const own = regenSteps.flatMap(({ limitMs, shares }) => (shares === true ? [] : (limitMs ?? [])));
    const ownMs = own.reduce((sum, ms) => sum + ms, 0);
    expect(sharedMs + ownMs + afterBootMs).toBeLessThan(timerRunMinutes * 60_000);
    // A worker has waited longer than the time that steps share.
    expect(timerWaitMinutes * 60_000 + ownMs + leasesMs).toBeLessThan(workerRunMinutes * 60_000);
  });

  it('leave time for others, each of those that share it', () => {
    const shared = regenSteps.filter(({ shares }) => shares === true);
    expect(shared.length).toBeGreaterThan(0);
    for (const { name, limitMs = Infinity } of shared) expect(limitMs, name).toBeLessThan(sharedMs);
  });
});
