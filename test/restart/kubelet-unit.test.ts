// The marker of the kubelet of a worker: left by a write, taken back where none came about.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RunState } from '../../lib/host/state.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { componentsOf, judgeUnit } from '../../lib/restart/decide.ts';
import { createMarkingStore, Markers } from '../../lib/restart/markers.ts';

let lockDir: string;
beforeEach(async () => {
  lockDir = await mkdtemp(join(tmpdir(), 'kubelet-restart-'));
});
afterEach(() => rm(lockDir, { recursive: true }));

const resolved = resolve(loadPreset('kubeadm-worker'), {});
const empty = { entries: {}, annotations: {} };
const found = { ...empty, version: 'first' };
const markersOf = (): Markers => new Markers({ state: new RunState(lockDir), onFailed: () => undefined });
const isMarked = async (): Promise<boolean> => (await markersOf().look('kubelet')) !== undefined;

/** `there`: the version that lies there afterwards. */
function write(outcome: 'written' | 'conflict' | Error, there = 'first'): Promise<unknown> {
  const store = {
    read: async () => ({ ...empty, version: there }),
    write: async () => {
      expect(await isMarked()).toBe(true);
      if (outcome instanceof Error) throw outcome;
      return outcome;
    },
  };
  const [location] = resolved.artefacts.flatMap((one) => (one.name === 'kubelet.conf' ? [one.location] : []));
  if (location === undefined) throw new Error('no kubelet.conf');
  return createMarkingStore(store, componentsOf(resolved), markersOf())
    .write(location, empty, found, AbortSignal.timeout(10_000))
    .catch(String);
}

it.each([
  ['stays after a write', 'written', 'second', true],
  ['is taken back after a conflict', 'conflict', 'other', false],
  ['is taken back after a write that failed', new Error('no space'), 'first', false],
  ['stays after a write that failed when the file was there', new Error('no sync'), 'second', true],
] as const)('%s', async (_, outcome, there, stays) => {
  await write(outcome, there);
  expect(await isMarked()).toBe(stays);
});

it('that an earlier run has left stays, whatever this one does', async () => {
  await write('written', 'second');
  await write(new Error('no space'));
  expect(await isMarked()).toBe(true);
});

describe('judgeUnit()', () => {
  it.each(['active/running', 'activating/auto-restart', 'failed/failed', 'activating/auto-restart-queued'])(
    '%s has read, or will not read soon: restarted by a run that does so, and kept for it by another',
    (state) => expect([judgeUnit(state, true), judgeUnit(state, false)]).toEqual(['restart', 'keep']),
  );
  it.each(['activating/start-pre', 'inactive/dead', 'deactivating/stop-sigterm'])(
    '%s reads the new one, or was stopped',
    (state) => expect([judgeUnit(state, true), judgeUnit(state, false)]).toEqual(['forget', 'forget']),
  );
  it('is kept where systemd does not answer', () => expect(judgeUnit(undefined, true)).toBe('keep'));
});
