import { expect, it } from 'vitest';
import type { Location, Resolved } from '../../lib/inventory/model.ts';
import { createLog } from '../../lib/log.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { signSigner } from '../../lib/pki/sign.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { algorithm } from '../support/interleaving.ts';
import { MemoryStore } from '../support/memory-store.ts';

it('a row that cannot be written keeps nobody from seeing what others bring', async () => {
  const store = new MemoryStore();
  const clock = new FakeClock();
  const theirs: Location = { kind: 'configMap', namespace: 'theirs', name: 'ca' };
  const ours: Location = { ...theirs, namespace: 'ours' };
  const refused: Location = { kind: 'secret', namespace: 'ours', name: 'refused' };
  const resolved: Resolved = {
    name: 'both',
    artefacts: [
      { kind: 'given', name: 'theirs', truth: theirs, readers: [] },
      { kind: 'signer', name: 'own', truth: refused, readers: [], validity: 86_400_000 * 30, refresh: 86_400_000 * 15 },
      { kind: 'copy', name: 'ours', truth: ours, of: 'theirs', readers: [] },
    ],
  };
  const stop = new AbortController();
  const ended = runRegen({
    resolved,
    store: {
      read: (l) => store.read(l),
      write: (l, next, seen) => (l === refused ? Promise.reject(new Error('denied')) : store.write(l, next, seen)),
    },
    clock,
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
    clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
    log: createLog({ level: 'error', write: () => undefined }),
    keyPool: createKeyPool({ algorithm, size: 0 }),
    keyAlgorithm: algorithm,
    once: false,
    dryRun: false,
    signal: stop.signal,
  });
  // Six failures: the next look is 6.4 s away or more.
  for (let ms = 0; ms < 6500; ms += 50) {
    await clock.waiting();
    clock.advance(50);
    await new Promise(setImmediate);
  }
  const { key } = await generateKey(algorithm);
  const [now, notAfter] = [clock.now(), new Date(clock.now().getTime() + 86_400_000)];
  const pem = await signSigner({ commonName: 'theirs', key, notBefore: now, notAfter, now });
  store.put(theirs, { entries: { 'ca-bundle.crt': Buffer.from(pem) }, annotations: {} });
  for (let ms = 0; ms < 300; ms += 50) {
    await clock.waiting();
    clock.advance(50);
    await new Promise(setImmediate);
  }
  await clock.waiting();
  expect(store.peek(ours)).toBeDefined();
  stop.abort();
  await ended;
});
