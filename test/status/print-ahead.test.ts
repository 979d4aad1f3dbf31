// What `status` of a kubeadm machine says of renewal before expiry.
import { expect, it } from 'vitest';
import type { RenewAhead } from '../../lib/plan/decision.ts';
import { cutText } from '../../lib/plan/ahead-rules.ts';
import { parseWindow } from '../../lib/plan/window.ts';
import { renderNode } from '../../lib/status/print.ts';
import { at, day, present } from '../support/facts.ts';
import { authority, leaf, machine, tell, withoutKey } from './node.ts';

const ahead: RenewAhead = { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: 0, warnOnly: false };
const ending = { apiserver: present(leaf('apiserver', 'ca', 40)) };

it('says which are renewed next, and when', () => {
  expect(renderNode(tell(ending, { ahead }), { output: 'table' })).toContain(
    '\nNext renewal before expiry: Jun 11, 2026 00:00 UTC: apiserver\n',
  );
  const window = parseWindow('Sat/02:00-05:00 UTC');
  const both = { ...ending, 'etcd-peer': present(leaf('p', 'etcd-ca', 40.5)) };
  expect(renderNode(tell(both, { ahead: { ...ahead, ...(window && { window }) } }), { output: 'table' })).toContain(
    'Next renewal before expiry: Jun 13, 2026 02:00 UTC: apiserver, etcd-peer\n',
  );
});

it('lists the later ones, too, each name once', () => {
  const later = { ...ending, 'etcd-peer': present(leaf('p', 'etcd-ca', 60)) };
  const text = renderNode(tell(later, { ahead }), { output: 'table' });
  const lines = text.split('\n').filter((line) => /^(Next renewal|Then)/.test(line));
  expect(lines[1]).toBe('Then: Jul 01, 2026 00:00 UTC: etcd-peer');
  const names = lines.flatMap((line) => line.replace(/^.* UTC: /, '').split(', '));
  expect(new Set(names).size).toBe(names.length);
  expect(names).toContain('scheduler.conf');
});

it.each([
  [364, /^364d before expiry is more than a third of the life of .*apiserver, .*: renewed 121d16h before it$/],
  [121, undefined],
])('says that a threshold of %i days is cut, where it is', (days, said) => {
  const policy = { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 0 } as const;
  const text = cutText(machine().artefacts, { ...policy, ahead: { ...ahead, beforeMs: days * day } });
  if (said === undefined) expect(text).toBeUndefined();
  else expect(text).toMatch(said);
  expect(cutText(machine().artefacts, policy)).toBeUndefined();
});

it('promises nothing for a later day that no unit would do', () => {
  const off = { time: at(400), isForecast: true, ahead, isArmed: false, reasons: ['x absent'] };
  for (const told of [off, { ...off, time: at(20) }]) {
    const text = renderNode(tell({}, told), { output: 'table' });
    for (const promise of [
      /^Next renewal/m,
      /^Renewed before/m,
      /would come back/,
      / EXPIRED +reissued(?! once armed)/,
    ])
      expect(text).not.toMatch(promise);
    expect(text).toContain('ARMED: no: x absent.');
  }
});

it('says nothing of it without being asked for, when it only warns, and where no unit does it', () => {
  const texts = [
    tell(ending),
    tell(ending, { ahead: { ...ahead, warnOnly: true } }),
    tell(ending, { ahead, isArmed: false }),
  ];
  for (const told of texts) {
    const text = renderNode(told, { output: 'table' });
    expect(text).not.toContain('Next renewal');
    expect(text).toMatch(/^apiserver +EXPIRING /m);
  }
});

it('says that the clock is not confirmed, where what is due waits for that', () => {
  const due = { apiserver: present(leaf('apiserver', 'ca', 20)) };
  const text = renderNode(tell(due, { ahead, synchronised: false }), { output: 'table' });
  expect(text).toMatch(/^apiserver +EXPIRING .*its clock is not confirmed: it shows 2026-06-01T00:00:00.000Z/m);
  expect(renderNode(tell(due, { ahead }), { output: 'table' })).not.toContain('not confirmed');
});

it('names a CA that ends, its date and what to do', () => {
  const text = renderNode(tell({ ca: withoutKey('ca', 300) }, { ahead }), { output: 'table' });
  expect(text).toMatch(/^ca +EXPIRING +nothing: bring a new one by hand before +.* 2027-03-28T.*same key/m);
  expect(text).not.toMatch(/^apiserver +EXPIRING/m);
});

it('says when a CA is renewed whose key is here', () => {
  const text = renderNode(tell({ ca: present(authority('ca', 200)) }, { ahead }), { output: 'table' });
  expect(text).not.toMatch(/^ca +EXPIRING/m);
  expect(text).toContain('Next renewal before expiry: Oct 12, 2026 00:00 UTC: ca\n');
});

it('speaks of another day by the plan of that day', () => {
  const later = tell(ending, { ahead, time: at(12), isForecast: true });
  expect(later.class).toBe('healthy'); // what is due is valid all the same
  expect(later.certificates.find(({ artefact }) => artefact === 'apiserver')).toMatchObject({ reason: 'RefreshDue' });
});
