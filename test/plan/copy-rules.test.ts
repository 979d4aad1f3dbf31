// A copy that is promoted: decision, reason and next look of each state.
import { describe, expect, it, test } from 'vitest';
import type { Copy, ResolvedArtefact, Signer } from '../../lib/inventory/model.ts';
import { topologicalOrder } from '../../lib/inventory/order.ts';
import type { CertificateFacts } from '../../lib/pki/certificate.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { plan } from '../../lib/plan/plan.ts';
import type { ClockFacts } from '../../lib/plan/clock-rules.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import type { Plan } from '../../lib/plan/plan.ts';
import {
  at,
  beforeExpiry,
  bundle,
  ca,
  certificate,
  composed,
  day,
  goodClock,
  leaf,
  onlyWhenExpired,
  present,
  signer,
  start,
  target,
  unknownClock,
} from '../support/facts.ts';

const minute = 60_000;
const later = (date: Date, ms: number): Date => new Date(date.getTime() + ms);
const secret = (name: string) => ({ kind: 'secret', namespace: 'n', name }) as const;
const configMap = (name: string) => ({ kind: 'configMap', namespace: 'n', name }) as const;

const next: Signer = { ...signer, name: 'next', location: secret('next'), issuer: 'signer', validity: 30 * day };
const nextRow: Signer = { ...next, refresh: 15 * day };
const used: Copy = {
  kind: 'copy',
  name: 'used',
  location: secret('used'),
  readers: [],
  of: 'next',
  promoteAfter: 5 * minute,
};
const rows: readonly ResolvedArtefact[] = [
  signer,
  bundle,
  nextRow,
  { ...bundle, name: 'next-ca', location: configMap('next-ca'), signers: ['next'] },
  { ...composed, inputs: ['next-ca', 'bundle'] },
  used,
];

/** An intermediate, valid for 30 days from that many milliseconds after the start; NotBefore is five minutes earlier. */
const made = (print: string, ms: number, by = 'ca'): CertificateFacts =>
  certificate(print, [0, 0], {
    isCa: true,
    notBefore: later(start, ms - 5 * minute),
    notAfter: later(start, ms + 30 * day),
    signedBy: [by],
    commonName: `${print}@1780272000`,
  });
const root = ca('ca', [-20, 40]);
const old = made('old', -20 * day);
const fresh = made('fresh', 0);

/** Renewed at the start: the bundles hold both, the old one is in use. */
const renewedJustNow = (): Map<string, ArtefactFacts> =>
  new Map<string, ArtefactFacts>([
    ['signer', present(root)],
    ['bundle', present(root)],
    ['next', present(fresh)],
    ['next-ca', present(old, fresh)],
    ['composed', present(old, fresh, root)],
    ['used', present(old)],
  ]);

const broken = (problem: 'unreadable' | 'mismatchedPair', since?: Date): ArtefactFacts => ({
  state: 'broken',
  problem,
  version: '1',
  message: 'bad',
  certificates: [old],
  ...(since !== undefined && { since }),
});
const absent: ArtefactFacts = { state: 'absent' };
const unavailable: ArtefactFacts = { state: 'unavailable', message: 'no answer' };

interface Row {
  readonly name: string;
  readonly policy?: RenewalPolicy;
  readonly now?: Date;
  readonly change?: Record<string, ArtefactFacts>;
  readonly by?: ClockFacts;
  readonly rows?: readonly ResolvedArtefact[];
  readonly want: string;
  readonly recheckAt?: Date;
  readonly after?: readonly string[];
}

function planned({
  policy = beforeExpiry,
  now = start,
  change = {},
  by = goodClock,
  rows: given = rows,
}: Partial<Row>): Plan {
  const { ordered } = topologicalOrder(given);
  const facts = new Map([...renewedJustNow(), ...Object.entries(change)]);
  return plan({ resolved: { name: 'test', artefacts: ordered }, facts, policy, clock: by, now });
}

function check({ want, recheckAt, after, ...row }: Row): void {
  const decision = planned(row).decisions.find(({ artefact }) => artefact === 'used');
  expect(`${decision?.action} ${decision?.reason}`).toBe(want);
  if (recheckAt !== undefined) expect(decision?.recheckAt).toEqual(recheckAt);
  if (after !== undefined) expect(decision?.after).toEqual(after);
}

const due = later(start, 5 * minute);
const ageRows: Row[] = [
  {
    name: 'both begin in the future, and nobody says that the clock is right',
    change: { next: present(made('early', 20 * day)), used: present(made('early', 20 * day)) },
    by: unknownClock,
    want: 'blocked ClockImplausible',
  },
  { name: 'its original has just been made', want: 'keep NotPromotedYet', recheckAt: due },
  { name: 'a millisecond before its time', now: later(due, -1), want: 'keep NotPromotedYet', recheckAt: due },
  { name: 'at its time', now: due, want: 'renew OriginalDiffers', recheckAt: due, after: [] },
  {
    name: 'at its time, who only recovers leaves it to the owner',
    policy: onlyWhenExpired,
    now: due,
    want: 'keep NotPromotedYet',
    recheckAt: later(due, minute + 1000),
  },
  {
    name: 'after the turn of the owner',
    policy: onlyWhenExpired,
    now: later(due, minute + 1000),
    want: 'renew OriginalDiffers',
  },
  {
    name: 'who only recovers is the owner of what recovery stands on',
    policy: onlyWhenExpired,
    now: due,
    rows: rows.map((row) => (row.name === 'next' ? { ...nextRow, renewAhead: true } : row)),
    want: 'renew OriginalDiffers',
  },
  {
    name: 'it holds what its original holds',
    change: { used: present(fresh) },
    want: 'keep Healthy',
    recheckAt: later(fresh.notAfter, minute),
  },
  {
    name: 'somebody has overwritten it by another that is valid',
    change: { used: present(made('other', -day)) },
    want: 'keep NotPromotedYet',
    recheckAt: due,
  },
  {
    name: 'somebody has overwritten it long ago, its original is old enough',
    now: at(1),
    change: { used: present(made('other', -day)) },
    want: 'renew OriginalDiffers',
  },
  {
    name: 'somebody has just overwritten it',
    now: at(1),
    change: { used: { ...present(made('other', -day)), since: later(at(1), -400) } },
    want: 'keep Settling',
    recheckAt: later(at(1), 600),
  },
  {
    name: 'what it holds ends before its time',
    change: { used: present({ ...old, notAfter: later(start, minute) }) },
    want: 'keep NotPromotedYet',
    recheckAt: later(start, 2 * minute),
  },
];

const deadRows: Row[] = [
  { name: 'absent', change: { used: absent }, want: 'renew Absent', after: [] },
  { name: 'unreadable', change: { used: broken('unreadable') }, want: 'renew Unreadable' },
  { name: 'certificate and key differ', change: { used: broken('mismatchedPair') }, want: 'renew MismatchedPair' },
  {
    name: 'certificate and key of files differ since half a second',
    change: { used: broken('mismatchedPair', later(start, -500)) },
    want: 'keep Settling',
    recheckAt: later(start, 500),
  },
  {
    name: 'expired, within its grace',
    change: { used: present({ ...old, notAfter: later(start, -1000) }) },
    want: 'keep InGrace',
    recheckAt: later(start, minute - 1000),
  },
  {
    name: 'expired, and its grace is over',
    change: { used: present({ ...old, notAfter: later(start, -minute) }) },
    want: 'renew Expired',
  },
  { name: 'not valid for days', change: { used: present(made('ahead', 9 * day)) }, want: 'renew NotYetValid' },
  {
    name: 'signed by nobody who is trusted any more',
    change: { used: present(made('old', -day, 'gone')) },
    want: 'renew IssuerNotTrusted',
  },
  {
    name: 'signed by nobody who is trusted, just written',
    change: { used: { ...present(made('old', -day, 'gone')), since: start } },
    want: 'keep Settling',
    recheckAt: later(start, 1000),
  },
  { name: 'it could not be read', change: { used: unavailable }, want: 'blocked Unavailable' },
];

const samePlanRows: Row[] = [
  {
    name: 'everything has expired: after its original and all that must know that',
    policy: onlyWhenExpired,
    now: at(400),
    want: 'renew Expired',
    after: ['next', 'next-ca', 'composed'],
  },
  {
    name: 'original renewed, what is here works: kept until its time',
    change: { next: absent },
    want: 'keep NotPromotedYet',
    recheckAt: due,
  },
  {
    name: 'original renewed ahead of time',
    now: at(20),
    change: { next: present(fresh), used: present(fresh), signer: present(ca('ca', [-1, 59])) },
    want: 'keep NotPromotedYet',
    recheckAt: later(at(20), 5 * minute),
  },
  {
    name: 'original renewed, and here is nothing',
    change: { next: absent, used: absent },
    want: 'renew Absent',
    after: ['next', 'next-ca', 'composed'],
  },
  {
    name: 'original and copy hold the same certificate, whose signer is lost',
    change: {
      signer: absent,
      bundle: absent,
      next: present(old),
      'next-ca': present(old),
      composed: present(old, root),
    },
    want: 'renew IssuerNotTrusted',
    after: ['next', 'next-ca', 'composed'],
  },
];

const unfitRows: Row[] = [
  { name: 'original not read, copy works', change: { next: unavailable }, want: 'keep NotPromotedYet' },
  { name: 'original not read, copy absent', change: { next: unavailable, used: absent }, want: 'blocked Unavailable' },
  {
    name: 'original broken and its signer not at hand, copy works',
    change: { signer: unavailable, next: broken('unreadable') },
    want: 'keep NotPromotedYet',
    recheckAt: later(start, 30_000),
  },
  {
    name: 'original broken and its signer not at hand, copy absent',
    change: { signer: unavailable, next: broken('unreadable'), used: absent },
    want: 'blocked Unavailable',
  },
  {
    name: 'original whole, but blocked: nobody trusts its signer, which cannot be used',
    now: at(1),
    change: { signer: unavailable, next: present(made('fresh', 0, 'gone')), used: absent },
    want: 'blocked Unavailable',
  },
  {
    name: 'original has just been written, and is not believed yet; copy absent',
    change: { next: { ...present(made('fresh', 0, 'gone')), since: later(start, -300) }, used: absent },
    want: 'blocked Unavailable',
    recheckAt: later(start, 700),
  },
  {
    name: 'original is left alone because nobody reads it, and holds the same: not written again and again',
    rows: [
      signer,
      bundle,
      { ...target, name: 'next', supersededBy: 'newer' },
      { ...target, name: 'newer', location: secret('newer') },
      used,
    ],
    change: {
      next: present(leaf('leaf', [-9, 20], 'gone')),
      newer: present(leaf('newer', [-9, 20], 'ca')),
      used: present(leaf('leaf', [-9, 20], 'gone')),
    },
    want: 'blocked Unavailable',
  },
  {
    name: 'original expired, in its grace; copy absent',
    change: { next: present({ ...fresh, notAfter: start }), used: absent },
    want: 'blocked Unavailable',
  },
  {
    name: 'original expired, in its grace; copy is another that works',
    now: at(1),
    change: { next: present({ ...fresh, notAfter: at(1) }) },
    want: 'keep NotPromotedYet',
  },
  {
    name: 'the bundle of the original cannot be read: due, and kept',
    now: at(1),
    change: { 'next-ca': unavailable },
    want: 'keep NotPromotedYet',
  },
  {
    name: 'the bundle of the original cannot be read, copy absent',
    now: at(1),
    change: { 'next-ca': unavailable, used: absent },
    want: 'blocked SignerMissingFromBundle',
  },
  {
    name: 'the bundle settles, copy absent',
    change: { 'next-ca': { ...present(old), since: start }, used: absent },
    want: 'blocked SignerMissingFromBundle',
    recheckAt: later(start, 1000),
  },
  {
    name: 'what is composed of the bundle cannot be read: due, and kept',
    now: at(1),
    change: { composed: unavailable },
    want: 'keep NotPromotedYet',
  },
  {
    name: 'what is composed of the bundle cannot be read, copy absent: recovery does not wait for it',
    change: { composed: unavailable, used: absent },
    want: 'renew Absent',
  },
  {
    name: 'the bundle is written in the same plan',
    now: at(1),
    change: { 'next-ca': present(old), composed: present(old, root) },
    want: 'renew OriginalDiffers',
    after: ['next-ca', 'composed'],
  },
];

const between: Copy = { kind: 'copy', name: 'between', location: secret('between'), readers: [], of: 'next' };
const overTwo = [...rows.filter(({ name }) => name !== 'used'), between, { ...used, of: 'between' }];
const promotedLeaf = [signer, bundle, { ...target, name: 'next' }, used];
const server = (print: string, days: readonly [number, number], by = 'ca'): ArtefactFacts =>
  present(leaf(print, days, by));
const otherShapes: Row[] = [
  {
    name: 'over another copy, which follows at once',
    rows: overTwo,
    change: { between: present(old) },
    want: 'keep NotPromotedYet',
    recheckAt: due,
  },
  {
    name: 'over another copy, everything expired',
    rows: overTwo,
    now: at(400),
    change: { between: present(old) },
    want: 'renew Expired',
    after: ['between', 'next-ca', 'composed'],
  },
  {
    name: 'over another copy, which is absent, at its time',
    rows: overTwo,
    now: due,
    change: { between: absent },
    want: 'renew OriginalDiffers',
    after: ['between'],
  },
  {
    name: 'a signer in one bundle with its issuer, whose former certificate is not in it any more',
    rows: [signer, { ...bundle, signers: ['signer', 'next'] }, nextRow, used],
    change: { signer: present(ca('ca2', [-1, 59])), bundle: present(ca('ca2', [-1, 59]), fresh), used: present(fresh) },
    want: 'keep Healthy',
  },
  {
    name: 'a leaf, young',
    rows: promotedLeaf,
    change: { next: server('new', [0, 20]), used: server('old', [-9, 9]) },
    want: 'keep NotPromotedYet',
    recheckAt: later(due, 5 * minute), // it begins at the start, so it may have been made five minutes later
  },
  {
    name: 'a leaf, old enough',
    rows: promotedLeaf,
    now: at(1),
    change: { next: server('new', [0, 20]), used: server('old', [-9, 9]) },
    want: 'renew OriginalDiffers',
  },
  {
    name: 'a leaf, with its signer',
    rows: promotedLeaf,
    now: at(400),
    change: { next: server('new', [0, 20]), used: server('old', [-9, 9]) },
    want: 'renew Expired',
    after: ['next', 'bundle'],
  },
];

describe('plan(): a promoted copy', () => {
  describe('goes by the age of its original', () => test.each(ageRows)('$name', check));
  describe('is made at once where it cannot be used', () => test.each(deadRows)('$name', check));
  describe('and its original in one plan', () => test.each(samePlanRows)('$name', check));
  describe('never gets what cannot be used, or is not known', () => test.each(unfitRows)('$name', check));
  describe('of other shapes', () => test.each(otherShapes)('$name', check));

  it('asks a person where its original must be brought', () => {
    const given = rows.map((row) => (row.name === 'next' ? { ...nextRow, owned: false } : row));
    const { decisions } = planned({ rows: given, change: { next: absent, used: absent } });
    expect(decisions.find(({ artefact }) => artefact === 'used')).toMatchObject({ action: 'blocked', byHand: true });
  });
});
