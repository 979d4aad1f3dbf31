import { expect, it } from 'vitest';
import type { Location, Resolved } from '../../lib/inventory/model.ts';
import { createLog } from '../../lib/log.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { algorithm } from '../support/interleaving.ts';
import { MemoryStore } from '../support/memory-store.ts';

it('a process for files alone does not glance at objects', async () => {
  const store = new MemoryStore();
  const clock = new FakeClock();
  const theirs: Location = { kind: 'configMap', namespace: 'theirs', name: 'ca' };
  store.put(theirs, { entries: {}, annotations: {} });
  const resolved: Resolved = {
    name: 'both',
    artefacts: [
      { kind: 'given', name: 'theirs', truth: theirs, readers: [] },
      {
        kind: 'signer',
        name: 'own',
        owned: true,
        truth: { kind: 'pemPair', certFile: '/x/ca.crt', keyFile: '/x/ca.key' },
        readers: [],
        validity: 86_400_000 * 30,
        refresh: 86_400_000 * 15,
      },
    ],
  };
  const stop = new AbortController();
  const reads: string[] = [];
  const ended = runRegen({
    resolved,
    store: { read: (l) => (reads.push(l.kind), store.read(l)), write: store.write.bind(store) },
    clock,
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
    clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
    log: createLog({ level: 'error', write: () => undefined }),
    keyPool: createKeyPool({ algorithm, size: 0 }),
    keyAlgorithm: algorithm,
    once: false,
    dryRun: false,
    rows: 'disk',
    signal: stop.signal,
  });
  await clock.waiting();
  store.put({ kind: 'pemPair', certFile: '/x/ca.crt', keyFile: '/x/ca.key' }, undefined);
  clock.advance(30_000);
  for (let n = 0; n < 100; n += 1) {
    await clock.waiting();
    clock.advance(100);
    await new Promise(setImmediate);
  }
  stop.abort();
  await ended;

  expect(reads.filter((k) => k === 'configMap')).toEqual([]);
});
