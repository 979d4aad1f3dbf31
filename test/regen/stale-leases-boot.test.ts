import { expect, test } from 'vitest';
import { systemClock, type Clock } from '../../lib/clock.ts';
import { observeBoot } from '../../lib/regen/stale-leases.ts';

const start = Date.parse('2026-11-21T08:10:00Z');
const booted = Date.parse('2026-11-21T08:00:00Z');

/** A machine that has been on for ten minutes, whose clock and uptime the test moves. */
function machine(uptimeSeconds: number | undefined = 600) {
  const at = { now: start, uptime: uptimeSeconds };
  const clock: Clock = { ...systemClock, now: () => new Date(at.now), uptimeSeconds: () => at.uptime };
  return { clock, at };
}

test('observeBoot() gives the boot time', () => {
  const { clock } = machine();
  expect(observeBoot(clock, () => booted)()).toEqual({ bootedAt: new Date(booted), clockStepped: false });
});

test('observeBoot() takes passing time for no step', () => {
  const { clock, at } = machine();
  const boot = observeBoot(clock, () => booted);
  at.now += 3_600_000;
  at.uptime = 4200;
  expect(boot()).toEqual({ bootedAt: new Date(booted), clockStepped: false });
});

test.each([
  ['forward by two hours', 7_200_000],
  ['back by two hours', -7_200_000],
  ['forward by three seconds', 3_000],
])('observeBoot() notices a clock that steps %s after the start of the process', (_title, step) => {
  const { clock, at } = machine();
  const boot = observeBoot(clock, () => booted + (at.now - start)); // btime moves with the clock
  at.now += step;
  expect(boot().clockStepped).toBe(true);
});

test('observeBoot() trusts no uptime that is not the machine’s', () => {
  const { clock } = machine(30);
  expect(observeBoot(clock, () => booted)().clockStepped).toBe(true);
});

test('observeBoot() says that nothing is known without an uptime or without the kernel’s boot time', () => {
  expect(observeBoot({ ...machine().clock, uptimeSeconds: () => undefined }, () => booted)().bootedAt).toBeUndefined();
  expect(observeBoot(machine().clock, () => undefined)().bootedAt).toBeUndefined();
});

test('observeBoot() agrees with this machine’s kernel', () => {
  const { bootedAt, clockStepped } = observeBoot(systemClock)();
  expect(clockStepped).toBe(false);
  expect(bootedAt?.getTime()).toBeLessThan(Date.now());
});
