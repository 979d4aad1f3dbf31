import { expect, it } from 'vitest';
import { exitCodes, exitOfUnmet } from '../../cmd/exit-codes.ts';
import { unmetConditions } from '../../lib/regen/unmet.ts';
import type { ArtefactReport, RegenReport } from '../../lib/regen/journal.ts';

const row = (more: Partial<ArtefactReport>): ArtefactReport => ({
  artefact: 'a',
  action: 'keep',
  reason: 'Healthy',
  message: 'm',
  writes: 0,
  ...more,
});
const exitOf = (rows: readonly ArtefactReport[], more: Partial<RegenReport> = {}): number =>
  exitOfUnmet(unmetConditions({ converged: true, artefacts: rows, writes: 0, ...more }));

const external = row({ action: 'blocked', reason: 'SignerExternal', byHand: true });
const authority = row({ action: 'blocked', reason: 'NotOurs', byHand: true });
const leafOfIt = row({ action: 'blocked', reason: 'SignerUnusable', byHand: true });
/** Of a signer that cannot be read now. */
const leafOfUnread = row({ action: 'blocked', reason: 'SignerUnusable' });
/** A CA that has not begun: the right time makes it usable. */
const notBegun = row({ action: 'blocked', reason: 'NotOurs' });
const blocked = row({ action: 'blocked', reason: 'ClockImplausible' });
const unread = row({ action: 'blocked', reason: 'Unavailable' });
const failed = row({ action: 'renew', reason: 'Expired', outcome: 'failed', err: 'disk full' });

it.each<[string, readonly ArtefactReport[], number]>([
  ['nothing is short', [row({}), row({ reason: 'SignerExternal' })], exitCodes.done],
  ['only what others must bring is', [row({}), external, external], exitCodes.byHand],
  ['a CA has expired that is not made here', [authority, leafOfIt], exitCodes.byHand],
  ['a CA cannot be read', [unread, leafOfUnread], exitCodes.failed],
  ['a CA has not begun', [notBegun, leafOfUnread], exitCodes.failed],
  ['something else is, too', [external, failed], exitCodes.failed],
  ['something else cannot be done', [blocked], exitCodes.failed],
])('--once exits as the table says when %s', (_, rows, exit) => {
  expect(exitOf(rows)).toBe(exit);
});

it('--once that gave up has failed', () => {
  expect(exitOf([external], { gaveUp: 'no answer' })).toBe(exitCodes.failed);
  expect(unmetConditions({ converged: false, gaveUp: 'no answer', artefacts: [failed], writes: 0 })).toEqual([
    { message: 'regen gave up: no answer' },
    { message: 'a: disk full' },
  ]);
});

it.each<[string, readonly ArtefactReport[], number]>([
  ['and nothing else', [row({})], exitCodes.usage],
  ['and something must be brought', [external], exitCodes.byHand],
  ['and something has failed', [failed], exitCodes.failed],
])('--once with a setting of one entry that was left out, %s', (_, rows, exit) => {
  const unmet = unmetConditions({ converged: true, artefacts: rows, writes: 0 });
  expect(exitOfUnmet([...unmet, { message: 'left out', isSetting: true }])).toBe(exit);
});
