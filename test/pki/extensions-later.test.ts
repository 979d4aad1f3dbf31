// What newer Go refuses and older Go loads is read, and told. test/integration/go-readers.test.ts asks Go.
import { describe, expect, it } from 'vitest';
import { mergeBundle } from '../../lib/pki/bundle.ts';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import { isDamaged } from '../../lib/pki/damage.ts';
import { laterRefused, makeLaterRefused, pemOf } from '../support/certificates/later-refused.ts';

describe('parseCertificates()', () => {
  it.each(laterRefused)('reads a CA with $name, which Go refuses since $since', async (one) => {
    const [ca] = parseCertificates(pemOf(await makeLaterRefused(one)), 'test');
    if (ca === undefined) throw new Error('no certificate');
    expect(ca.facts.newerGo).toMatch(new RegExp(`^Go ${one.since} and newer refuse it: `));
    expect(isDamaged(ca)).toBe(one.patch !== undefined);
    if (one.patch === undefined) expect(mergeBundle({ rest: [ca], now: new Date() })).toEqual([ca]);
    expect(ca.fields.basicConstraints).toEqual({ ca: true });
    expect(ca.fields.unknownCritical).toEqual([]);
  });
});

it('of several refusals the first release is told', async () => {
  const name = 'a policy that is there twice';
  const policy = laterRefused.find((one) => one.name === name);
  if (policy === undefined) throw new Error(name);
  const extensions = [...(policy.extensions ?? []), '2.5.29.14=critical,DER:04020102'];
  const [ca] = parseCertificates(pemOf(await makeLaterRefused({ ...policy, extensions })), 'test');
  expect(ca?.facts.newerGo).toBe('Go 1.23 and newer refuse it: its subject key identifier is marked critical');
});
