import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Room } from '../../lib/syncer/room.ts';

it('take() lets in, in the order of the calls, what there is room for, and what needs more than all when all is free', async () => {
  const room = new Room(10);
  const entered: number[] = [];
  const leaves = new Map<number, () => void>();
  const enter = async (bytes: number): Promise<void> => {
    leaves.set(bytes, await room.take(bytes));
    entered.push(bytes);
  };
  for (const bytes of [6, 3, 4, 1, 99]) void enter(bytes);
  await setImmediate();
  expect(entered).toEqual([6, 3]);
  leaves.get(3)?.();
  await setImmediate();
  expect(entered).toEqual([6, 3, 4]); // 1 does not pass it by
  leaves.get(6)?.();
  await setImmediate();
  expect(entered).toEqual([6, 3, 4, 1]);
  leaves.get(4)?.();
  leaves.get(1)?.();
  await setImmediate();
  expect(entered).toEqual([6, 3, 4, 1, 99]);
});
