import { describe, expect, test } from 'vitest';
import { project, type ApiFacts, type DiskFacts, type Projection } from '../../lib/syncer/project.ts';

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

/** Object, the API's state, the disk's, action and reason, and where it matters the message or the warning. */
type Row = readonly [string, Projection['object'], ApiFacts, DiskFacts, decision: string, text?: string];

const kept = 'the last good files stay in use';

const table: readonly Row[] = [
  ['first content', pairObject, pair(), nothingThere, 'write absent'],
  ['other content', pairObject, pair(), other, 'write changed'],
  ['the same content', pairObject, pair(), { present: true, difference: 'unchanged' }, 'none'],
  [
    'the same content with a mode that drifted',
    pairObject,
    pair(),
    { present: true, difference: 'repaired' },
    'write drifted',
  ],
  ['the same expired content', pairObject, pair(until(past)), { present: true, difference: 'unchanged' }, 'none'],
  [
    'an expired pair over a valid one (an older snapshot was restored)',
    pairObject,
    pair(until(past)),
    other,
    'keep expired',
    'Cannot publish Secret "a/serving": it expired at 2026-11-19T00:00:00.000Z, and the files are valid until 2026-12-20T00:00:00.000Z; they stay in use until the object is renewed',
  ],
  ['a pair that expires at this instant over a valid one', pairObject, pair(until(now)), other, 'keep expired'],
  [
    'a pair that is not valid yet over a valid one (signed by a machine whose clock is ahead)',
    pairObject,
    pair(from(future)),
    other,
    'keep notYetValid',
    'Cannot publish Secret "a/serving": it is not valid before 2026-12-20T00:00:00.000Z, and the files are valid until 2026-12-20T00:00:00.000Z; they stay in use until then, or until it is renewed',
  ],
  ['a pair that begins at this instant over a valid one', pairObject, pair(from(now)), other, 'write changed'],
  ['a pair that is not valid yet over an expired one', pairObject, pair(from(future)), otherExpired, 'write changed'],
  [
    'a bundle of which nothing is valid now over one that holds something',
    bundleObject,
    { state: 'present', keys: ['ca-bundle.crt'], material: between(until(past), from(future)) },
    { ...other, material: between(until(past), until(future)) },
    'keep notYetValid',
  ],
  [
    'a bundle of which one certificate is valid',
    bundleObject,
    { state: 'present', keys: ['ca-bundle.crt'], material: between(until(past), until(future), from(future)) },
    other,
    'write changed',
  ],
  ['an expired pair over an expired one', pairObject, pair(until(past)), otherExpired, 'write changed'],
  [
    'an expired pair over a broken one',
    pairObject,
    pair(until(past)),
    { ...other, material: { problem: { reason: 'unreadable', message: 'x' } } },
    'write changed',
  ],
  ['an expired pair where nothing is', pairObject, pair(until(past)), nothingThere, 'write absent'],
  [
    'a valid pair that ends sooner than the one on disk',
    pairObject,
    pair(until(new Date('2026-11-21T00:00:00Z'))),
    other,
    'write changed',
  ],
  [
    'broken PEM',
    pairObject,
    pair({ problem: { reason: 'unreadable', message: 'cannot read certificates: there is none' } }),
    { present: true, material: until(future) },
    'refuse unreadable',
    `Cannot publish Secret "a/serving": cannot read certificates: there is none; ${kept}`,
  ],
  [
    'a mismatched pair',
    opaqueObject,
    pair({ problem: { reason: 'mismatchedPair', message: 'no match' } }),
    { present: false },
    'refuse mismatchedPair',
  ],
  [
    'a pair without its key',
    pairObject,
    holding('tls.crt', 'ca.crt'),
    other,
    'refuse missingKey',
    `Cannot publish Secret "a/serving": it holds no "tls.key", only "ca.crt", "tls.crt"; ${kept}`,
  ],
  [
    'half of a pair in an opaque Secret',
    opaqueObject,
    holding('tls.key'),
    other,
    'refuse missingKey',
    `Cannot publish Secret "a/serving": it holds "tls.key" without "tls.crt"; ${kept}`,
  ],
  [
    'half of a pair in an opaque Secret where there is no pair that works',
    opaqueObject,
    { state: 'present', keys: ['tls.key'], material: { warning: 'half' } },
    otherExpired,
    'write changed',
    'half',
  ],
  [
    'an opaque object that cannot be read here',
    opaqueObject,
    { state: 'present', keys: ['ca-bundle.crt'], material: { warning: 'odd', ...until(future) } },
    other,
    'write changed',
    'odd',
  ],
  [
    'a bundle without a certificate where there are valid ones',
    { ...opaqueObject, location: configMap, what: 'ConfigMap "a/client-ca"' },
    { state: 'present', keys: ['ca-bundle.crt'], material: { warning: 'odd', blank: 'ca-bundle.crt' } },
    other,
    'refuse empty',
    `Cannot publish ConfigMap "a/client-ca": its "ca-bundle.crt" holds no PEM; ${kept}`,
  ],
  [
    'a bundle without a certificate where there is none that is valid',
    opaqueObject,
    { state: 'present', keys: ['ca-bundle.crt'], material: { warning: 'odd', blank: 'ca-bundle.crt' } },
    otherExpired,
    'write changed',
    'odd',
  ],
  ['a bundle under another key', bundleObject, holding('ca.crt'), nothingThere, 'refuse missingKey'],
  ['a key pair without its public half', keyPairObject, holding('sa.key'), nothingThere, 'refuse missingKey'],
  ['a Secret without entries', opaqueObject, holding(), other, 'refuse empty'],
  [
    'a Secret with more entries than anybody reads',
    opaqueObject,
    holding(...Array.from({ length: 501 }, (_, count) => `key-${count}`)),
    other,
    'refuse tooManyNames',
  ],
  [
    'a key that leads out of the directory',
    opaqueObject,
    holding('../../kubelet.conf'),
    nothingThere,
    'refuse badName',
  ],
  ['an absolute key', opaqueObject, holding('/etc/passwd'), nothingThere, 'refuse badName'],
  ['opaque content', opaqueObject, holding('kubeconfig'), nothingThere, 'write absent'],
  ['an optional object that is gone', optionalObject, absent, { present: true }, 'remove gone'],
  ['an optional object that never was', optionalObject, absent, { present: false }, 'none'],
  [
    'a required object that is gone',
    pairObject,
    absent,
    { present: true },
    'keep missing',
    `Cannot publish Secret "a/serving": it is not in the API, but it is required; ${kept}; create it`,
  ],
  [
    'a required object that never was',
    pairObject,
    absent,
    { present: false },
    'keep missing',
    'Cannot publish Secret "a/serving": it is not in the API, but it is required; there are no files of it either; create it',
  ],
];

describe('project()', () => {
  for (const [title, object, api, disk, expected, text] of table) {
    test(title, () => {
      const none = { reason: '', message: undefined, warning: undefined };
      const { action, reason, message, warning } = { ...none, ...project({ object, api, disk, now }) };
      expect(`${action} ${reason}`.trim()).toBe(expected);
      if (text !== undefined) expect(message ?? warning).toBe(text);
    });
  }
});
