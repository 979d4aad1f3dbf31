import { describe, expect, it } from 'vitest';
import type { RegenConfig } from '../../lib/config/mode-settings.ts';
import { serviceName } from '../../lib/install/host.ts';
import { unitsLoaded } from '../../lib/run/metrics-file.ts';
import type { RegenRun } from '../../lib/run/regen-run.ts';

const run = (restart: boolean): RegenRun =>
  ({
    mode: { restart } as RegenConfig,
    resolved: { name: 'kubeadm', artefacts: [{ kind: 'signer' }] },
    runtime: { config: { inventory: {} } },
  }) as unknown as RegenRun;

async function asked(restart: boolean, answer: ReadonlyMap<string, string> | string) {
  const signals: AbortSignal[] = [];
  const { signal } = new AbortController();
  const show = (_units: readonly string[], given: AbortSignal) => {
    signals.push(given);
    return Promise.resolve(answer);
  };
  const loaded = await unitsLoaded(run(restart), signal, show);
  return { loaded, signals, signal };
}

describe('unitsLoaded()', () => {
  it('asks nothing in a run for which a kubelet waits', async () => {
    const { loaded, signals } = await asked(false, new Map());
    expect([loaded, signals]).toEqual([undefined, []]);
  });

  it('asks as long as its step may, and says nothing where there is no answer', async () => {
    const none = await asked(true, 'systemd does not answer');
    expect(none.loaded).toBeUndefined();
    expect(none.signals).toEqual([none.signal]);
  });

  it('is false on a machine without units', async () => {
    const { loaded } = await asked(true, new Map([[serviceName, 'LoadState=not-found']]));
    expect(loaded).toBe(false);
  });
});
