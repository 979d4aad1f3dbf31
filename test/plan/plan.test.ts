import { describe, expect, test } from 'vitest';
import type { Resolved } from '../../lib/inventory/model.ts';
import type { ArtefactFacts, Facts } from '../../lib/plan/facts.ts';
import type { ClockFacts } from '../../lib/plan/clock-rules.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import type { Plan } from '../../lib/plan/plan.ts';
import { plan } from '../../lib/plan/plan.ts';
import {
  at,
  beforeExpiry,
  bundle,
  ca,
  chain,
  composed,
  day,
  goodClock,
  healthy,
  leaf,
  onlyWhenExpired,
  present,
  signer,
  start,
  target,
  unknownClock,
} from '../support/facts.ts';

const minute = 60_000;
const broken = (problem: 'unreadable' | 'mismatchedPair'): ArtefactFacts => ({
  state: 'broken',
  problem,
  version: '1',
  message: 'bad',
});

interface Row {
  readonly name: string;
  readonly policy?: RenewalPolicy;
  readonly change?: Record<string, ArtefactFacts>;
  readonly now?: Date;
  readonly clock?: ClockFacts;
  readonly resolved?: Resolved;
  /** artefact: `action Reason` and, where it matters, the day of the next look. Every other artefact: `keep Healthy`. */
  readonly want: Record<string, readonly [string, Date?]>;
}

function decide({
  policy = onlyWhenExpired,
  change = {},
  now = start,
  clock = goodClock,
  resolved = chain,
}: Row): Plan {
  const facts: Facts = new Map([...healthy(), ...Object.entries(change)]);
  return plan({ resolved, facts, policy, clock, now });
}

function check(row: Row): void {
  const { decisions } = decide(row);
  const got = Object.fromEntries(decisions.map((d) => [d.artefact, `${d.action} ${d.reason}`]));
  const want = Object.fromEntries(decisions.map((d) => [d.artefact, row.want[d.artefact]?.[0] ?? 'keep Healthy']));
  expect(got).toEqual(want);
  for (const [artefact, [, recheckAt]] of Object.entries(row.want)) {
    if (recheckAt === undefined) continue;
    expect(decisions.find((d) => d.artefact === artefact)?.recheckAt, `recheckAt of ${artefact}`).toEqual(recheckAt);
  }
}

const whole = (reason: string): Row['want'] => ({
  signer: [`renew ${reason}`],
  bundle: ['renew SignerMissingFromBundle'],
  composed: ['renew InputsDiffer'],
  copy: ['renew OriginalDiffers'],
});
const later = (date: Date, ms: number): Date => new Date(date.getTime() + ms);
const wrongHost = { hostnames: ['localhost'] };
const ipPair = { kind: 'pemPair', certFile: '/a.crt', keyFile: '/a.key' } as const;
const onDisk: Resolved = {
  name: 'disk',
  artefacts: [
    { ...signer, location: ipPair },
    { ...bundle, location: { kind: 'pemFile', file: '/ca' } },
    { ...target, location: ipPair },
  ],
};

const expiryRows: Row[] = [
  { name: 'everything healthy', want: { target: ['keep Healthy', later(at(29), minute)] } },
  {
    name: 'leaf one millisecond before its end',
    now: later(at(29), -1),
    want: { target: ['keep Healthy', later(at(29), minute)] },
  },
  {
    name: 'leaf expired, its rotator still has its turn',
    now: at(29),
    want: { target: ['keep InGrace', later(at(29), minute)] },
  },
  { name: 'leaf expired and grace over', now: later(at(29), minute), want: { target: ['renew Expired'] } },
  { name: 'a leaf on disk has no grace', now: at(29), resolved: onDisk, want: { target: ['renew Expired', at(29)] } },
  {
    name: 'everything expired',
    now: at(400),
    want: { ...whole('Expired'), target: ['renew Expired'] },
  },
  {
    name: 'signer expired, longer-lived leaf that it signed is no longer trusted',
    change: { target: present(leaf('leaf', [-1, 900], 'ca')) },
    now: at(100),
    want: { ...whole('Expired'), target: ['renew IssuerNotTrusted'] },
  },
  {
    name: 'signer in grace: an expired leaf waits for it',
    change: { signer: present(ca('ca', [-1, 30])), bundle: present(ca('ca', [-1, 30])) },
    now: later(at(30), 30_000),
    want: { signer: ['keep InGrace', later(at(30), minute)], target: ['blocked SignerUnusable'] },
  },
];

const brokenRows: Row[] = [
  { name: 'leaf absent', change: { target: { state: 'absent' } }, want: { target: ['renew Absent'] } },
  { name: 'leaf unreadable', change: { target: broken('unreadable') }, want: { target: ['renew Unreadable'] } },
  {
    name: 'leaf and key differ',
    change: { target: broken('mismatchedPair') },
    want: { target: ['renew MismatchedPair'] },
  },
  {
    name: 'signer absent: its valid leaf stays',
    change: { signer: { state: 'absent' } },
    want: { ...whole('Absent') },
  },
  {
    name: 'signer and leaf absent',
    change: { signer: { state: 'absent' }, target: { state: 'absent' } },
    want: { ...whole('Absent'), target: ['renew Absent'] },
  },
  {
    name: 'bundle absent: made of the live signer, the leaf stays, and what holds it all stays',
    change: { bundle: { state: 'absent' } },
    want: { bundle: ['renew Absent'] },
  },
  {
    name: 'bundle broken and the leaf by a former signer: that trust is lost',
    change: { bundle: broken('unreadable'), target: present(leaf('leaf', [-1, 29], 'former')) },
    want: { bundle: ['renew Unreadable'], target: ['renew IssuerNotTrusted'] },
  },
  {
    name: 'composed bundle absent',
    change: { composed: { state: 'absent' } },
    want: { composed: ['renew Absent'], copy: ['renew OriginalDiffers'] },
  },
  { name: 'copy differs', change: { copy: present(ca('other', [-1, 59])) }, want: { copy: ['renew OriginalDiffers'] } },
  {
    name: 'bundle lacks its live signer (crash after the signer was written)',
    change: { bundle: present(ca('old', [-90, 59])), target: present(leaf('leaf', [-90, 29], 'old')) },
    want: {
      bundle: ['renew SignerMissingFromBundle'],
      composed: ['renew InputsDiffer'],
      copy: ['renew OriginalDiffers'],
    },
  },
  {
    name: 'crash after the signer was written, leaf expired: bundle and leaf in one plan',
    change: { bundle: present(ca('old', [-90, 59])), target: present(leaf('leaf', [-90, -1], 'old')) },
    want: {
      bundle: ['renew SignerMissingFromBundle'],
      composed: ['renew InputsDiffer'],
      copy: ['renew OriginalDiffers'],
      target: ['renew Expired'],
    },
  },
  {
    name: 'leaf that its own bundle cannot verify',
    change: { target: present(leaf('leaf', [-1, 29], 'stranger')) },
    want: { target: ['renew IssuerNotTrusted'] },
  },
  {
    name: 'serving leaf lacks a declared host name',
    change: { target: present(leaf('leaf', [-1, 29], 'ca', wrongHost)) },
    want: { target: ['renew HostnameMissing'] },
  },
  {
    name: 'host names are not asked of a client certificate',
    resolved: { name: 'c', artefacts: [signer, bundle, { ...target, usage: 'client', commonName: 'c' }] },
    change: { target: present(leaf('leaf', [-1, 29], 'ca', wrongHost)) },
    want: {},
  },
  {
    name: 'leaf unavailable: nothing is concluded',
    change: { target: { state: 'unavailable', message: 'no connection' } },
    want: { target: ['blocked Unavailable', later(start, 1000)] },
  },
  {
    name: 'bundle unavailable: the leaf is not called untrusted, an expired one waits',
    change: {
      bundle: { state: 'unavailable', message: 'no connection' },
      target: present(leaf('leaf', [-9, -1], 'ca')),
    },
    want: { bundle: ['blocked Unavailable'], target: ['blocked SignerMissingFromBundle'] },
  },
  {
    name: 'signer unavailable: an expired leaf waits',
    change: { signer: { state: 'unavailable', message: 'no' }, target: present(leaf('leaf', [-9, -1], 'ca')) },
    want: { signer: ['blocked Unavailable'], target: ['blocked SignerUnusable'] },
  },
  {
    name: 'input unavailable: an absent composed bundle is not made without it',
    change: { bundle: { state: 'unavailable', message: 'no' }, composed: { state: 'absent' } },
    want: { bundle: ['blocked Unavailable'], composed: ['blocked SignerUnusable'], copy: ['blocked Unavailable'] },
  },
  {
    name: 'a key pair is never made',
    resolved: {
      name: 'k',
      artefacts: [
        { kind: 'keyPair', name: 'k', location: signer.location, readers: [], privateKey: 'a', publicKey: 'b' },
      ],
    },
    change: { k: { state: 'absent' } },
    want: { k: ['blocked NotOurs'] },
  },
];

const twoInputs: Resolved = {
  name: 'test',
  artefacts: [
    signer,
    { ...signer, name: 'other', location: { kind: 'secret', namespace: 'n', name: 'other' } },
    bundle,
    {
      ...bundle,
      name: 'other-bundle',
      location: { kind: 'configMap', namespace: 'n', name: 'other-bundle' },
      signers: ['other'],
    },
    { ...composed, inputs: ['bundle', 'other-bundle'] },
  ],
};

const settlingRows: Row[] = [
  {
    name: 'copy differs since half a second: another writer may be at work',
    change: { copy: { ...present(ca('other', [-1, 59])), since: later(start, -500) } },
    want: { copy: ['keep Settling', later(start, 500)] },
  },
  {
    name: 'copy differs since a second',
    change: { copy: { ...present(ca('other', [-1, 59])), since: later(start, -1000) } },
    want: { copy: ['renew OriginalDiffers'] },
  },
  {
    name: 'rotator has just written its signer: bundle waits, and an expired leaf with it',
    change: {
      signer: { ...present(ca('new', [0, 60])), since: start },
      target: present(leaf('leaf', [-30, -1], 'ca')),
    },
    want: {
      bundle: ['keep Settling', later(start, 1000)],
      target: ['blocked SignerMissingFromBundle', later(start, 1000)],
    },
  },
  {
    name: 'composed bundle waits for an input that is not believed yet, although another is rewritten',
    resolved: twoInputs,
    change: {
      signer: { ...present(ca('new', [0, 60])), since: start },
      other: present(ca('old', [-60, -1])),
      'other-bundle': present(ca('old', [-60, -1])),
    },
    want: {
      bundle: ['keep Settling', later(start, 1000)],
      other: ['renew Expired'],
      'other-bundle': ['renew SignerMissingFromBundle'],
      composed: ['keep Settling', later(start, 1000)],
    },
  },
  {
    name: 'leaf of an unknown signer, just written',
    change: { target: { ...present(leaf('leaf', [-1, 29], 'stranger')), since: start } },
    want: { target: ['keep Settling', later(start, 1000)] },
  },
];

/** Of a certificate that begins on day -1: its refresh time, counted from when it was made. */
const refreshDue = later(at(14), 5 * minute);
const ownerRows: Row[] = [
  {
    name: 'before the refresh time',
    policy: beforeExpiry,
    now: at(13.9),
    want: { target: ['keep Healthy', refreshDue] },
  },
  { name: 'leaf past its refresh time', policy: beforeExpiry, now: refreshDue, want: { target: ['renew RefreshDue'] } },
  {
    name: 'leaf past 80 % of a short life',
    policy: beforeExpiry,
    change: { target: present(leaf('leaf', [-1, 4], 'ca')) },
    now: later(at(3), minute), // 80 % of the time from when it was made
    want: { target: ['renew RefreshDue'] },
  },
  {
    name: 'signer too young to be trusted everywhere',
    policy: beforeExpiry,
    change: {
      signer: present(ca('ca', [13.5, 70])),
      bundle: present(ca('ca', [13.5, 70])),
      composed: present(ca('ca', [13.5, 70])),
      copy: present(ca('ca', [13.5, 70])),
      target: present(leaf('leaf', [-1, 29], 'ca')),
    },
    now: refreshDue,
    want: { target: ['keep SignerTooYoung', later(at(15), 5 * minute)] }, // NotBefore is five minutes early
  },
  {
    name: 'signer due: signer and bundles now, the leaf later',
    policy: beforeExpiry,
    now: at(29.5),
    change: { target: present(leaf('leaf', [20, 50], 'ca')) },
    want: { ...whole('RefreshDue') },
  },
  {
    name: 'signer ends soon: a renewal that gains nothing is not made',
    policy: beforeExpiry,
    resolved: { name: 't', artefacts: [{ ...signer, refresh: 59.9 * day }, bundle, target] },
    change: {
      signer: present(ca('ca', [-58, 2])),
      bundle: present(ca('ca', [-58, 2])),
      target: present(leaf('leaf', [-20, 1.9], 'ca')),
    },
    want: { signer: ['renew RefreshDue'], bundle: ['renew SignerMissingFromBundle'], target: ['keep SignerTooYoung'] },
  },
  {
    name: 'on disk the remaining time counts, not NotBefore',
    policy: beforeExpiry,
    resolved: onDisk,
    change: { target: present(leaf('leaf', [-900, 20], 'ca')) },
    want: { target: ['keep Healthy', at(5)] },
  },
  {
    name: 'on disk, less than validity - refresh left',
    policy: beforeExpiry,
    resolved: onDisk,
    change: {
      signer: present(ca('ca', [-10, 50])),
      bundle: present(ca('ca', [-10, 50])),
      target: present(leaf('leaf', [-900, 14], 'ca')),
    },
    want: { target: ['renew RefreshDue'] },
  },
  {
    name: 'expired certificates are cleared out of a bundle',
    policy: beforeExpiry,
    change: { bundle: present(ca('ca', [-1, 59]), ca('old', [-90, -1])) },
    want: { bundle: ['renew ExpiredInBundle'] },
  },
  {
    name: 'one that has ended by a clock which may be five minutes ahead stays: for others it is valid',
    policy: beforeExpiry,
    change: { bundle: present(ca('ca', [-1, 59]), ca('old', [-90, 0])) },
    now: later(start, 5 * minute - 1),
    want: { bundle: ['keep Healthy', later(start, 5 * minute)] },
  },
  {
    name: 'it is cleared out once it has ended for all',
    policy: beforeExpiry,
    change: { bundle: present(ca('ca', [-1, 59]), ca('old', [-90, 0])) },
    now: later(start, 5 * minute),
    want: { bundle: ['renew ExpiredInBundle'] },
  },
  {
    name: 'and are harmless to the one who only recovers',
    change: { bundle: present(ca('ca', [-1, 59]), ca('old', [-90, -1])) },
    want: {},
  },
];

const allExpired = { target: present(leaf('leaf', [-90, -1], 'ca')) };
const clockRows: Row[] = [
  {
    name: 'before the build date nothing is signed',
    now: at(-401),
    change: { target: { state: 'absent' } },
    want: { signer: ['blocked ClockImplausible', later(at(-401), 30_000)], target: ['blocked SignerUnusable'] },
  },
  {
    name: 'two hours back, clock unsynchronised: certificates begin in the future, nothing is signed',
    clock: unknownClock,
    change: { signer: present(ca('ca', [0.1, 59])), target: present(leaf('leaf', [0.1, 29], 'ca')) },
    want: {
      signer: ['blocked ClockImplausible'],
      target: ['blocked ClockImplausible'],
    },
  },
  {
    name: 'the same with a synchronised clock: the signer from the future is broken and remade',
    change: { ...allExpired, signer: present(ca('ca', [0.1, 59])) },
    want: { ...whole('NotYetValid'), target: ['renew Expired'] },
  },
  {
    name: 'a few minutes ahead is another machine, not a fault',
    clock: unknownClock,
    change: { target: present(leaf('leaf', [0.001, 29], 'ca')) },
    want: { target: ['keep NotYetValid', at(0.001)] },
  },
  {
    name: 'after a jump nothing is signed until the clock has settled',
    clock: { ...goodClock, settlesAt: later(start, minute) },
    change: allExpired,
    want: { target: ['blocked ClockJumped', later(start, minute)] },
  },
  {
    name: 'settled after a jump',
    clock: { ...goodClock, settlesAt: start },
    change: allExpired,
    want: { target: ['renew Expired'] },
  },
  {
    name: 'ten years after the build, clock unsynchronised: more likely a wrong clock',
    now: at(3650),
    clock: unknownClock,
    want: {
      signer: ['blocked ClockImplausible'],
      target: ['blocked SignerUnusable'],
    },
  },
  {
    name: 'nine years off is no jump: everything is renewed',
    now: at(9 * 365 - 400),
    clock: unknownClock,
    want: { ...whole('Expired'), target: ['renew Expired'] },
  },
];

describe.each([
  ['expiry and grace', expiryRows],
  ['absent and broken', brokenRows],
  ['contradictions settle first', settlingRows],
  ['BeforeExpiry', ownerRows],
  ['clock', clockRows],
])('plan(): %s', (_, rows) => {
  test.each(rows)('$name', check);
});

test('plan() orders a recovery: bundle after signer, target after signer and bundle', () => {
  const { decisions } = decide({ name: '', now: at(400), want: {} });
  const after = Object.fromEntries(decisions.map((d) => [d.artefact, d.after]));
  expect(after).toEqual({
    signer: [],
    bundle: ['signer'],
    composed: ['bundle'],
    copy: ['composed'],
    target: ['signer', 'bundle'],
  });
});

test('plan() looks again at the earliest of all times', () => {
  const result = decide({ name: '', change: { target: present(leaf('leaf', [-1, 0.01], 'ca')) }, want: {} });
  expect(result.recheckAt).toEqual(later(at(0.01), minute));
});
