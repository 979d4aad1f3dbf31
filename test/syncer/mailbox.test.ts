import { expect, test } from 'vitest';
import { Mailbox } from '../../lib/syncer/mailbox.ts';

const never = new Promise<void>(() => undefined);

test('changed() resolves at once for a value that came before, and the newest one is there', async () => {
  const mailbox = new Mailbox<number>();
  mailbox.put(1);
  mailbox.put(2);
  await mailbox.changed(never);
  expect(mailbox.newest).toBe(2);
});

test('changed() waits for the next value', async () => {
  const mailbox = new Mailbox<number>();
  mailbox.put(1);
  await mailbox.changed(never);
  const waiting = mailbox.changed(never);
  mailbox.put(2);
  await waiting;
  expect(mailbox.newest).toBe(2);
});

test('changed() ends with the time, and the value stays for another look', async () => {
  const mailbox = new Mailbox<number>();
  mailbox.put(1);
  await mailbox.changed(never);
  await mailbox.changed(Promise.resolve());
  expect(mailbox.newest).toBe(1);
});
