// Weeks of a copy that is promoted, on a simulated control plane of the preset kubernetes: its CSR signer.
import { describe, expect, it } from 'vitest';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { at, beforeExpiry, goodClock, onlyWhenExpired, start } from '../support/facts.ts';
import { SimulatedCluster } from '../support/stories/simulated-cluster.ts';

const minute = 60_000;
const later = (date: Date, ms: number): Date => new Date(date.getTime() + ms);

describe('the kubernetes preset', () => {
  const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: [] } });
  const made0 = (): SimulatedCluster => {
    const cluster = new SimulatedCluster(resolved);
    cluster.make('etcd-signer', start); // only `init render` does
    cluster.act('init', beforeExpiry, goodClock, start);
    cluster.writes.length = 0;
    return cluster;
  };
  const ticks = function* (until: Date): Generator<Date> {
    for (let now = start; now < until; now = later(now, 4 * 3_600_000)) {
      // The day's change, and then closely what follows from it.
      for (let ms = 0; ms <= 8 * minute; ms += minute / 2) yield later(now, ms);
    }
  };

  it(
    'has each CSR signer in use five minutes after it was made, and always one that works',
    { timeout: 60_000 },
    () => {
      const cluster = made0();
      for (const now of ticks(at(61))) {
        cluster.act('us', beforeExpiry, goodClock, now);
        expect(cluster.unusable(now)).toEqual([]);
      }
      const times = (name: string): number[] =>
        cluster.writes.filter(({ artefact }) => artefact === name).map((write) => write.at.getTime());
      const [renewals, promotions] = [times('next-csr-signer'), times('csr-signer')];
      expect(renewals.length).toBeGreaterThanOrEqual(3);
      expect(promotions).toEqual(renewals.map((time) => time + 5 * minute));
    },
  );

  it('beside an owner gets no write from who only recovers', { timeout: 60_000 }, () => {
    const cluster = made0();
    for (const now of ticks(at(61))) {
      cluster.act('us', onlyWhenExpired, goodClock, now);
      cluster.act('owner', beforeExpiry, goodClock, later(now, 1000));
    }
    expect(cluster.writes.filter(({ by }) => by === 'us')).toEqual([]);
    expect(cluster.writes.filter(({ artefact }) => artefact === 'csr-signer').length).toBeGreaterThanOrEqual(3);
  });
});
