// A signer in the API whose certificate was damaged: put back from the bundle that holds it, reissued only where nothing
// does, and copied nowhere meanwhile.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import { encodePem } from '../../lib/pki/pem.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { bundle, chain, composed, copy, signer, target } from '../support/facts.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';
import { DiskWorld } from './disk-world.ts';

let world: DiskWorld;
let store: MemoryStore;
beforeEach(async () => {
  world = await DiskWorld.create();
  store = new MemoryStore();
  expect(await once()).toMatchObject({ converged: true, writes: 5 });
});
afterEach(() => world[Symbol.asyncDispose]());

const once = (): Promise<RegenReport> => runRegen(world.options({ resolved: chain, store }));
const entry = (row: { readonly location: Parameters<MemoryStore['peek']>[0] }, key: string): Buffer =>
  Buffer.from(store.peek(row.location)?.entries[key] ?? '');

/** With one bit of the signature flipped. */
function damaged(pem: Buffer): Buffer {
  const [whole] = parseCertificates(pem, 'test');
  const der = Buffer.from(whole?.x509.raw ?? '');
  der.writeUInt8(der.readUInt8(der.length - 3) ^ 4, der.length - 3);
  return Buffer.from(encodePem({ label: 'CERTIFICATE', der }));
}

function damageSigner(): Buffer {
  const whole = entry(signer, 'tls.crt');
  const there = store.peek(signer.location);
  store.put(signer.location, { entries: { ...there?.entries, 'tls.crt': damaged(whole) }, annotations: {} });
  return whole;
}

describe('a damaged signer in the API', () => {
  it('gets its certificate back from its bundle, and nothing else is written', async () => {
    const whole = damageSigner();
    const others = [bundle, composed, copy, target].map(({ location }) => store.peek(location)?.version);
    const report = await once();
    expect(report).toMatchObject({ converged: true, writes: 1 });
    expect(entry(signer, 'tls.crt').toString()).toBe(whole.toString());
    expect([bundle, composed, copy, target].map(({ location }) => store.peek(location)?.version)).toEqual(others);
    const told = world.lines.find(({ event }) => event === 'signer.restored');
    expect(told).toMatchObject({ artefact: 'signer', reason: 'Damaged' });
    const decided = world.lines.find(({ event, reason }) => event === 'rotation.decided' && reason === 'Damaged');
    expect(decided?.['message']).toContain('put back as bundle, composed, copy, target have it');
  });

  it('is reissued where no copy of it is left, and the damaged one comes into no bundle', async () => {
    damageSigner();
    const wrong = entry(signer, 'tls.crt');
    for (const { location } of [bundle, composed, copy]) {
      store.put(location, { entries: { 'ca-bundle.crt': wrong }, annotations: {} });
    }
    expect(await once()).toMatchObject({ converged: true });
    const [bad] = parseCertificates(wrong, 'test');
    for (const row of [bundle, composed, copy]) {
      const prints = parseCertificates(entry(row, 'ca-bundle.crt'), row.name).map(({ facts }) => facts.fingerprint);
      expect(prints).not.toContain(bad?.facts.fingerprint);
      expect(prints).toHaveLength(1);
    }
  });
});
