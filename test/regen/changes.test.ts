import { expect, it } from 'vitest';
import { createChanges } from '../../lib/regen/changes.ts';

const { signal } = new AbortController();

it('wait() hears what was said before it was called, once', async () => {
  const changes = createChanges();
  changes.notify();
  changes.notify();
  await changes.wait(signal);
  let heard = false;
  const second = changes.wait(signal).then(() => (heard = true));
  await Promise.resolve();
  expect(heard).toBe(false);
  changes.notify();
  await second;
  expect(heard).toBe(true);
});

it('wait() ends with its signal and keeps what is said afterwards for the next', async () => {
  const changes = createChanges();
  const stop = new AbortController();
  const first = changes.wait(stop.signal);
  stop.abort();
  await first;
  changes.notify();
  await changes.wait(signal);
});
