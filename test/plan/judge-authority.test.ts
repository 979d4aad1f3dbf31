import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it, test } from 'vitest';
import { renewAheadOf } from '../../lib/config/ahead-settings.ts';
import type { Settings } from '../../lib/config/schema.ts';
import { earliestDue } from '../../lib/pki/ca-due.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import { renewWithOwnKey } from '../../lib/pki/own-key.ts';
import { thresholdMs } from '../../lib/plan/ahead-rules.ts';
import { endingOf, followedBy, judgeOffer, type OfferJudgement, worstEnding } from '../../lib/plan/judge-authority.ts';
import { type Authority, authority, day, leaf, now, one } from '../pki/authority.ts';
import { opensslDir } from '../pki/openssl.ts';
import { dated } from '../support/certificates/dated.ts';

const kubernetes = { commonName: 'kubernetes', notBefore: day(-3650), notAfter: day(-1), at: day(-3650) };
let trusted: Authority;
/** Of another cluster, or of an attacker: the same name. */
let other: Authority;
let renewed: Certificate;
const keyPem = ({ key }: Authority): string => String(key.export({ type: 'pkcs8', format: 'pem' }));
const withDates = (by: Authority, from: Date, until: Date, pem = by.certificate.pem): Certificate =>
  one(dated(pem, keyPem(by), from, until));

/** Names are compared as bytes: all CAs of that name are openssl's. */
async function cluster(): Promise<Authority> {
  const made = await authority(kubernetes);
  const pem = await byOpenssl(made);
  return { key: made.key, certificate: withDates(made, kubernetes.notBefore, kubernetes.notAfter, pem) };
}

beforeAll(async () => {
  trusted = await cluster();
  other = await cluster();
  renewed = renewWithOwnKey({ old: trusted.certificate, key: trusted.key, others: [], now });
});

const judge = (pem: string, held: readonly Certificate[] = [trusted.certificate]): OfferJudgement =>
  judgeOffer(Buffer.from(pem), held, now);

const usual = renewAheadOf({ regen: { renewBefore: 86_400_000 }, lives: {} } as unknown as Settings, '');
if (usual === undefined) throw new Error('no renewal ahead of time');

describe('endingOf()', () => {
  test.each([
    [-3650, 1, -1, 'expired'],
    [-3650, 1, 0, 'expired'],
    [-3650, 364, 0, 'ending'],
    [-3650, 366, 0, undefined],
    // A third of a short life.
    [-20, 9, 0, 'ending'],
    [-20, 11, 0, undefined],
  ])('a CA of day %i to %i, %i days later', (from, until, at, expected) => {
    const certificate = withDates(trusted, day(from), day(until));
    const late = at === -1 ? day(until + 1) : expected === 'expired' ? certificate.facts.notAfter : day(0);
    expect(endingOf(certificate, late)).toBe(expected);
  });

  it.each([1, 20, 3 * 365, 10 * 365])(
    'judges a CA of %i days as a control-plane node without settings does',
    (days) => {
      const { facts } = withDates(trusted, day(-days / 2), day(days / 2));
      const signer = { kind: 'signer', location: { kind: 'pemPair', directory: '/', certificate: 'a', key: 'b' } };
      const ruled = {
        artefact: { ...signer, validity: 3650 * 86_400_000, refresh: 0 },
        policy: { ahead: { ...usual, jitter: 0 } },
      };
      const threshold = thresholdMs(ruled as unknown as Parameters<typeof thresholdMs>[0], facts) ?? NaN;
      const due = facts.notAfter.getTime() - threshold;
      const at = (ms: number): string | undefined => endingOf({ facts } as Certificate, new Date(ms));
      expect([at(due - 1), at(due)]).toEqual([undefined, 'ending']);
      expect(earliestDue(facts).getTime()).toBeLessThan(due);
    },
  );

  it('of several the worst counts', () => {
    const [ending, well] = [withDates(trusted, day(-3650), day(10)), withDates(trusted, day(-1), day(3650))];
    expect(worstEnding([well, ending, trusted.certificate], now)).toBe('expired');
    expect(worstEnding([well, ending], now)).toBe('ending');
    expect(worstEnding([well], now)).toBeUndefined();
    expect(worstEnding([], now)).toBeUndefined();
  });
});

describe('judgeOffer()', () => {
  it('takes the same CA with a later end, signed by the key that is trusted', () => {
    expect(judge(renewed.pem)).toEqual({ state: 'successor', certificate: renewed });
    const ending = withDates(trusted, day(-3650), day(100));
    const later = withDates(trusted, day(-3650), day(3650));
    expect(judge(later.pem, [ending])).toEqual({ state: 'successor', certificate: later });
  });

  it('waits while the cluster has what is here', () => {
    expect(judge(trusted.certificate.pem)).toEqual({ state: 'none' });
  });

  it('finds whose successor it is among several', () => {
    expect(judge(renewed.pem, [other.certificate, trusted.certificate])).toMatchObject({ state: 'successor' });
  });

  it.each([
    ['after another one', () => other.certificate.pem + renewed.pem],
    ['before another one', () => renewed.pem + other.certificate.pem],
    ['after a leaf that it has signed', async () => (await leafByTrusted()) + renewed.pem],
  ])('takes it %s', async (_, pem) => {
    expect(judge(await pem())).toEqual({ state: 'successor', certificate: renewed });
  });

  it('leaves a successor of one that does not end yet', () => {
    const well = withDates(trusted, day(-1), day(3000));
    expect(judge(withDates(trusted, day(-1), day(3650)).pem, [well, other.certificate])).toEqual({ state: 'none' });
  });

  describe('refuses', () => {
    const rows: readonly (readonly [string, () => string | Promise<string>, RegExp])[] = [
      ['another key by the same name', () => withDates(other, day(-3650), day(3650)).pem, /its key is another one/],
      ['another name by the same key', () => sameKey({ commonName: 'kubernetes-ca' }), /its name is another one/],
      ['a leaf that the CA has signed', leafByTrusted, /is not a CA that may sign certificates/],
      ['a leaf of that name and that key', notCa, /is not a CA that may sign certificates/],
      [
        'one that another CA has signed',
        async () => byOpenssl(trusted, { issuer: await authority() }),
        /another CA has signed it/,
      ],
      ['one that has expired, though later', () => withDates(trusted, day(-3650), day(-0.5)).pem, /has expired$/],
      ['one that is not valid yet', () => withDates(trusted, day(1), day(3650)).pem, /is not valid before/],
      ['one that ends earlier', () => withDates(trusted, day(-3650), day(-2)).pem, /it does not end after/],
      [
        'one by the key without the former key identifier',
        () => sameKey({ identifier: 'none' }),
        /its extension 2\.5\.29\.14 is not that of the old/,
      ],
      ['one with a path length', () => sameKey({ pathLength: 0 }), /its extension 2\.5\.29\.19/],
      ['a signature with SHA-1', () => byOpenssl(trusted, { hash: '-sha1' }), /insecure hash \(MD5 or SHA-1\)/],
      ['a signature that is wrong', () => broken(renewed), /its signature is wrong/],
      ['two, of which none is', () => other.certificate.pem + other.certificate.pem, /its key is another one/],
      ['too many', () => renewed.pem.repeat(11), /it is 11 certificates, wanted one to 10/],
      ['a key beside it', () => renewed.pem + keyPem(other), /block "PRIVATE KEY" .* wanted only "CERTIFICATE"/],
      ['what is cut off', () => renewed.pem.slice(0, 200), /is cut off/],
      ['no certificate', () => 'a: CA', /there is none/],
      ['nothing', () => '', /there is none/],
    ];
    test.each(rows)('%s', async (_what, pem, reason) => {
      const judgement = judge(await pem());
      expect(judgement).toMatchObject({ state: 'refused', reason: expect.stringMatching(reason) as string });
      expect(JSON.stringify(judgement)).not.toMatch(/BEGIN|PRIVATE KEY-----/);
    });

    it('and names what was offered', () => {
      const forged = withDates(other, day(-3650), day(3650));
      const { fingerprint, notAfter } = forged.facts;
      expect(judge(forged.pem)).toMatchObject({
        reason: expect.stringContaining(
          `"CN=kubernetes" (sha256 ${fingerprint.slice(0, 16)}, until ${notAfter.toISOString()}) is no renewal of "CN=kubernetes"`,
        ) as string,
      });
    });
  });
});

describe('followedBy()', () => {
  it('replaces what ends in its place, and keeps the rest', () => {
    const well = withDates(other, day(-1), day(3650));
    expect(followedBy([well, trusted.certificate], [renewed], now)).toEqual([well, renewed]);
    expect(followedBy([trusted.certificate, well, renewed], [renewed], now)).toEqual([renewed, well]);
  });

  it('takes the one that ends last, and of two alike the same on each machine', () => {
    const last = withDates(trusted, day(-3650), day(4000));
    expect(followedBy([trusted.certificate], [renewed, last], now)).toEqual([last]);
    const twins = [withDates(trusted, day(-3650), day(4000)), withDates(trusted, day(-3650), day(4000))];
    expect(followedBy([trusted.certificate], twins, now)).toEqual(
      followedBy([trusted.certificate], twins.toReversed(), now),
    );
  });

  it('has nothing to do without a successor', () => {
    const forged = withDates(other, day(-3650), day(3650));
    expect(followedBy([trusted.certificate], [forged, trusted.certificate], now)).toBeUndefined();
    expect(followedBy([renewed], [renewed], now)).toBeUndefined();
    expect(followedBy([], [renewed], now)).toBeUndefined();
  });
});

async function leafByTrusted(): Promise<string> {
  const issuer = { ...trusted, certificate: renewed };
  return (await leaf(issuer, { commonName: 'kubernetes' })).pem;
}

function broken({ x509 }: Certificate): string {
  const der = Buffer.from(x509.raw);
  der[der.length - 1] = (der.at(-1) ?? 0) ^ 1;
  return `-----BEGIN CERTIFICATE-----\n${der.toString('base64')}\n-----END CERTIFICATE-----\n`;
}

interface Asked {
  readonly commonName?: string;
  readonly pathLength?: number;
  readonly identifier?: 'hash' | 'none';
  readonly hash?: string;
  readonly issuer?: Authority;
}

/** A CA with that key, for ten years from the real today. */
async function byOpenssl(own: Authority, asked: Asked = {}): Promise<string> {
  const { commonName = 'kubernetes', pathLength, identifier = 'hash', hash = '-sha256', issuer } = asked;
  await using dir = await opensslDir();
  const limit = pathLength === undefined ? '' : `,pathlen:${pathLength}`;
  const extensions = [
    `basicConstraints=critical,CA:TRUE${limit}`,
    'keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign',
    `subjectKeyIdentifier=${identifier}`,
  ];
  const config = await dir.file('cnf', `[req]\ndistinguished_name=dn\n[dn]\n[ext]\n${extensions.join('\n')}\n`);
  const [caFile, caKey] = issuer ? [issuer.certificate.pem, keyPem(issuer)] : [];
  const by = caFile && caKey && ['-CA', await dir.file('ca.crt', caFile), '-CAkey', await dir.file('ca.key', caKey)];
  const what = ['-x509', '-key', await dir.file('key', keyPem(own)), '-subj', `/CN=${commonName}`];
  const how = ['-days', '3650', hash, '-config', config, '-extensions', 'ext', '-out', dir.path('made.pem')];
  await dir.openssl('req', ...what, ...how, ...(by || []));
  return await readFile(dir.path('made.pem'), 'utf8'); // before the directory goes
}

/** For ten years from the fixed today. */
const sameKey = async (asked: Asked): Promise<string> =>
  withDates(trusted, day(-3650), day(3650), await byOpenssl(trusted, asked)).pem;

async function notCa(): Promise<string> {
  const self = { certificate: renewed, key: trusted.key };
  return (await leaf(self, { commonName: 'kubernetes', key: trusted.key })).pem;
}
