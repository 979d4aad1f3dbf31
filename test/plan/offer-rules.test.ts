// A target of which somebody else makes the next pair: when its source is asked, and what comes of the answer.
import { beforeAll, describe, expect, it, test } from 'vitest';
import type { Resolved, ResolvedTarget } from '../../lib/inventory/model.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import type { RenewAhead } from '../../lib/plan/decision.ts';
import type { ArtefactFacts, Offer } from '../../lib/plan/facts.ts';
import { type Authority, authority, day as dayOf, leaf as signedLeaf, now } from '../pki/authority.ts';
import { decisionsOf, hostAuthority, hostLeaf, pairOf } from '../support/decisions.ts';
import { ca, day, goodClock, leaf, onlyWhenExpired, present, unknownClock } from '../support/facts.ts';

const etcdCa = { ...hostAuthority, name: 'etcd-ca', location: pairOf('etcd-ca') };
const pair: ResolvedTarget = {
  ...hostLeaf('pair'),
  issuer: 'etcd-ca',
  usage: 'client',
  hostnames: [],
  mayBeOfOthers: true,
};
const machine: Resolved = { name: 'host', artefacts: [etcdCa, pair] };
const place = 'Secret "a/b"';

let authorityOfEtcd: Authority;
let later: Certificate;
beforeAll(async () => {
  authorityOfEtcd = await authority({ commonName: 'etcd-ca', notBefore: dayOf(-100), notAfter: dayOf(1000) });
  later = await signedLeaf(authorityOfEtcd, {
    commonName: 'c',
    hostnames: [],
    usage: 'client',
    notBefore: dayOf(-1),
    notAfter: dayOf(300),
  });
});

/** Its key is on another machine. */
const closedCa: ArtefactFacts = {
  state: 'broken',
  problem: 'keyAbsent',
  version: '1',
  message: 'its key is not there',
  certificates: [ca('etcd-ca', [-100, 1000], { subject: 'CN=etcd-ca' })],
};
const ends = (days: number): ArtefactFacts =>
  present(leaf('former', [days - 365, days], 'etcd-ca', { issuer: 'CN=etcd-ca' }));
const absent: ArtefactFacts = { state: 'absent' };

interface Given {
  readonly fact: ArtefactFacts;
  readonly authority?: ArtefactFacts;
  readonly offer?: Omit<Offer, 'place'>;
  readonly clock?: typeof goodClock;
  /** Of `--renew-before`. */
  readonly beforeDays?: number;
  readonly more?: Partial<RenewAhead>;
}

function decide({ fact, authority: etcd = closedCa, offer, clock = goodClock, beforeDays, more }: Given) {
  const facts = new Map([
    ['etcd-ca', etcd],
    ['pair', fact],
  ]);
  const offers = new Map(offer === undefined ? [] : [['pair', { place, ...offer }]]);
  const ahead = { beforeMs: (beforeDays ?? 0) * day, signerBeforeMs: day, jitter: 0, warnOnly: false, ...more };
  const policy = beforeDays === undefined ? onlyWhenExpired : { ...onlyWhenExpired, ahead };
  const found = decisionsOf({ resolved: machine, facts, policy, clock, now, offers })['pair'];
  if (found === undefined) throw new Error('no decision');
  return found;
}

const minutesAgo = (minutes: number): Date => new Date(now.getTime() - minutes * 60_000);
const offered = (): Omit<Offer, 'place'> => ({
  answer: { offered: later, present: undefined, authorities: [authorityOfEtcd.certificate] },
});

describe('when its source is asked', () => {
  test.each<[string, Given, boolean]>([
    ['it has expired', { fact: ends(-1), offer: {} }, true],
    ['it has expired, and was asked a minute ago', { fact: ends(-1), offer: { askedAt: minutesAgo(1) } }, true],
    ['it is absent', { fact: absent, offer: {} }, true],
    ['it ends within a fifth of its life', { fact: ends(60), offer: {} }, true],
    ['it ends, and was asked a minute ago', { fact: ends(60), offer: { askedAt: minutesAgo(1) } }, false],
    ['it ends, and was asked an hour ago', { fact: ends(60), offer: { askedAt: minutesAgo(60) } }, true],
    ['it ends, and was asked by a clock that was ahead', { fact: ends(60), offer: { askedAt: minutesAgo(-9) } }, true],
    ['it is good for long', { fact: ends(300), offer: {} }, false],
    ['it is due by the threshold of the administrator', { fact: ends(100), offer: {}, beforeDays: 110 }, true],
    ['it has no source', { fact: ends(-1) }, false],
    ['it could not be read', { fact: { state: 'unavailable', message: 'EIO' }, offer: {} }, false],
  ])('%s', (_, given, asks) => expect(decide(given).obtains).toBe(asks ? 'fetch' : undefined));

  it('what this machine can renew is renewed here', () => {
    const open = present(ca('etcd-ca', [-100, 1000], { subject: 'CN=etcd-ca' }));
    const decision = decide({ fact: ends(-1), authority: open, offer: {} });
    expect(decision).toMatchObject({ action: 'renew', reason: 'Expired' });
    expect(decision.obtains).toBeUndefined();
  });

  it('nobody has to bring it by hand before that', () => {
    expect(decide({ fact: ends(-1), offer: {} })).toMatchObject({ action: 'blocked', reason: 'SignerExternal' });
    expect(decide({ fact: ends(-1), offer: {} }).byHand).toBeUndefined();
    expect(decide({ fact: ends(-1) }).byHand).toBe(true);
  });
});

describe('what comes of the answer', () => {
  const here = present(ca('etcd-ca', [-100, 1000], { subject: 'CN=etcd-ca' }));
  const due = (): Given => ({ fact: ends(20), authority: here, offer: offered(), beforeDays: 30 });

  it.each<[string, Partial<RenewAhead>, Partial<Given>, string]>([
    ['that it is only reported', { warnOnly: true }, {}, 'WarnOnly'],
    ['another node that renews', { waits: 'Lease "x" is held by "b"' }, {}, 'Postponed'],
    ['a clock that nothing confirms', {}, { clock: unknownClock }, 'ClockUnconfirmed'],
  ])('is left where it is by %s, as what is made here', (_, more, given, reason) => {
    expect(decide({ ...due(), ...given, more })).toMatchObject({ action: 'keep', reason });
  });

  test.each<[string, ArtefactFacts, RegExp]>([
    ['it has expired', ends(-1), /^it expired at \S+; brought from Secret "a\/b", valid until /],
    ['it is absent', absent, /^it is absent; brought from /],
    ['it ends', ends(60), /^it ends at \S+; brought from /],
  ])('%s: one that ends later is brought', (_, fact, message) => {
    const decision = decide({ fact, offer: offered() });
    expect(decision).toMatchObject({ action: 'renew', reason: 'OfferedBySource', origin: 'fetch' });
    expect(decision.message).toMatch(message);
    expect(decision.obtains).toBeUndefined();
  });

  it('is brought by a clock that nobody may sign by', () => {
    const clock = { ...goodClock, builtAt: dayOf(100), synchronised: false };
    expect(decide({ fact: ends(-1), offer: offered(), clock })).toMatchObject({ action: 'renew', origin: 'fetch' });
  });

  it.each([
    [
      'what it has is no help',
      { offered: undefined, by: 'stranger' },
      /does not help: the CA on this machine would not/,
    ],
    [
      'it cannot be read',
      { problem: 'Cannot read "/x": ENOENT' },
      /Secret "a\/b" does not help: Cannot read "\/x": ENOENT$/,
    ],
  ])('%s: somebody must bring it, and the message says why', async (_, given, message) => {
    const answer =
      'problem' in given
        ? { problem: given.problem ?? '' }
        : {
            offered: later,
            present: undefined,
            authorities: [(await authority({ commonName: 'etcd-ca' })).certificate],
          };
    const decision = decide({ fact: ends(-1), offer: { answer } });
    expect(decision).toMatchObject({ action: 'blocked', reason: 'SignerExternal', byHand: true });
    expect(decision.message).toMatch(message);
  });

  it('a program that a dry run does not run is said', () => {
    const answer = { problem: 'a run would run it', notRun: true } as const;
    const decision = decide({ fact: ends(-1), offer: { answer } });
    expect(decision).toMatchObject({ action: 'blocked', reason: 'SignerExternal', byHand: true });
    expect(decision.message).toMatch(/; Secret "a\/b" is not run by a dry run: a run would run it$/);
  });

  it('what still works stays as it is where nothing better is offered', () => {
    const decision = decide({ fact: ends(60), offer: { answer: { problem: 'exit 1' } } });
    expect(decision).toMatchObject({ action: 'keep', reason: 'Healthy' });
    expect(decision.message).toContain('Secret "a/b" does not help: exit 1');
  });
});
