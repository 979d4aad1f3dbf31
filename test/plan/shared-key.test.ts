// A target whose key flags name for another certificate, too: a renewal keeps the key, so without it a person must act.
import { describe, expect, it } from 'vitest';
import type { Resolved, ResolvedTarget } from '../../lib/inventory/model.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import type { Decision } from '../../lib/plan/decision.ts';
import { plan } from '../../lib/plan/plan.ts';
import { understand } from '../../lib/plan/understand.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { at, ca, onlyWhenExpired, present, signer, start, target } from '../support/facts.ts';
import { authority, leaf as leafOf, p256 } from '../pki/authority.ts';

const day = 86_400_000;
const life = { validity: 365 * day, refresh: 292 * day };
const serving: ResolvedTarget = {
  ...target,
  ...life,
  name: 'apiserver',
  issuer: 'ca',
  template: 'present',
  location: { kind: 'pemPair', certFile: '/api.crt', keyFile: '/api.key' },
  sharesKey: true,
};
const authorityOf = { kind: 'pemPair', certFile: '/ca.crt', keyFile: '/ca.key' } as const;

function decisionOf(fact: ArtefactFacts, artefact = serving): Omit<Decision, 'artefact'> | undefined {
  const resolved: Resolved = {
    name: 'host',
    artefacts: [{ ...signer, ...life, name: 'ca', owned: false, location: authorityOf }, artefact],
  };
  const facts = new Map<string, ArtefactFacts>([
    ['ca', present(ca('ca', [-1000, 2000]))],
    ['apiserver', fact],
  ]);
  const clock = { builtAt: at(-4000), synchronised: true };
  return plan({ resolved, facts, policy: onlyWhenExpired, clock, now: start }).decisions[1];
}

const broken = { state: 'broken', problem: 'unreadable', version: '1', message: 'it is torn' } as const;

describe('a key that flags name for another certificate', () => {
  it.each<readonly [string, ArtefactFacts]>([
    ['is absent with its certificate', { state: 'absent' }],
    ['cannot be read', { ...broken, hasSharedKey: false }],
    ['is absent', { ...broken, problem: 'keyAbsent', hasSharedKey: false }],
  ])('is to be brought where it %s', (_, fact) => {
    expect(decisionOf(fact)).toMatchObject({ action: 'blocked', byHand: true });
    expect(decisionOf(fact)?.message).toContain('bring the key back to pair "/api.crt"');
    const { sharesKey: _own, ...alone } = serving;
    expect(decisionOf(fact, alone)).toMatchObject({ action: 'renew' });
  });

  it.each([
    ['its certificate cannot be read', { ...broken, hasSharedKey: true }],
    ['its certificate is that of another key', { ...broken, problem: 'mismatchedPair', hasSharedKey: true }],
  ] as const)('serves a new certificate where %s', (_, fact) => {
    expect(decisionOf(fact)).toMatchObject({ action: 'renew' });
  });

  it('is known by its bytes', async () => {
    const key = await generateKey(p256);
    const { pem } = await leafOf(await authority(), { key: key.key });
    const sight = (entries: Readonly<Record<string, string>>) => {
      const bytes = Object.entries(entries).map(([name, text]) => [name, Buffer.from(text)]);
      return understand(serving, { entries: Object.fromEntries(bytes), version: '1', annotations: {} }).facts;
    };
    expect(sight({ 'tls.crt': 'torn', 'tls.key': key.pem })).toMatchObject({ hasSharedKey: true });
    expect(sight({ 'tls.crt': pem, 'tls.key': 'torn' })).toMatchObject({ hasSharedKey: false });
    expect(sight({ 'tls.crt': pem })).toMatchObject({ hasSharedKey: false });
  });
});
