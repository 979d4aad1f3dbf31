import { describe, expect, it } from 'vitest';
import { RecoveryError } from '../../lib/errors.ts';
import type { KubeRequest } from '../../lib/kube/kube.ts';
import { aheadOf, createOtherClocks, type LeaseReading } from '../../lib/regen/other-clocks.ts';
import { FakeClock } from '../support/fake-clock.ts';

const start = new Date('2026-06-01T00:00:00Z').getTime();
const second = 1000;
const hour = 3_600_000;

interface Seen {
  /** Seconds of our clock since the start, when it was asked for; the answer takes a tenth. */
  readonly at: number;
  readonly renewed: number;
  readonly uptime?: number;
  readonly holder?: string;
}

const reading = ({ at, renewed, uptime = at + 100, holder = 'b_1' }: Seen): LeaseReading => ({
  holder,
  renewed: new Date(start + renewed * second),
  from: new Date(start + at * second),
  until: new Date(start + at * second + 100),
  uptime,
});

describe('aheadOf()', () => {
  it.each<{ name: string; first: Seen; second: Seen; want: number | undefined }>([
    { name: 'not renewed', first: { at: 0, renewed: -1 }, second: { at: 3, renewed: -1 }, want: undefined },
    {
      name: 'by another holder',
      first: { at: 0, renewed: -1 },
      second: { at: 3, renewed: 1, holder: 'c_1' },
      want: undefined,
    },
    { name: 'renewed between the two', first: { at: 0, renewed: -1 }, second: { at: 3, renewed: 1 }, want: 0 },
    {
      name: 'by a clock that is behind',
      first: { at: 0, renewed: -602 },
      second: { at: 3, renewed: -600 },
      want: 600_000,
    },
    {
      name: 'by a clock that is ahead',
      first: { at: 0, renewed: 598 },
      second: { at: 3, renewed: 600 },
      want: -596_900,
    },
    {
      name: 'over a time in which much could hide',
      first: { at: 0, renewed: -1 },
      second: { at: 130, renewed: 1 },
      want: undefined,
    },
    {
      name: 'while our clock was set',
      first: { at: 0, renewed: -1 },
      second: { at: 70, renewed: 1, uptime: 103 },
      want: undefined,
    },
    {
      name: 'while our clock was set back',
      first: { at: 0, renewed: -1 },
      second: { at: -3600, renewed: 1, uptime: 103 },
      want: undefined,
    },
  ])('$name: $want', ({ first, second: next, want }) => {
    expect(aheadOf(reading(first), reading(next))).toBe(want);
  });
});

const lease = { namespace: 'kube-system', name: 'kube-scheduler' };

/** Another machine whose leader renews every two seconds by a clock of its own, as long as it lives. */
class OtherMachine {
  readonly clock = new FakeClock(new Date(start));
  asked = 0;
  isAlive = true;
  holder = 'b_1';
  readonly #behindMs: number;
  #renewed = 0;

  constructor(behindMs: number) {
    this.#behindMs = behindMs;
  }

  readonly connection = {
    request: <T>({ path }: KubeRequest): Promise<T> => {
      this.asked += 1;
      if (!path.endsWith('/kube-system/leases/kube-scheduler')) {
        return Promise.reject(new RecoveryError('KubeForbidden', 'no'));
      }
      const now = this.clock.now().getTime() - this.#behindMs;
      if (this.isAlive) this.#renewed = Math.floor(now / 2000) * 2000;
      const renewTime = new Date(this.#renewed).toISOString().replace('Z', '000Z');
      return Promise.resolve({ spec: { holderIdentity: this.holder, renewTime } } as T);
    },
  };

  async ask(otherClocks: ReturnType<typeof createOtherClocks>): ReturnType<typeof otherClocks> {
    const answer = otherClocks(new AbortController().signal);
    const sleeps = this.clock.waiting().then(() => this.clock.advance(this.clock.nextWake ?? 0));
    await Promise.race([answer, sleeps]);
    return answer;
  }

  ours(hostName = 'a'): ReturnType<typeof createOtherClocks> {
    const { connection, clock } = this;
    return createOtherClocks({ connection, leases: [lease, { ...lease, name: 'refused' }], hostName, clock });
  }
}

describe('createOtherClocks()', () => {
  it('hears one that agrees, and one that is a year behind, after one renewal', async () => {
    const near = new OtherMachine(0);
    expect(await near.ask(near.ours())).toMatchObject([{ aheadMs: 0 }]);
    const far = new OtherMachine(365 * 24 * hour);
    const [heard] = await far.ask(far.ours());
    expect(heard?.of).toBe('"b_1", which renews the Lease "kube-system/kube-scheduler"');
    expect(heard?.aheadMs).toBeGreaterThan(364 * 24 * hour);
  });

  it('hears nothing of the dead, although their last renewal is of this very minute, and waits for them once', async () => {
    const other = new OtherMachine(0);
    const ours = other.ours();
    await other.connection.request({ method: 'GET', path: '/x/kube-system/leases/kube-scheduler' } as KubeRequest);
    other.isAlive = false;
    expect(await other.ask(ours)).toEqual([]);
    const asked = other.asked;
    expect(await other.ask(ours)).toEqual([]);
    expect(other.asked).toBe(asked + 2);
  });

  it('hears a leader of whom it has read long ago as one of whom it knows nothing', async () => {
    const other = new OtherMachine(365 * 24 * hour);
    const ours = other.ours();
    expect(await other.ask(ours)).toHaveLength(1);
    other.clock.advance(hour);
    expect(await other.ask(ours)).toHaveLength(1);
  });

  it('waits for nobody where this machine leads itself', async () => {
    const other = new OtherMachine(0);
    expect(await other.ask(other.ours('b'))).toEqual([]);
    expect(other.asked).toBe(2);
  });

  it('forgets what it has heard when its clock is set, and when another leads', async () => {
    const other = new OtherMachine(0);
    const ours = other.ours();
    expect(await other.ask(ours)).toHaveLength(1);
    other.isAlive = false;
    other.clock.advance(10 * second);
    expect(await other.ask(ours)).toHaveLength(1);
    other.clock.set(new Date(start + hour));
    expect(await other.ask(ours)).toEqual([]);
  });
});
