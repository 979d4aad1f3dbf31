// An owner renews ahead of time: no leaf ends while its signer is too young, none of a CA that others brought, and what
// was adopted when a renewal gains something.
import { expect, test } from 'vitest';
import type { Resolved } from '../../lib/inventory/model.ts';
import { backDatedMs } from '../../lib/pki/certificate.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import { plan } from '../../lib/plan/plan.ts';
import {
  at,
  beforeExpiry,
  ca,
  chain,
  day,
  goodClock,
  healthy,
  leaf,
  present,
  start,
  target,
} from '../support/facts.ts';

const minute = 60_000;
const later = (date: Date, ms: number): Date => new Date(date.getTime() + ms);

interface Row {
  readonly name: string;
  readonly policy: RenewalPolicy;
  readonly change: Record<string, ArtefactFacts>;
  readonly now?: Date;
  readonly resolved?: Resolved;
  /** artefact: decision, reason and, where it matters, the next look. Every other artefact: `keep Healthy`. */
  readonly want: Record<string, readonly [string, Date?]>;
}

const whole = (reason: string): Row['want'] => ({
  signer: [`renew ${reason}`],
  bundle: ['renew SignerMissingFromBundle'],
  composed: ['renew InputsDiffer'],
  copy: ['renew OriginalDiffers'],
});
/** A signer of the day before, in every bundle; the leaf stays that of day -1, which ends on day 29. */
const young = (days: number): Record<string, ArtefactFacts> => ({
  signer: present(ca('ca', [days - 1, days + 59])),
  bundle: present(ca('ca', [days - 1, days + 59])),
  composed: present(ca('ca', [days - 1, days + 59])),
  copy: present(ca('ca', [days - 1, days + 59])),
});

const rows: Row[] = [
  {
    name: 'signer too young, the leaf near its end: it waits until a tenth of its refresh time is left, not for ever',
    policy: beforeExpiry,
    change: young(27.5),
    now: at(27),
    want: { target: ['keep SignerTooYoung', at(27.5)] },
  },
  {
    name: 'signer too young, a tenth of the refresh time left: renewed all the same',
    policy: beforeExpiry,
    change: young(27.5),
    now: at(27.5),
    want: { target: ['renew RefreshDue'] },
  },
  {
    name: 'back after days off, half a day before its end: the signer is renewed, and the leaf with it',
    policy: beforeExpiry,
    change: {
      signer: present(ca('ca', [-31, 29])),
      bundle: present(ca('ca', [-31, 29])),
      composed: present(ca('ca', [-31, 29])),
      copy: present(ca('ca', [-31, 29])),
    },
    now: at(28.5),
    want: { ...whole('RefreshDue'), target: ['renew RefreshDue'] },
  },
  {
    name: 'a leaf of half an hour with a signer of this minute, a minute and a half before its end',
    policy: beforeExpiry,
    resolved: {
      ...chain,
      artefacts: chain.artefacts.map((row) =>
        row === target ? { ...target, validity: 30 * minute, refresh: 15 * minute } : row,
      ),
    },
    change: {
      ...young(1),
      target: present(leaf('leaf', [(-28.5 * minute - backDatedMs) / day, (1.5 * minute) / day], 'ca')),
    },
    want: { target: ['renew RefreshDue'] },
  },
  {
    name: 'a CA that was brought here is not replaced before its end: others may know no other one',
    policy: beforeExpiry,
    change: { signer: present(ca('ca', [-31, 29], { commonName: 'kubernetes' })) },
    now: at(10),
    want: { signer: ['keep NotOurs', later(at(10), 60 * minute)] },
  },
  {
    name: 'at its end it is',
    policy: { ...beforeExpiry, graceMs: 0 },
    change: { signer: present(ca('ca', [-31, 29], { commonName: 'kubernetes' })) },
    now: at(29),
    want: { ...whole('Expired'), target: ['renew Expired'] },
  },
  {
    name: 'an adopted leaf that outlives those made here is looked at when a renewal gains something',
    policy: beforeExpiry,
    change: {
      signer: present(ca('ca', [-10, 3640])),
      bundle: present(ca('ca', [-10, 3640])),
      composed: present(ca('ca', [-10, 3640])),
      copy: present(ca('ca', [-10, 3640])),
      target: present(leaf('leaf', [-10, 355], 'ca')),
    },
    now: at(20),
    want: { target: ['keep Healthy', at(328)] },
  },
  {
    name: 'an owner gives nobody a turn',
    policy: { ...beforeExpiry, graceMs: 0 },
    change: {},
    now: at(29),
    want: { target: ['renew Expired'] },
  },
];

test.each(rows)('plan(): $name', ({ policy, change, now = start, resolved = chain, want }) => {
  const facts = new Map([...healthy(), ...Object.entries(change)]);
  const { decisions } = plan({ resolved, facts, policy, clock: goodClock, now });
  const got = Object.fromEntries(decisions.map((d) => [d.artefact, `${d.action} ${d.reason}`]));
  expect(got).toEqual(Object.fromEntries(decisions.map((d) => [d.artefact, want[d.artefact]?.[0] ?? 'keep Healthy'])));
  for (const { artefact, recheckAt } of decisions) {
    const next = want[artefact]?.[1];
    if (next !== undefined) expect(recheckAt, `next look at ${artefact}`).toEqual(next);
  }
});
