// What `init host` tells at its end.
import { expect, it } from 'vitest';
import { installedLines, nextDate, unitLines, waitedLines } from '../../lib/status/installed-text.ts';
import { day, present } from '../support/facts.ts';
import { leaf, tell } from './node.ts';

const expired = tell({ apiserver: present(leaf('apiserver', 'ca', -1)) });
const healthy = tell({ apiserver: present(leaf('apiserver', 'ca', 364)) });
const ahead = { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: 0, warnOnly: false };

it('lists units with what they do', () => {
  const units = [
    { path: '/a', does: 'once', isChanged: true },
    { path: '/b', isChanged: false },
  ];
  expect(unitLines(units, false)).toEqual(['Wrote /a', '  once', 'Unchanged: /b']);
  expect(unitLines(units, true)).toEqual(['Would write /a', '  once', 'Unchanged: /b']);
});

it('names the next date: of a renewal where one is made ahead of time, else of an expiry that is to come', () => {
  const ending = { apiserver: present(leaf('apiserver', 'ca', 40)) };
  expect(nextDate(tell(ending))).toEqual({ at: new Date('2026-07-11'), names: ['apiserver'] });
  expect(nextDate(tell(ending, { ahead }))).toEqual({ at: new Date('2026-06-11'), names: ['apiserver'] });
  expect(nextDate(expired)?.names).not.toContain('apiserver');
});

it('ends with notes, what is to be done by hand, and the verdict', () => {
  const lines = installedLines(tell({}, { addressGone: 'the address is gone' }));
  expect(lines[0]).toMatch(/^Next: Mar 28, 2027 00:00 UTC: /);
  expect(lines.slice(1)).toEqual([
    'To do: the address is gone',
    'Something is wrong (see above).',
    expect.stringMatching(/^ARMED: yes: /),
    'To do: what is listed above.',
  ]);
});

it.each([
  [healthy, true, true, 'back: 1 reissued, served, node Ready in 31 s'],
  [healthy, true, false, 'back: 1 reissued, served in 31 s'],
  [healthy, false, true, 'not back after 31 s: the node is not Ready'],
  [expired, false, true, expect.stringMatching(/^not back after 31 s: 1 of 18 certificates expired /)],
])('says how a wait ended', (now, isReady, hasNode, text) => {
  expect(waitedLines(expired, now, { isReady, hasNode, tookMs: 31_200 })).toEqual([text]);
});

it('says that copies of a new admin.conf are old', () => {
  const was = tell({ 'admin.conf': present(leaf('admin', 'ca', -1)) });
  const lines = waitedLines(was, tell({}), { isReady: true, hasNode: true, tookMs: 9000 });
  expect(lines).toEqual([
    expect.stringContaining('copy admin.conf again'),
    'back: 1 reissued, served, node Ready in 9 s',
  ]);
});
