// A CA in files that has expired: renewed with its own key, before all that needs it, unless that is not to be.
import { expect, it, test } from 'vitest';
import type { Resolved, ResolvedArtefact, ResolvedTarget } from '../../lib/inventory/model.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { plan } from '../../lib/plan/plan.ts';
import {
  at,
  ca,
  day,
  goodClock,
  leaf,
  onlyWhenExpired,
  present,
  signer,
  target,
  unknownClock,
} from '../support/facts.ts';

const now = at(0);
const location = { kind: 'pemPair', certFile: '/ca.crt', keyFile: '/ca.key' } as const;
const authority = { ...signer, name: 'ca', owned: false, validity: 3650 * day, refresh: 2920 * day, location } as const;
const like = { ...target, validity: 365 * day, refresh: 292 * day, issuer: 'ca', template: 'present' } as const;
const serving: ResolvedTarget = {
  ...like,
  name: 'apiserver',
  location: { kind: 'pemPair', certFile: '/api.crt', keyFile: '/api.key' },
};
const conf: ResolvedTarget = {
  ...like,
  name: 'conf',
  usage: 'client',
  commonName: 'kubernetes-admin',
  hostnames: [],
  location: { kind: 'kubeconfig', file: '/admin.conf', endpoint: 'controlPlane' },
};
const copy: ResolvedArtefact = {
  kind: 'copy',
  name: 'copy',
  of: 'ca',
  readers: [],
  location: { kind: 'pemFile', file: '/copy.crt' },
};
const bundle: ResolvedArtefact = {
  kind: 'caBundle',
  name: 'bundle',
  signers: ['ca'],
  readers: [],
  location: { kind: 'pemFile', file: '/bundle.crt' },
};
const machine: Resolved = { name: 'host', artefacts: [authority, copy, serving, conf] };

const old = ca('ca', [-3650, -1]);
const root = present(old);
const user = (days: readonly [number, number]): ArtefactFacts => ({
  ...present(leaf('user', days, 'ca')),
  authorities: ['ca'],
});
const allExpired: Record<string, ArtefactFacts> = {
  ca: root,
  copy: present(old),
  apiserver: present(leaf('api', [-3650, -2], 'ca')),
  conf: user([-3650, -2]),
};
const report: RenewalPolicy = { ...onlyWhenExpired, caRenewal: 'Report' };

interface Row {
  readonly name: string;
  readonly policy?: RenewalPolicy;
  readonly change?: Record<string, ArtefactFacts>;
  readonly resolved?: Resolved;
  readonly clock?: typeof goodClock;
  readonly want: Record<string, string>;
}

const rows: Row[] = [
  {
    name: 'signer, leaves and kubeconfigs in one plan',
    want: { ca: 'renew Expired', copy: 'renew OriginalDiffers', apiserver: 'renew Expired', conf: 'renew Expired' },
  },
  {
    name: 'what outlives its CA keeps its certificate; kubeconfigs follow the CA',
    change: { apiserver: present(leaf('api', [-3650, 300], 'ca')), conf: user([-3650, 300]) },
    want: { ca: 'renew Expired', apiserver: 'keep Healthy', conf: 'renew AuthorityDiffers' },
  },
  {
    name: 'a leaf of another CA does not become right by that',
    change: { apiserver: present(leaf('api', [-3650, 300], 'other')) },
    want: { ca: 'renew Expired', apiserver: 'renew IssuerNotTrusted' },
  },
  {
    name: 'a bundle follows, and what it vouches for stays',
    resolved: { ...machine, artefacts: [authority, bundle, serving] },
    change: { bundle: present(old), apiserver: present(leaf('api', [-3650, 300], 'ca')) },
    want: { ca: 'renew Expired', bundle: 'renew SignerMissingFromBundle', apiserver: 'keep Healthy' },
  },
  {
    name: 'the switch: only reported',
    policy: report,
    want: { ca: 'blocked NotOurs', apiserver: 'blocked SignerUnusable', conf: 'blocked SignerUnusable' },
  },
  {
    name: 'the key is elsewhere: by hand',
    change: {
      ca: { state: 'broken', problem: 'keyAbsent', version: '1', message: 'it has no key', certificates: [old] },
    },
    want: { ca: 'blocked NotOurs', apiserver: 'blocked SignerExternal' },
  },
  {
    name: 'another CA has signed it: by hand',
    change: { ca: present({ ...old, signedBy: ['above'] }) },
    want: { ca: 'blocked NotOurs', apiserver: 'blocked SignerUnusable' },
  },
  {
    name: 'a clock that nobody vouches for and that may be behind: nothing is signed',
    clock: unknownClock,
    change: { conf: user([10, 375]), apiserver: present(leaf('api', [10, 375], 'ca')) },
    want: { ca: 'blocked ClockImplausible', conf: 'blocked SignerUnusable' },
  },
  {
    name: 'a CA that may be made here is made, with another key',
    resolved: { ...machine, artefacts: [{ ...authority, owned: true }, copy, serving, conf] },
    want: { ca: 'renew Expired', apiserver: 'renew Expired' },
  },
  {
    name: 'a CA that is valid is left alone',
    change: {
      ca: present(ca('ca', [-3649, 1])),
      copy: present(ca('ca', [-3649, 1])),
      apiserver: present(leaf('api', [-9, 1], 'ca')),
      conf: user([-9, 1]),
    },
    want: { ca: 'keep Healthy', copy: 'keep Healthy', apiserver: 'keep Healthy', conf: 'keep Healthy' },
  },
];

const decide = ({
  policy = onlyWhenExpired,
  change = {},
  resolved = machine,
  clock = goodClock,
}: Omit<Row, 'name' | 'want'>) => {
  const facts = new Map(Object.entries({ ...allExpired, ...change }));
  return plan({ resolved, facts, policy, clock, now }).decisions;
};
const decisionOf = (name: string, given: Omit<Row, 'name' | 'want'> = {}) =>
  decide(given).find(({ artefact }) => artefact === name) ?? expect.fail(`no decision about ${name}`);

test.each(rows)('plan(): $name', ({ want, ...given }) => {
  const decisions = decide(given).map(({ artefact, action, reason }) => [artefact, `${action} ${reason}`] as const);
  expect(Object.fromEntries(decisions)).toMatchObject(want);
});

it('is carried out in the order CA, leaf, and keeps the key of a CA and the credentials of a kubeconfig', () => {
  expect(decisionOf('ca')).toMatchObject({ after: [], origin: 'ownKey' });
  expect(decisionOf('conf')).toMatchObject({ after: ['ca'] });
  expect(decisionOf('conf').origin).not.toBe('authority');
  expect(decisionOf('conf', { change: { conf: user([-3650, 300]) } })).toMatchObject({
    after: ['ca'],
    origin: 'authority',
  });
  const owned = { ...machine, artefacts: [{ ...authority, owned: true }] };
  expect(decisionOf('ca', { resolved: owned }).origin).not.toBe('ownKey');
});

it('says the old end and the new one, and which serial it gets', () => {
  const { message } = decisionOf('ca');
  expect(message).toContain(
    `it expired at ${at(-1).toISOString()}; renewed with its own key until ${at(3648).toISOString()}`,
  );
  expect(message).toContain('with a serial derived from it');
  const named: ArtefactFacts = { ...root, successor: { from: [], namedBy: ['apiserver'] } };
  expect(decisionOf('ca', { change: { ca: named } }).message).toContain('with the same serial, which apiserver names');
  expect(decisionOf('ca', { policy: report }).message).toContain('regen.caRenewal');
});

it('takes a successor that lies here, and makes none', () => {
  const newer = ca('newer', [-3650, 800]);
  const change = { ca: { ...root, successor: { newer, from: ['conf'], namedBy: [] } } };
  expect(decisionOf('ca', { change })).toMatchObject({ action: 'renew', origin: 'follow' });
  expect(decisionOf('ca', { change }).message).toContain(`valid until ${at(800).toISOString()}, is in conf`);
  expect(decisionOf('ca', { change, policy: report }).action).toBe('blocked');
  expect(decisionOf('apiserver', { change })).toMatchObject({ action: 'renew', after: ['ca'] });
});
