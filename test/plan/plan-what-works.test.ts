// Rules that guard what works: a CA whose key is elsewhere, readers of composed bundles, trust that was lost in one
// place only, names of two nodes, a signer of another machine's future.
import { expect, test } from 'vitest';
import type { Resolved } from '../../lib/inventory/model.ts';
import type { CertificateFacts } from '../../lib/pki/certificate.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import { plan } from '../../lib/plan/plan.ts';
import {
  at,
  beforeExpiry,
  bundle,
  ca,
  chain,
  composed,
  copy,
  goodClock,
  healthy,
  leaf,
  onlyWhenExpired,
  present,
  signer,
  start,
  target,
} from '../support/facts.ts';

const pair = { kind: 'pemPair', certFile: '/ca.crt', keyFile: '/ca.key' } as const;
const onDisk = (owned: boolean): Resolved => ({
  name: 'disk',
  artefacts: [
    { ...signer, location: pair, owned },
    { ...bundle, location: { kind: 'pemFile', file: '/bundle' } },
    { ...target, location: { ...pair, certFile: '/a.crt' } },
  ],
});
const keyAbsent = (...certificates: readonly CertificateFacts[]): ArtefactFacts => ({
  state: 'broken',
  problem: 'keyAbsent',
  version: '1',
  message: 'it has no key',
  certificates,
});

interface Row {
  readonly name: string;
  readonly resolved?: Resolved;
  readonly policy?: RenewalPolicy;
  readonly now?: Date;
  readonly change: Record<string, ArtefactFacts>;
  readonly want: Record<string, string>;
}

const rows: Row[] = [
  {
    name: 'a valid CA on disk whose key is elsewhere stays, and what it signed too',
    resolved: onDisk(true),
    change: { signer: keyAbsent(ca('ca', [-1, 59])) },
    want: { signer: 'keep NotOurs', bundle: 'keep Healthy', target: 'keep Healthy' },
  },
  {
    name: 'an expired leaf of such a CA waits for somebody with the key',
    resolved: onDisk(true),
    change: { signer: keyAbsent(ca('ca', [-1, 59])), target: present(leaf('leaf', [-9, -1], 'ca')) },
    want: { signer: 'keep NotOurs', bundle: 'keep Healthy', target: 'blocked SignerExternal' },
  },
  {
    name: 'a CA that several machines share gets no other key by one of them: it keeps its own',
    resolved: onDisk(false),
    now: at(100),
    change: {},
    want: { signer: 'renew Expired', bundle: 'renew SignerMissingFromBundle', target: 'renew Expired' },
  },
  {
    name: 'a CA that several machines share is not reissued by one of them',
    resolved: onDisk(false),
    now: at(100),
    policy: { ...onlyWhenExpired, caRenewal: 'Report' },
    change: {},
    want: { signer: 'blocked NotOurs', bundle: 'keep Healthy', target: 'blocked SignerUnusable' },
  },
  {
    name: 'the owner does not refresh a CA that is not ours either',
    resolved: onDisk(false),
    policy: beforeExpiry,
    now: at(41),
    change: { target: present(leaf('leaf', [40, 58], 'ca')) },
    want: { signer: 'keep NotOurs', bundle: 'keep Healthy', target: 'keep Healthy' },
  },
  {
    name: 'a leaf that works is not replaced before the bundle that its reader uses holds the signer',
    policy: beforeExpiry,
    now: at(20),
    change: {
      signer: present(ca('new', [10, 70])),
      bundle: present(ca('ca', [-1, 59]), ca('new', [10, 70])),
      composed: { state: 'unavailable', message: 'forbidden' },
      copy: { state: 'unavailable', message: 'forbidden' },
    },
    want: { signer: 'keep Healthy', bundle: 'keep Healthy', target: 'blocked SignerMissingFromBundle' },
  },
  {
    name: 'an expired leaf does not wait for composed bundles',
    now: at(35),
    change: {
      composed: { state: 'unavailable', message: 'forbidden' },
      copy: { state: 'unavailable', message: 'forbidden' },
      target: present(leaf('leaf', [-1, 29], 'ca')),
    },
    want: { signer: 'keep Healthy', bundle: 'keep Healthy', target: 'renew Expired' },
  },
  {
    name: 'a wildcard covers a declared name',
    resolved: {
      name: 'w',
      artefacts: [signer, bundle, { ...target, hostnames: ['a.example.com', '127.0.0.1'] }],
    },
    change: { target: present(leaf('leaf', [-1, 29], 'ca', { hostnames: ['*.example.com', '127.0.0.1'] })) },
    want: { target: 'keep Healthy' },
  },
  {
    name: 'a signer that begins in two minutes, made by a machine whose clock is ahead, does not sign yet',
    change: {
      signer: present(ca('new', [2 / 1440, 60])),
      bundle: present(ca('new', [2 / 1440, 60])),
      composed: present(ca('new', [2 / 1440, 60])),
      copy: present(ca('new', [2 / 1440, 60])),
      target: present(leaf('leaf', [-9, -1], 'old')),
    },
    want: { signer: 'keep NotYetValid', target: 'blocked SignerUnusable' },
  },
  {
    name: 'a copy that is valid is not overwritten by an original that has expired',
    now: new Date(at(59).getTime() + 30_000),
    change: {
      copy: present(ca('newer', [30, 90])),
      target: present(leaf('leaf', [40, 69], 'ca')),
      composed: present(ca('ca', [-1, 59])),
    },
    want: { copy: 'keep OriginalDiffers', signer: 'keep InGrace' },
  },
  {
    name: 'a self-signed CA that outlives a new one is healthy, and nobody else is blamed',
    policy: beforeExpiry,
    now: at(45),
    resolved: { name: 'l', artefacts: [signer, bundle] },
    change: { signer: present(ca('ca', [-1, 3650])), bundle: present(ca('ca', [-1, 3650])) },
    want: { signer: 'keep Healthy' },
  },
  {
    name: 'a torn bundle is remade, and what its whole certificates have signed stays trusted',
    change: {
      bundle: {
        state: 'broken',
        problem: 'unreadable',
        version: '1',
        message: 'cut off',
        certificates: [ca('old', [-40, 20])],
      },
      target: present(leaf('leaf', [-1, 19], 'old')),
    },
    want: { bundle: 'renew Unreadable', target: 'keep Healthy' },
  },
  {
    name: 'what recovery stands on is renewed ahead by those who otherwise only recover',
    now: at(45),
    resolved: { name: 'r', artefacts: [{ ...signer, renewAhead: true }, bundle] },
    change: {},
    want: { signer: 'renew RefreshDue', bundle: 'renew SignerMissingFromBundle' },
  },
  {
    name: 'an optional object of others may be absent',
    resolved: {
      name: 'o',
      artefacts: [{ kind: 'opaque', name: 'o', location: signer.location, readers: [], published: 'optional' }],
    },
    change: { o: { state: 'absent' } },
    want: { o: 'keep Healthy' },
  },
];

test.each(rows)('plan(): $name', ({ resolved = chain, policy = onlyWhenExpired, now = start, change, want }) => {
  const facts = new Map([...healthy(), ...Object.entries(change)]);
  const { decisions, recheckAt } = plan({ resolved, facts, policy, clock: goodClock, now });
  const got = Object.fromEntries(decisions.map((d) => [d.artefact, `${d.action} ${d.reason}`]));
  expect(got).toMatchObject(want);
  expect(recheckAt.getTime(), 'the next look is never in the past').toBeGreaterThanOrEqual(now.getTime());
});

test('plan() orders the successor of a working leaf behind everything that its readers use', () => {
  const facts = new Map<string, ArtefactFacts>([
    ...healthy(),
    ['signer', present(ca('new', [10, 70]))],
    ['bundle', present(ca('ca', [-1, 59]))],
  ]);
  const { decisions } = plan({ resolved: chain, facts, policy: beforeExpiry, clock: goodClock, now: at(20) });
  expect(decisions.find(({ artefact }) => artefact === 'target')).toMatchObject({
    action: 'renew',
    reason: 'RefreshDue',
    after: ['bundle', composed.name, copy.name],
  });
});

test('plan() keeps trusting what only a composed bundle still holds when one of its inputs was lost', () => {
  const former = ca('former', [-40, 20]);
  const facts = new Map<string, ArtefactFacts>([
    ...healthy(),
    ['bundle', { state: 'absent' }],
    ['composed', present(former)],
  ]);
  const after = { ...composed, name: 'outer', location: { ...composed.location, name: 'outer' }, inputs: ['composed'] };
  const resolved: Resolved = { name: 'f', artefacts: [signer, bundle, composed, after] };
  facts.set('outer', present(former));
  const { decisions } = plan({ resolved, facts, policy: onlyWhenExpired, clock: goodClock, now: start });
  expect(decisions.map((d) => `${d.artefact} ${d.action}`)).toEqual([
    'signer keep',
    'bundle renew',
    'composed renew',
    'outer renew',
  ]);
});
