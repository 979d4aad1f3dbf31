// Renewal ahead of time, as an administrator asks for it on a kubeadm machine: when it is due, in which window, what goes
// along, and what comes of a CA that ends. Days are counted from 2026-06-01, a Monday.
import { describe, expect, it } from 'vitest';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import type { RenewAhead, RenewalPolicy } from '../../lib/plan/decision.ts';
import { ahead, decisionsOf, hostAuthority, hostLeaf, verdictsOf, weekend } from '../support/decisions.ts';
import { at, ca, day, leaf, onlyWhenExpired, present, target } from '../support/facts.ts';

const row = (name: string, more: object = {}): ResolvedArtefact => ({ ...hostLeaf(name), ...more });
const machine = (...rows: readonly ResolvedArtefact[]): Resolved => ({
  name: 'test',
  artefacts: [hostAuthority, ...rows],
});

interface Asked {
  readonly now: number;
  readonly ahead?: RenewAhead | undefined;
  /** By name, the day on which it ends. */
  readonly ends: Readonly<Record<string, number>>;
  readonly caEnds?: number;
  readonly caRenewal?: RenewalPolicy['caRenewal'];
  readonly rows?: readonly ResolvedArtefact[];
  readonly facts?: Readonly<Record<string, ArtefactFacts>>;
}

function decide({ now, ends, caEnds = 4000, caRenewal, rows = [row('a'), row('b')], facts = {}, ...asked }: Asked) {
  return decisionsOf({
    resolved: machine(...rows),
    facts: new Map<string, ArtefactFacts>([
      ['ca', present(ca('ca', [-100, caEnds]))],
      ...Object.entries(ends).map(([name, end]) => [name, present(leaf(name, [-300, end], 'ca'))] as const),
      ...Object.entries(facts),
    ]),
    policy: { ...onlyWhenExpired, ...(caRenewal && { caRenewal }), ahead: 'ahead' in asked ? asked.ahead : ahead },
    now: at(now),
  });
}
const said = (asked: Asked) => verdictsOf(decide(asked));

const healthy = 'keep Healthy';

describe('what is due', () => {
  it.each<[string, Asked, Record<string, string>]>([
    ['nothing without the flag', { now: 0, ends: { a: 5, b: 5 }, ahead: undefined }, { a: healthy, b: healthy }],
    ['nothing before the threshold', { now: 0, ends: { a: 30.1, b: 300 } }, { a: healthy, b: healthy }],
    ['what has less life left', { now: 0, ends: { a: 30, b: 300 } }, { a: 'renew RefreshDue', b: healthy }],
    [
      'with it what is due within a day',
      { now: 0, ends: { a: 30, b: 31 } },
      { a: 'renew RefreshDue', b: 'renew RefreshDue' },
    ],
    ['nothing of a day and more', { now: 0, ends: { a: 30, b: 31.1 } }, { a: 'renew RefreshDue', b: healthy }],
    ['nothing along with what has expired', { now: 0, ends: { a: -1, b: 30.5 } }, { a: 'renew Expired', b: healthy }],
    [
      'a node with another jitter up to a tenth of the threshold before',
      { now: 0, ends: { a: 31.5, b: 300 }, ahead: { ...ahead, jitter: 0.5 } },
      { a: 'renew RefreshDue', b: healthy },
    ],
    [
      'lives that are shorter than the threshold: a third of them',
      {
        now: 0,
        ends: { a: 10, b: 10.1 - 1 / 3 + 1 },
        rows: [
          row('a', { validity: 30 * day, refresh: 20 * day }),
          row('b', { validity: 27 * day, refresh: 20 * day }),
        ],
      },
      { a: 'renew RefreshDue', b: healthy },
    ],
    [
      'an entry with a threshold of its own',
      { now: 0, ends: { a: 60, b: 60 }, rows: [row('a', { renewAhead: true, refresh: 305 * day }), row('b')] },
      { a: 'renew RefreshDue', b: healthy },
    ],
    [
      'what the kubelet rotates only when it has expired',
      { now: 0, ends: { a: 1, b: 0 }, rows: [row('a', { rotatedBy: 'kubelet' }), row('b', { rotatedBy: 'kubelet' })] },
      { a: healthy, b: 'renew Expired' },
    ],
    [
      'objects in the API not: their policy says when',
      { now: 0, ends: { a: 1, b: 300 }, rows: [row('a', { location: target.location }), row('b')] },
      { a: healthy, b: healthy },
    ],
  ])('%s', (_, asked, want) => {
    expect(said(asked)).toMatchObject(want);
  });

  it('tells when', () => {
    const { a, b } = decide({ now: 0, ends: { a: 100, b: -1 } });
    expect(a).toMatchObject({ renewsAt: at(70), recheckAt: at(70) });
    expect(b?.renewsAt).toBeUndefined();
  });
});

describe('the window', () => {
  it.each<[string, Asked, Record<string, string>]>([
    ['is waited for', { now: 0, ends: { a: 20, b: 30 }, ahead: weekend }, { a: 'keep Postponed', b: 'keep Postponed' }],
    ['is open', { now: 5.1, ends: { a: 20, b: 36 }, ahead: weekend }, { a: 'renew RefreshDue', b: 'renew RefreshDue' }],
    [
      'is no reason to let anything expire',
      { now: 0, ends: { a: 5.2, b: 5.3 }, ahead: weekend },
      { a: 'renew RefreshDue', b: 'keep Postponed' },
    ],
    [
      'is nothing to what has expired',
      { now: 0, ends: { a: 0, b: 20 }, ahead: weekend },
      { a: 'renew Expired', b: 'keep Postponed' },
    ],
  ])('%s', (_, asked, want) => {
    expect(said(asked)).toMatchObject(want);
  });

  it('begins on each node at a time of its own, in its first three quarters', () => {
    const begins = (jitter: number) => decide({ now: 0, ends: { a: 20 }, ahead: { ...weekend, jitter } })['a'];
    expect(begins(0)).toMatchObject({ recheckAt: new Date('2026-06-06T02:00:00Z') });
    expect(begins(0.5)).toMatchObject({
      recheckAt: new Date('2026-06-06T03:07:30Z'),
      renewsAt: new Date('2026-06-06T03:07:30Z'),
    });
    expect(begins(0.999)?.recheckAt.getTime()).toBeLessThan(new Date('2026-06-06T04:15:00Z').getTime());
  });

  it('in which it is due later is the one that is told', () => {
    const { a } = decide({ now: 0, ends: { a: 100 }, ahead: weekend });
    expect(a).toMatchObject({ reason: 'Healthy', recheckAt: at(70), renewsAt: new Date('2026-08-15T02:00:00Z') });
  });
});

describe('warnOnly', () => {
  it('reports what is due and renews what has expired', () => {
    const warned = decide({ now: 0, ends: { a: 20, b: -1 }, ahead: { ...ahead, warnOnly: true } });
    expect(warned['a']).toMatchObject({ action: 'keep', reason: 'WarnOnly' });
    expect(warned['a']?.renewsAt).toBeUndefined();
    expect(warned['a']?.message).toContain('only reported (warnOnly)');
    expect(warned['b']).toMatchObject({ action: 'renew', reason: 'Expired' });
  });
});

describe('a CA that ends and is only reported', () => {
  const caRenewal = 'Report';

  it('is reported, with its date and what to do', () => {
    const { ca: told, a } = decide({ now: 0, ends: { a: 200 }, caEnds: 364, caRenewal });
    expect(told).toMatchObject({ action: 'keep', reason: 'SignerEnding' });
    expect(told?.message).toMatch(/ends at 2027-05-31T.*renew it with the same key/);
    expect(a).toMatchObject({ reason: 'Healthy' });
  });

  it('lets nothing be renewed that gains less than a tenth of its life', () => {
    expect(said({ now: 0, ends: { a: 20 }, caEnds: 56, caRenewal })).toMatchObject({ a: 'keep SignerEnding' });
    expect(said({ now: 0, ends: { a: 20 }, caEnds: 57, caRenewal })).toMatchObject({ a: 'renew RefreshDue' });
    expect(decide({ now: 0, ends: { a: 20 }, caEnds: 56, caRenewal })['a']?.message).toContain(
      'its signer ca ends at 2026-07-27',
    );
  });

  it('but once, on the last day of a leaf, up to its own end', () => {
    expect(said({ now: 19, ends: { a: 20 }, caEnds: 30, caRenewal })).toMatchObject({ a: 'renew RefreshDue' });
    expect(said({ now: 29.5, ends: { a: 30 }, caEnds: 30, caRenewal })).toMatchObject({ a: 'keep SignerEnding' });
    // Outside of the window that would be its last one.
    expect(said({ now: 0, ends: { a: 5.15 }, caEnds: 30, ahead: weekend, caRenewal })).toMatchObject({
      a: 'renew RefreshDue',
    });
    expect(said({ now: 0, ends: { a: 6.5 }, caEnds: 30, ahead: weekend, caRenewal })).toMatchObject({
      a: 'keep SignerEnding',
    });
  });

  it('whose key is elsewhere stays by hand', () => {
    const elsewhere = {
      ...present(ca('ca', [-100, 300])),
      state: 'broken',
      problem: 'keyAbsent',
      message: 'x',
    } as const;
    const got = decide({ now: 0, ends: { a: 20 }, facts: { ca: elsewhere } });
    expect(got).toMatchObject({ ca: { reason: 'SignerEnding' }, a: { action: 'keep', reason: 'SignerExternal' } });
    expect(got['ca']?.message).toMatch(/valid until 2027-03-28T.*renew it with the same key/);
    const later = { ...elsewhere, certificates: [ca('ca', [-100, 500])] };
    expect(said({ now: 0, ends: { a: 20 }, facts: { ca: later } })).toMatchObject({ ca: 'keep NotOurs' });
  });
});
