// A CA in files that is renewed with its own key before it ends: when, after whom, and what becomes of what it has signed.
import { expect, it, test } from 'vitest';
import type { Resolved } from '../../lib/inventory/model.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import {
  ahead,
  decisionsOf,
  hostAuthority,
  hostKubeconfig,
  hostLeaf,
  verdictsOf,
  weekend,
} from '../support/decisions.ts';
import { at, ca, day, leaf, onlyWhenExpired, present } from '../support/facts.ts';

const authority = {
  ...hostAuthority,
  readers: [{ component: 'etcd', needs: 'restart', proof: { kind: 'none' } }],
} as const;
const serving = hostLeaf('apiserver');
const conf = hostKubeconfig;
const machine: Resolved = { name: 'host', artefacts: [authority, serving, conf] };
const withoutKubelet: Resolved = { name: 'etcd', artefacts: [authority, serving] };

const waits = 'Lease "x" is held by "node2"';

interface Given {
  /** Days from now: of the CA, and the end of what it has signed. */
  readonly life?: readonly [number, number];
  readonly leafEnds?: number;
  readonly policy?: Partial<RenewalPolicy>;
  readonly change?: Readonly<Record<string, ArtefactFacts>>;
  readonly resolved?: Resolved;
}

function decide({ life = [-3350, 300], leafEnds = 200, policy = {}, change = {}, resolved = machine }: Given) {
  const facts = new Map<string, ArtefactFacts>([
    ['ca', present(ca('ca', life))],
    ['apiserver', present(leaf('api', [-165, leafEnds], 'ca'))],
    ['conf', { ...present(leaf('user', [-165, leafEnds], 'ca')), authorities: ['ca'] }],
    ...Object.entries(change),
  ]);
  return decisionsOf({ resolved, facts, policy: { ...onlyWhenExpired, ahead, ...policy } });
}
const said = (given: Given) => verdictsOf(decide(given));

const followed = { ca: 'renew RefreshDue', apiserver: 'keep Healthy', conf: 'renew AuthorityDiffers' };
const left = { ca: 'keep SignerEnding', apiserver: 'keep Healthy', conf: 'keep Healthy' };
const postponed = { ...left, ca: 'keep Postponed' };

test.each<[string, Given, Record<string, string>]>([
  ['kubeconfigs follow a CA that is due, leaves stay', {}, followed],
  ['not before its threshold', { life: [-3284, 366] }, { ca: 'keep Healthy', conf: 'keep Healthy' }],
  ['by a threshold of its own', { policy: { ahead: { ...ahead, signerBeforeMs: 90 * day } } }, { ca: 'keep Healthy' }],
  ['nobody has asked for it', { policy: { ahead: undefined } }, { ca: 'keep Healthy', conf: 'keep Healthy' }],
  ['the switch: only reported', { policy: { caRenewal: 'Report' } }, left],
  ['outside the window', { policy: { ahead: weekend } }, postponed],
  ['another node renews', { policy: { ahead: { ...ahead, waits } } }, postponed],
  [
    'not when a tenth of the threshold is left',
    { life: [-3614, 36], policy: { ahead: { ...ahead, waits } } },
    followed,
  ],
  ['only reported', { policy: { ahead: { ...ahead, warnOnly: true } } }, { ...left, ca: 'keep WarnOnly' }],
  ['another CA has signed it', { change: { ca: present({ ...ca('ca', [-3350, 300]), signedBy: ['above'] }) } }, left],
  [
    'nothing here restarts its readers',
    { resolved: withoutKubelet },
    { ca: 'renew RefreshDue', apiserver: 'keep Healthy' },
  ],
  [
    'nobody needs to',
    { resolved: { name: 'etcd', artefacts: [{ ...authority, readers: [] }, serving] } },
    { ca: 'renew RefreshDue', apiserver: 'keep Healthy' },
  ],
  [
    'the key is elsewhere',
    {
      change: {
        ca: {
          state: 'broken',
          problem: 'keyAbsent',
          version: '1',
          message: 'it has no key',
          certificates: [ca('ca', [-3350, 300])],
        },
      },
    },
    left,
  ],
  // What ends with it gained nothing by a renewal before.
  ['a leaf that ends with it', { life: [-3630, 20], leafEnds: 20 }, { ...followed, apiserver: 'renew RefreshDue' }],
  [
    'where it stays',
    { life: [-3630, 20], leafEnds: 20, policy: { caRenewal: 'Report' } },
    { ca: 'keep SignerEnding', apiserver: 'keep SignerEnding' },
  ],
  // A short life of its own: it is renewed for that.
  ['a CA that lives for 100 days, in the beginning', { life: [-1, 99] }, { ca: 'keep Healthy' }],
  ['when a third of that is left', { life: [-67, 33] }, { ca: 'renew RefreshDue' }],
  ['and not again after that', { life: [-67, 133] }, { ca: 'keep Healthy' }],
])('%s', (_title, given, wanted) => {
  expect(said(given)).toMatchObject(wanted);
});

it('keeps the key of the CA and the credentials of kubeconfigs', () => {
  const { ca: authorityRow, conf: kubeconfig } = decide({});
  expect(authorityRow).toMatchObject({ origin: 'ownKey', after: [] });
  expect(authorityRow?.message).toMatch(/ends at 2027-03-28T.*renewed with its own key until 2037-03-25T/);
  expect(kubeconfig).toMatchObject({ origin: 'authority', after: ['ca'] });
});

it('renews along what is due, so that its readers are restarted once', () => {
  const ending = { life: [-3630, 20], leafEnds: 20 } as const;
  expect(decide(ending)['conf']).toMatchObject({ reason: 'AuthorityDiffers', after: ['ca'] });
  expect(decide(ending)['conf']?.origin).not.toBe('authority');
});

it('takes a successor that lies here in its place', () => {
  const found = { newer: ca('newer', [-3350, 3950]), from: ['conf'], namedBy: [] };
  const change = { ca: { ...present(ca('ca', [-3350, 300])), successor: found } as ArtefactFacts };
  expect(decide({ change })['ca']).toMatchObject({ action: 'renew', origin: 'follow' });
});

it('says who has to be restarted, where no kubelet does that', () => {
  const told = 'etcd reads it at its start only: ';
  const early = decide({ resolved: withoutKubelet })['ca']?.message;
  expect(early).toContain(`${told}restart it before ${at(300).toISOString()}, one machine after the other`);
  const ended = decide({ resolved: withoutKubelet, life: [-3650, -1] })['ca']?.message;
  expect(ended).toContain(`${told}what runs is restarted with --restart, as a unit of systemd`);
  expect(decide({})['ca']?.message).not.toContain('restart');
});

it('says from when on a CA with a short life is renewed', () => {
  expect(decide({ life: [-10, 90] })['ca']?.message).toContain(
    `renewed with its own key from ${at(90 - 100 / 3).toISOString()}`,
  );
});
