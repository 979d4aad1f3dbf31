import { describe, expect, it } from 'vitest';
import { RecoveryError } from '../../lib/errors.ts';
import type { Location, Resolved } from '../../lib/inventory/model.ts';
import type { Facts } from '../../lib/plan/facts.ts';
import { gather } from '../../lib/plan/gather.ts';
import { KeptReads } from '../../lib/regen/kept-reads.ts';
import { withKnownEntries } from '../../lib/regen/known-entries.ts';
import type { Found, Store } from '../../lib/store/store.ts';
import { authority } from '../pki/authority.ts';
import { FakeClock } from '../support/fake-clock.ts';

const { signal } = new AbortController();
const secret = (name: string) => ({ kind: 'secret', namespace: 'n', name }) as const;
const signer = (name: string) =>
  ({ kind: 'signer', name, location: secret(name), readers: [], validity: 2, refresh: 1 }) as const;
const resolved: Resolved = { name: 'r', artefacts: [signer('a'), signer('b')] };
const [a, b] = resolved.artefacts.map(({ location }) => location) as [Location, Location];
const found: Found = { version: '1', entries: {}, annotations: {} };
const slow = new RecoveryError('KubeUnavailable', 'late', { details: { slow: true } });

function counting(answer: Found = found) {
  const reads: Location[] = [];
  const store: Store = {
    read: async (location) => {
      reads.push(location);
      return answer;
    },
    write: async () => 'written',
  };
  return { store, reads };
}

describe('KeptReads', () => {
  const look = async (kept: KeptReads, failure: RecoveryError | undefined, clock: FakeClock): Promise<void> => {
    const there = await kept.store.read(a, signal);
    kept.keep(resolved, {
      found: new Map(there === undefined ? [] : [['a', there]]),
      failures: new Map(failure && [['b', failure]]),
      readAt: clock.now(),
    });
  };

  it('keeps what a look has read that was too slow for the rest, for a minute', async () => {
    const clock = new FakeClock('2026-06-01T00:00:00Z');
    const { store, reads } = counting();
    const kept = new KeptReads(store, clock);
    for (let at = 0; at < 3; at += 1) {
      await look(kept, slow, clock);
      clock.advance(25_000);
    }
    expect(reads).toEqual([a]);
    await look(kept, slow, clock);
    await kept.store.read(b, signal);
    expect(reads).toEqual([a, a, b]);
  });

  it('keeps nothing after a look that could read all, or failed by something else', async () => {
    const clock = new FakeClock('2026-06-01T00:00:00Z');
    for (const failure of [undefined, new RecoveryError('KubeForbidden', 'no')]) {
      const { store, reads } = counting();
      const kept = new KeptReads(store, clock);
      await look(kept, failure, clock);
      await look(kept, failure, clock);
      expect(reads).toEqual([a, a]);
    }
  });

  it('is no evidence that anything stands still: since when it has done so begins with what is read again', async () => {
    const clock = new FakeClock('2026-06-01T00:00:00Z');
    const { key, certificate } = await authority({
      notBefore: clock.now(),
      notAfter: new Date('2027-06-01T00:00:00Z'),
    });
    const entries = {
      'tls.crt': Buffer.from(certificate.pem),
      'tls.key': Buffer.from(key.export({ type: 'pkcs8', format: 'pem' })),
    };
    const kept = new KeptReads(counting({ ...found, entries }).store, clock);
    let previous: Facts = new Map();
    const since = async (failure?: RecoveryError): Promise<Date | undefined> => {
      const one = { ...resolved, artefacts: resolved.artefacts.slice(0, 1) };
      const gathered = await gather({ resolved: one, store: kept.store, signal, now: clock.now(), previous });
      kept.keep(resolved, { ...gathered, failures: new Map(failure && [['b', failure]]) });
      previous = gathered.facts;
      const fact = previous.get('a');
      return fact?.state === 'present' ? fact.since : undefined;
    };
    await since(slow);
    clock.advance(5000);
    expect(await since()).toEqual(clock.now()); // from what the first one kept
    const began = clock.now();
    clock.advance(5000);
    expect(await since()).toEqual(began);
  });

  it('keeps nothing of what was written', async () => {
    const clock = new FakeClock('2026-06-01T00:00:00Z');
    const { store, reads } = counting();
    const kept = new KeptReads(store, clock);
    await look(kept, slow, clock);
    await kept.store.write(a, found, { version: '1' }, signal);
    await kept.store.read(a, signal);
    expect(reads).toEqual([a, a]);
  });
});

describe('withKnownEntries()', () => {
  const read = (entries: Found['entries']) =>
    withKnownEntries(counting({ ...found, entries }).store, resolved).read(a, signal);

  it('leaves out what is large and not known, and keeps what is small', async () => {
    const [known, small] = [Buffer.alloc(300_000), Buffer.alloc(10)];
    expect(await read({ 'tls.crt': known, other: small, foreign: Buffer.alloc(65_537) })).toEqual({
      ...found,
      entries: { 'tls.crt': known, other: small },
    });
  });

  it('keeps bundles by name, and credentials for registries', async () => {
    const large = Buffer.alloc(300_000);
    const external = (content: 'bundles' | 'registryAuths') => {
      const location = { ...secret(content), content };
      return { kind: 'external', name: content, location, readers: [] } as const;
    };
    for (const [one, key] of [
      [external('bundles'), 'registry.example.com'],
      [external('registryAuths'), '.dockerconfigjson'],
    ] as const) {
      const answer = { ...found, entries: { [key]: large } };
      const store = withKnownEntries(counting(answer).store, { name: 'r', artefacts: [one] });
      expect(await store.read(one.location, signal)).toEqual(answer);
    }
  });

  it('refuses a known entry that is larger than any', async () => {
    await expect(read({ 'tls.key': Buffer.alloc(524_289) })).rejects.toThrow(
      'Cannot use Secret "n/a": its entry "tls.key" has 524289 bytes, 524288 at most are read',
    );
  });
});
