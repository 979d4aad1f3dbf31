// What counts as a sign that this machine's clock is behind, and who may say that it is right.
import { describe, expect, test } from 'vitest';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { CertificateFacts } from '../../lib/pki/certificate.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import type { ClockFacts, OtherClock } from '../../lib/plan/clock-rules.ts';
import { decisionsOf, verdictOf } from '../support/decisions.ts';
import {
  at,
  both,
  bundle,
  ca,
  chain,
  healthy,
  leaf,
  present,
  signer,
  start,
  target,
  theirs,
  unknownClock,
} from '../support/facts.ts';

const minute = 60_000;

const opaque = {
  kind: 'opaque',
  name: 'opaque',
  location: { kind: 'secret', namespace: 'theirs', name: 'opaque' },
  readers: [],
} satisfies ResolvedArtefact;
const externalPair = {
  kind: 'external',
  name: 'given-pair',
  location: { kind: 'secret', namespace: 'theirs', name: 'pair' },
  readers: [],
} satisfies ResolvedArtefact;
const second = { ...target, name: 'second', location: { kind: 'secret', namespace: 'n', name: 'second' } } as const;
const secondCopy = {
  kind: 'copy',
  name: 'second-copy',
  location: { kind: 'secret', namespace: 'n', name: 'second-copy' },
  readers: [],
  of: 'second',
} satisfies ResolvedArtefact;
const foundOnDisk = {
  ...signer,
  name: 'disk-ca',
  location: { kind: 'pemPair', certFile: '/pki/ca.crt', keyFile: '/pki/ca.key' },
} satisfies ResolvedArtefact;

const world: Resolved = {
  name: 'clocks',
  artefacts: [theirs, opaque, externalPair, foundOnDisk, signer, bundle, both, target, second, secondCopy],
};

/** All is well but `target`, which has expired; the rest as `change` says. */
function decide(change: Record<string, ArtefactFacts>, clock: ClockFacts, name = 'target'): string {
  const good = present(leaf('second', [-1, 29], 'ca'));
  const facts = new Map<string, ArtefactFacts>([
    ...healthy(),
    ['theirs', present()],
    ['both', present(ca('ca', [-1, 59]))],
    ['opaque', present()],
    ['given-pair', present(leaf('external', [-1, 29], 'elsewhere'))],
    ['disk-ca', present(ca('disk', [-1, 3000]))],
    ['second', good],
    ['second-copy', good],
    ['target', present(leaf('leaf', [-30, -1], 'ca'))],
    ...Object.entries(change),
  ]);
  return verdictOf(decisionsOf({ resolved: world, facts, clock })[name]);
}

const early = (print: string): CertificateFacts => leaf(print, [20, 50], 'ca');

interface Row {
  readonly name: string;
  readonly change: Record<string, ArtefactFacts>;
  readonly clock?: Partial<ClockFacts>;
  readonly want: string;
}

describe('certificates that begin in the future, while nobody says that the clock is right', () => {
  test.each<Row>([
    {
      name: 'a CA of others',
      change: { theirs: present(ca('other', [20, 80]), ca('more', [30, 90])) },
      want: 'renew Expired',
    },
    {
      name: 'two bundles that hold a CA of others',
      change: { theirs: present(ca('x', [20, 80])), both: present(ca('ca', [-1, 59]), ca('x', [20, 80])) },
      want: 'renew Expired',
    },
    {
      name: 'members of our own bundle',
      change: { bundle: present(ca('ca', [-1, 59]), ca('x', [20, 80]), ca('y', [20, 80])) },
      want: 'renew Expired',
    },
    {
      name: 'pairs and objects of others',
      change: { 'given-pair': present(early('external')), opaque: present(early('o')) },
      want: 'renew Expired',
    },
    {
      name: 'one of ours',
      change: { second: present(early('second')), 'second-copy': present(early('second')) },
      want: 'renew Expired',
    },
    {
      name: 'one of ours, and a CA on disk that somebody brings',
      change: { second: present(early('second')), 'disk-ca': present(ca('disk', [20, 80])) },
      want: 'renew Expired',
    },
    {
      name: 'two of ours',
      change: { second: present(early('second')), target: present(early('leaf')) },
      want: 'blocked ClockImplausible',
    },
  ])('$name: $want', ({ change, want }) => {
    expect(decide(change, unknownClock)).toBe(want);
  });

  test('those that this process has made itself, before its clock was set, are none', () => {
    const change = { second: present(early('second')), target: present(early('leaf')) };
    expect(decide(change, { ...unknownClock, made: new Set(['second', 'leaf']) })).toBe('renew NotYetValid');
    expect(decide(change, { ...unknownClock, made: new Set(['leaf']) })).toBe('renew NotYetValid');
    expect(decide(change, { ...unknownClock, made: new Set(['other']) })).toBe('blocked ClockImplausible');
  });
});

describe('what itself begins in the future, while all else is well', () => {
  const other = (aheadMs: number): OtherClock => ({ of: 'node-b', aheadMs });
  test.each<Row>([
    { name: 'nobody says that the clock is right', change: {}, want: 'blocked ClockImplausible' },
    {
      name: 'others are ahead, too',
      change: {},
      clock: { others: [other(-900_000)] },
      want: 'blocked ClockImplausible',
    },
    { name: 'another clock agrees', change: {}, clock: { others: [other(0)] }, want: 'renew NotYetValid' },
    { name: 'the clock is synchronised', change: {}, clock: { synchronised: true }, want: 'renew NotYetValid' },
    { name: 'this process has made it', change: {}, clock: { made: new Set(['leaf']) }, want: 'renew NotYetValid' },
    {
      name: 'it lacks a name besides',
      change: { target: present(leaf('leaf', [20, 50], 'ca', { hostnames: [] })) },
      want: 'renew HostnameMissing',
    },
  ])('$name: $want', ({ change, clock, want }) => {
    expect(decide({ target: present(early('leaf')), ...change }, { ...unknownClock, ...clock })).toBe(want);
  });

  test('a signer is not reissued either, and what it has signed is left alone', () => {
    const change = { signer: present(ca('ca', [20, 80])), bundle: present(ca('ca', [20, 80])) };
    expect(decide({ ...change, target: present(leaf('leaf', [-1, 29], 'ca')) }, unknownClock, 'signer')).toBe(
      'blocked ClockImplausible',
    );
  });

  test('says what to do', () => {
    const facts = new Map([...healthy(), ['target', present(early('leaf'))] as const]);
    expect(decisionsOf({ resolved: chain, facts, clock: unknownClock })['target']).toMatchObject({
      message:
        "it is not valid before 2026-06-21T00:00:00.000Z, this machine's clock shows 2026-06-01T00:00:00.000Z, and nothing confirms it; set the clock, or state that it is right (regen.clockSynchronised: true)",
      recheckAt: new Date(start.getTime() + 30_000),
    });
  });
});

describe('the clocks of other machines', () => {
  const other = (aheadMs: number): OtherClock => ({ of: 'node-b', aheadMs });
  const future = { second: present(early('second')), target: present(early('leaf')) };

  test.each<Row>([
    { name: 'one agrees', change: future, clock: { others: [other(2 * minute)] }, want: 'renew NotYetValid' },
    {
      name: 'one agrees, which is a little ahead',
      change: future,
      clock: { others: [other(-4 * minute)] },
      want: 'renew NotYetValid',
    },
    {
      name: 'one is hours ahead',
      change: future,
      clock: { others: [other(-120 * minute)] },
      want: 'blocked ClockImplausible',
    },
    {
      name: 'they differ',
      change: future,
      clock: { others: [other(0), other(600 * minute)] },
      want: 'blocked ClockImplausible',
    },
    {
      name: 'nothing looks wrong, and the other is a little behind',
      change: {},
      clock: { others: [other(9 * minute)] },
      want: 'renew Expired',
    },
    {
      name: 'nothing looks wrong, and the other is a year behind',
      change: {},
      clock: { others: [other(365 * 24 * 60 * minute)] },
      want: 'blocked ClockImplausible',
    },
    {
      name: 'nothing looks wrong, and they differ',
      change: {},
      clock: { others: [other(0), other(600 * minute)] },
      want: 'renew Expired',
    },
    {
      name: 'nothing looks wrong, and the other is a year ahead',
      change: {},
      clock: { others: [other(-365 * 24 * 60 * minute)] },
      want: 'blocked ClockImplausible',
    },
    {
      name: 'nothing looks wrong, the other is a year ahead, and a third agrees',
      change: {},
      clock: { others: [other(-365 * 24 * 60 * minute), other(minute)] },
      want: 'renew Expired',
    },
    {
      name: 'nothing looks wrong, and the other shows a time before the build',
      change: {},
      clock: { others: [other(401 * 24 * 60 * minute)] },
      want: 'renew Expired',
    },
    {
      name: 'one agrees, and another shows a time before the build',
      change: future,
      clock: { others: [other(0), other(401 * 24 * 60 * minute)] },
      want: 'renew NotYetValid',
    },
    {
      name: 'nothing looks wrong, and the other shows a time more than ten years after the build',
      change: {},
      clock: { others: [other(-3300 * 24 * 60 * minute)] },
      want: 'renew Expired',
    },
    {
      name: 'a synchronised clock is believed against all',
      change: {},
      clock: { synchronised: true, others: [other(600 * minute)] },
      want: 'renew Expired',
    },
  ])('$name: $want', ({ change, clock, want }) => {
    expect(decide(change, { ...unknownClock, ...clock })).toBe(want);
  });

  test('none makes a time before the build plausible', () => {
    expect(decide({}, { builtAt: at(1), synchronised: true, others: [other(0)] })).toBe('blocked ClockImplausible');
  });
});
