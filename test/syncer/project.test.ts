import { describe, expect, test } from 'vitest';
import {
  project,
  type ApiFacts,
  type SyncDecision,
  type DiskFacts,
  type Projection,
} from '../../lib/syncer/project.ts';

const now = new Date('2026-11-20T08:30:00Z');
const past = new Date('2026-11-19T00:00:00Z');
const future = new Date('2026-12-20T00:00:00Z');
const begun = new Date('2026-01-01T00:00:00Z');
/** Of one certificate that has begun. */
const until = (notAfter: Date) => ({ validity: [{ notBefore: begun, notAfter }] });
const from = (notBefore: Date) => ({ validity: [{ notBefore, notAfter: new Date('2027-12-20T00:00:00Z') }] });

const secret = { kind: 'secret', namespace: 'a', name: 'serving' } as const;
const configMap = { kind: 'configMap', namespace: 'a', name: 'client-ca' } as const;
const pairObject = {
  location: secret,
  published: 'required',
  expects: { kind: 'pair' },
  what: 'Secret "a/serving"',
} as const;
const opaqueObject = { ...pairObject, expects: { kind: 'opaque' } } as const;
const optionalObject = { ...opaqueObject, published: 'optional' } as const;
const bundleObject = {
  location: configMap,
  published: 'required',
  expects: { kind: 'bundle' },
  what: 'ConfigMap "a/client-ca"',
} as const;
const keyPairObject = {
  ...pairObject,
  expects: { kind: 'keyPair', privateKey: 'sa.key', publicKey: 'sa.pub' },
} as const;

const between = (...all: readonly ReturnType<typeof until>[]) => ({
  validity: all.flatMap(({ validity }) => validity),
});

const absent: ApiFacts = { state: 'absent' };
const pair = (material: Extract<ApiFacts, { state: 'present' }>['material'] = until(future)): ApiFacts => ({
  state: 'present',
  keys: ['tls.crt', 'tls.key'],
  material,
});
const holding = (...keys: string[]): ApiFacts => ({ state: 'present', keys, material: {} });
const nothingThere: DiskFacts = { present: false, difference: 'written' };
const other: DiskFacts = { present: true, difference: 'written', material: until(future) };
const otherExpired: DiskFacts = { present: true, difference: 'written', material: until(past) };

interface Row {
  readonly title: string;
  readonly object: Projection['object'];
  readonly api: ApiFacts;
  readonly disk: DiskFacts;
  readonly decision: Partial<SyncDecision>;
  readonly message?: string;
}

const kept = 'the last good files stay in use';

const table: readonly Row[] = [
  {
    title: 'first content',
    object: pairObject,
    api: pair(),
    disk: nothingThere,
    decision: { action: 'write', reason: 'absent' },
  },
  {
    title: 'other content',
    object: pairObject,
    api: pair(),
    disk: other,
    decision: { action: 'write', reason: 'changed' },
  },
  {
    title: 'the same content',
    object: pairObject,
    api: pair(),
    disk: { present: true, difference: 'unchanged' },
    decision: { action: 'none' },
  },
  {
    title: 'the same content with a mode that drifted',
    object: pairObject,
    api: pair(),
    disk: { present: true, difference: 'repaired' },
    decision: { action: 'write', reason: 'drifted' },
  },
  {
    title: 'the same expired content',
    object: pairObject,
    api: pair(until(past)),
    disk: { present: true, difference: 'unchanged' },
    decision: { action: 'none' },
  },
  {
    title: 'an expired pair over a valid one (an older snapshot was restored)',
    object: pairObject,
    api: pair(until(past)),
    disk: other,
    decision: { action: 'keep', reason: 'expired' },
    message:
      'Cannot publish Secret "a/serving": it expired at 2026-11-19T00:00:00.000Z, and the files are valid until 2026-12-20T00:00:00.000Z; they stay in use until the object is renewed',
  },
  {
    title: 'a pair that expires at this instant over a valid one',
    object: pairObject,
    api: pair(until(now)),
    disk: other,
    decision: { action: 'keep', reason: 'expired' },
  },
  {
    title: 'a pair that is not valid yet over a valid one (signed by a machine whose clock is ahead)',
    object: pairObject,
    api: pair(from(future)),
    disk: other,
    decision: { action: 'keep', reason: 'notYetValid' },
    message:
      'Cannot publish Secret "a/serving": it is not valid before 2026-12-20T00:00:00.000Z, and the files are valid until 2026-12-20T00:00:00.000Z; they stay in use until then, or until it is renewed',
  },
  {
    title: 'a bundle of others without any certificate over a valid one',
    object: { ...opaqueObject, location: configMap, what: 'ConfigMap "a/client-ca"' },
    api: { state: 'present', keys: ['ca-bundle.crt'], material: { validity: [], warning: 'nothing in it' } },
    disk: other,
    decision: { action: 'keep', reason: 'empty' },
    message:
      'Cannot publish ConfigMap "a/client-ca": it holds no certificate, and the files are valid until 2026-12-20T00:00:00.000Z; they stay in use until the object holds one',
  },
  {
    title: 'a bundle of others without any certificate over an expired one',
    object: { ...opaqueObject, location: configMap, what: 'ConfigMap "a/client-ca"' },
    api: { state: 'present', keys: ['ca-bundle.crt'], material: { validity: [], warning: 'nothing in it' } },
    disk: otherExpired,
    decision: { action: 'write', reason: 'changed', warning: 'nothing in it' },
  },
  {
    title: 'a pair that begins at this instant over a valid one',
    object: pairObject,
    api: pair(from(now)),
    disk: other,
    decision: { action: 'write', reason: 'changed' },
  },
  {
    title: 'a pair that is not valid yet over an expired one',
    object: pairObject,
    api: pair(from(future)),
    disk: otherExpired,
    decision: { action: 'write', reason: 'changed' },
  },
  {
    title: 'a bundle of which nothing is valid now over one that holds something',
    object: bundleObject,
    api: { state: 'present', keys: ['ca-bundle.crt'], material: between(until(past), from(future)) },
    disk: { ...other, material: between(until(past), until(future)) },
    decision: { action: 'keep', reason: 'notYetValid' },
  },
  {
    title: 'a bundle of which one certificate is valid',
    object: bundleObject,
    api: { state: 'present', keys: ['ca-bundle.crt'], material: between(until(past), until(future), from(future)) },
    disk: other,
    decision: { action: 'write', reason: 'changed' },
  },
  {
    title: 'an expired pair over an expired one',
    object: pairObject,
    api: pair(until(past)),
    disk: otherExpired,
    decision: { action: 'write', reason: 'changed' },
  },
  {
    title: 'an expired pair over a broken one',
    object: pairObject,
    api: pair(until(past)),
    disk: { ...other, material: { problem: { reason: 'unreadable', message: 'x' } } },
    decision: { action: 'write', reason: 'changed' },
  },
  {
    title: 'an expired pair where nothing is',
    object: pairObject,
    api: pair(until(past)),
    disk: nothingThere,
    decision: { action: 'write', reason: 'absent' },
  },
  {
    title: 'a valid pair that ends sooner than the one on disk',
    object: pairObject,
    api: pair(until(new Date('2026-11-21T00:00:00Z'))),
    disk: other,
    decision: { action: 'write', reason: 'changed' },
  },
  {
    title: 'broken PEM',
    object: pairObject,
    api: pair({ problem: { reason: 'unreadable', message: 'cannot read certificates: there is none' } }),
    disk: { present: true, material: until(future) },
    decision: { action: 'refuse', reason: 'unreadable' },
    message: `Cannot publish Secret "a/serving": cannot read certificates: there is none; ${kept}`,
  },
  {
    title: 'a mismatched pair',
    object: opaqueObject,
    api: pair({ problem: { reason: 'mismatchedPair', message: 'no match' } }),
    disk: { present: false },
    decision: { action: 'refuse', reason: 'mismatchedPair' },
  },
  {
    title: 'a pair without its key',
    object: pairObject,
    api: holding('tls.crt', 'ca.crt'),
    disk: other,
    decision: { action: 'refuse', reason: 'missingKey' },
    message: `Cannot publish Secret "a/serving": it holds no "tls.key", only "ca.crt", "tls.crt"; ${kept}`,
  },
  {
    title: 'half of a pair in an opaque Secret',
    object: opaqueObject,
    api: holding('tls.key'),
    disk: other,
    decision: { action: 'refuse', reason: 'missingKey' },
    message: `Cannot publish Secret "a/serving": it holds "tls.key" without "tls.crt"; ${kept}`,
  },
  {
    title: 'half of a pair in an opaque Secret where there is no pair that works',
    object: opaqueObject,
    api: { state: 'present', keys: ['tls.key'], material: { warning: 'half' } },
    disk: otherExpired,
    decision: { action: 'write', reason: 'changed', warning: 'half' },
  },
  {
    title: 'an opaque object that cannot be read here',
    object: opaqueObject,
    api: { state: 'present', keys: ['ca-bundle.crt'], material: { warning: 'odd', ...until(future) } },
    disk: other,
    decision: { action: 'write', reason: 'changed', warning: 'odd' },
  },
  {
    title: 'a bundle under another key',
    object: bundleObject,
    api: holding('ca.crt'),
    disk: nothingThere,
    decision: { action: 'refuse', reason: 'missingKey' },
  },
  {
    title: 'a key pair without its public half',
    object: keyPairObject,
    api: holding('sa.key'),
    disk: nothingThere,
    decision: { action: 'refuse', reason: 'missingKey' },
  },
  {
    title: 'a Secret without entries',
    object: opaqueObject,
    api: holding(),
    disk: other,
    decision: { action: 'refuse', reason: 'empty' },
  },
  {
    title: 'a Secret with more entries than anybody reads',
    object: opaqueObject,
    api: holding(...Array.from({ length: 501 }, (_, count) => `key-${count}`)),
    disk: other,
    decision: { action: 'refuse', reason: 'tooManyNames' },
  },
  {
    title: 'a key that leads out of the directory',
    object: opaqueObject,
    api: holding('../../kubelet.conf'),
    disk: nothingThere,
    decision: { action: 'refuse', reason: 'badName' },
  },
  {
    title: 'an absolute key',
    object: opaqueObject,
    api: holding('/etc/passwd'),
    disk: nothingThere,
    decision: { action: 'refuse', reason: 'badName' },
  },
  {
    title: 'opaque content',
    object: opaqueObject,
    api: holding('kubeconfig'),
    disk: nothingThere,
    decision: { action: 'write', reason: 'absent' },
  },
  {
    title: 'an optional object that is gone',
    object: optionalObject,
    api: absent,
    disk: { present: true },
    decision: { action: 'remove', reason: 'gone' },
  },
  {
    title: 'an optional object that never was',
    object: optionalObject,
    api: absent,
    disk: { present: false },
    decision: { action: 'none' },
  },
  {
    title: 'a required object that is gone',
    object: pairObject,
    api: absent,
    disk: { present: true },
    decision: { action: 'keep', reason: 'missing' },
    message: `Cannot publish Secret "a/serving": it is not in the API, but it is required; ${kept}; create it`,
  },
  {
    title: 'a required object that never was',
    object: pairObject,
    api: absent,
    disk: { present: false },
    decision: { action: 'keep', reason: 'missing' },
    message:
      'Cannot publish Secret "a/serving": it is not in the API, but it is required; there are no files of it either; create it',
  },
];

describe('project()', () => {
  test.each(table)('$title: $decision.action $decision.reason', ({ object, api, disk, decision, message }) => {
    const decided = project({ object, api, disk, now });
    expect(decided).toMatchObject(decision);
    if (message !== undefined) expect(decided).toHaveProperty('message', message);
  });
});
