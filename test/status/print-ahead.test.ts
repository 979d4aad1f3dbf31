// What `status` of a kubeadm machine says of renewal before expiry.
import { expect, it } from 'vitest';
import type { RenewAhead } from '../../lib/plan/decision.ts';
import { parseWindow } from '../../lib/plan/window.ts';
import { renderNode } from '../../lib/status/print.ts';
import { at, day, present } from '../support/facts.ts';
import { authority, leaf, tell, withoutKey } from './node.ts';

const ahead: RenewAhead = { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: 0, warnOnly: false };
const ending = { apiserver: present(leaf('apiserver', 'ca', 40)) };

it('says which are renewed next, and when', () => {
  expect(renderNode(tell(ending, { ahead }), { output: 'table' })).toContain(
    'Everything is as it should be.\nNext renewal before expiry: Jun 11, 2026 00:00 UTC: apiserver\n',
  );
  const window = parseWindow('Sat/02:00-05:00 UTC');
  const both = { ...ending, 'etcd-peer': present(leaf('p', 'etcd-ca', 40.5)) };
  expect(renderNode(tell(both, { ahead: { ...ahead, ...(window && { window }) } }), { output: 'table' })).toContain(
    'Next renewal before expiry: Jun 13, 2026 02:00 UTC: apiserver, etcd-peer\n',
  );
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
