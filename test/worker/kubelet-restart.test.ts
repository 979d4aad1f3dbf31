// The note that the kubelet has read something else: left by a write, taken back where none came about.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RunState } from '../../lib/host/state.ts';
import { judgeNote, writeNoted } from '../../lib/worker/kubelet-restart.ts';

let lockDir: string;
beforeEach(async () => {
  lockDir = await mkdtemp(join(tmpdir(), 'kubelet-restart-'));
});
afterEach(() => rm(lockDir, { recursive: true }));

const empty = { entries: {}, annotations: {} };
const found = { ...empty, version: 'first' };
const isNoted = async (): Promise<boolean> =>
  (await new RunState(lockDir).look('worker-restart-kubelet', (value) => value)) !== undefined;

/** `there`: the version that lies there afterwards. */
function write(outcome: 'written' | 'conflict' | Error, there = 'first'): Promise<unknown> {
  const store = {
    read: async () => ({ ...empty, version: there }),
    write: async () => {
      expect(await isNoted()).toBe(true);
      if (outcome instanceof Error) throw outcome;
      return outcome;
    },
  };
  const noting = { store, lockDir, signal: AbortSignal.timeout(10_000) };
  return writeNoted({ kind: 'pemFile', file: '/ca.crt' }, empty, found, noting).catch(String);
}

it.each([
  ['stays after a write', 'written', 'second', true],
  ['is taken back after a conflict', 'conflict', 'other', false],
  ['is taken back after a write that failed', new Error('no space'), 'first', false],
  ['stays after a write that failed when the file was there', new Error('no sync'), 'second', true],
] as const)('%s', async (_, outcome, there, stays) => {
  await write(outcome, there);
  expect(await isNoted()).toBe(stays);
});

it('that an earlier run has left stays, whatever this one does', async () => {
  await write('written', 'second');
  await write(new Error('no space'));
  expect(await isNoted()).toBe(true);
});

describe('judgeNote()', () => {
  it.each(['active/running', 'activating/auto-restart', 'failed/failed', 'activating/auto-restart-queued'])(
    '%s has read, or will not read soon: restarted by a run that does so, and kept for it by another',
    (state) => expect([judgeNote(state, true), judgeNote(state, false)]).toEqual(['restart', 'keep']),
  );
  it.each(['activating/start-pre', 'inactive/dead', 'deactivating/stop-sigterm'])(
    '%s reads the new one, or was stopped',
    (state) => expect([judgeNote(state, true), judgeNote(state, false)]).toEqual(['forget', 'forget']),
  );
  it('is kept where systemd does not answer', () => expect(judgeNote(undefined, true)).toBe('keep'));
});
