// What speaks against a CA in files, by real certificates, and what is held back for it.
import { beforeAll, describe, expect, it, test } from 'vitest';
import type { Resolved, ResolvedArtefact, ResolvedTarget } from '../../lib/inventory/model.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import { encodePem } from '../../lib/pki/pem.ts';
import { certificateOf, type UnknownAuthority } from '../../lib/plan/facts.ts';
import { plan } from '../../lib/plan/plan.ts';
import { withUnknownAuthorities } from '../../lib/plan/gather-unknown.ts';
import type { Found } from '../../lib/store/store.ts';
import { type Authority, authority, day, leaf, now, one } from '../pki/authority.ts';
import { goodClock, onlyWhenExpired, present, signer, target } from '../support/facts.ts';

const files = (name: string) => ({ kind: 'pemPair', certFile: `/${name}.crt`, keyFile: `/${name}.key` }) as const;
const ca: ResolvedArtefact = { ...signer, name: 'ca', owned: false, location: files('ca') };
const server: ResolvedTarget = {
  ...target,
  name: 'server',
  issuer: 'ca',
  template: 'present',
  location: files('server'),
};
const peer: ResolvedTarget = { ...server, name: 'peer', location: files('peer') };
const copy: ResolvedArtefact = {
  kind: 'copy',
  name: 'copy',
  readers: [],
  of: 'ca',
  location: { kind: 'pemFile', file: '/copy.crt' },
};
const bundle: ResolvedArtefact = {
  kind: 'caBundle',
  name: 'bundle',
  readers: [],
  signers: ['ca'],
  location: { kind: 'pemFile', file: '/bundle.crt' },
};

let own: Authority;
let former: Authority;
let third: Authority;
beforeAll(async () => {
  [own, former, third] = [await authority(), await authority(), await authority()];
});

const found = (entry: string, ...certificates: readonly Certificate[]): Found => ({
  version: '1',
  annotations: {},
  entries: { [entry]: Buffer.from(certificates.map(({ pem }) => pem).join('')) },
});
const pair = (...certificates: readonly Certificate[]): Found => found('tls.crt', ...certificates);

async function evidence(
  there: Readonly<Record<string, Found>>,
  artefacts: readonly ResolvedArtefact[] = [ca, server, peer],
  backup?: Found,
) {
  const { ca: authorities = pair(own.certificate) } = there;
  const all = new Map(Object.entries({ ca: authorities, ...there }));
  const facts = new Map([['ca', present(own.certificate.facts)]]);
  const resolved: Resolved = { name: 'test', artefacts };
  const sources = { resolved, found: all, store: { backup: async () => backup }, now };
  const judged = await withUnknownAuthorities(facts, sources, (_name, err) => expect.fail(String(err)));
  const fact = judged.get('ca');
  return fact?.state === 'present' ? fact.unknownTo : undefined;
}

/** One bit of it is another. */
function damaged(certificate: Certificate, at: (der: Buffer) => number): Certificate {
  const der = Buffer.from(certificate.x509.raw);
  const index = at(der);
  der[index] = (der[index] ?? 0) ^ 1;
  return one(encodePem({ label: 'CERTIFICATE', der }));
}

describe('withUnknownAuthorities()', () => {
  it('names the key on which all agree, valid or expired', async () => {
    const expired = { notBefore: day(-20), notAfter: day(-10), now: day(-20) };
    const old = { ...former, certificate: former.certificate };
    const unknown: UnknownAuthority = {
      leaves: ['server', 'peer'],
      issuer: 'CN=test-ca',
      keyId: former.certificate.fields.subjectKeyId,
      fingerprint: undefined,
      heldBy: undefined,
      backup: undefined,
    };
    expect(await evidence({ server: pair(await leaf(old)), peer: pair(await leaf(old)) })).toEqual(unknown);
    const early = await authority({ notBefore: day(-30), at: day(-30) });
    const both = { server: pair(await leaf(early, expired)), peer: pair(await leaf(early)) };
    expect(await evidence(both)).toMatchObject({ leaves: ['server', 'peer'] });
  });

  it('takes one leaf for enough', async () => {
    expect(await evidence({ server: pair(await leaf(former)) })).toMatchObject({ leaves: ['server'] });
  });

  it('names the certificate of that key where it lies here, and the backup that has the pair', async () => {
    const { fingerprint } = former.certificate.facts;
    const there = { server: pair(await leaf(former)) };
    const holder: ResolvedTarget = { ...server, name: 'admin', issuer: 'other' };
    const admin = found('ca.crt', third.certificate, former.certificate);
    expect(await evidence({ ...there, admin }, [ca, server, holder])).toMatchObject({ fingerprint, heldBy: 'admin' });

    const key = Buffer.from(former.key.export({ type: 'pkcs8', format: 'pem' }));
    const kept = pair(third.certificate, former.certificate);
    const whole = { ...kept, entries: { ...kept.entries, 'tls.key': key } };
    expect(await evidence(there, undefined, whole)).toMatchObject({ fingerprint, backup: 'valid' });
    expect(await evidence(there, undefined, kept)).toMatchObject({ fingerprint: undefined, backup: undefined });
    const others = Buffer.from(third.key.export({ type: 'pkcs8', format: 'pem' }));
    const otherPair = { ...kept, entries: { ...kept.entries, 'tls.key': others } };
    expect(await evidence(there, undefined, otherPair)).toMatchObject({ backup: undefined });
  });

  const rows: readonly (readonly [
    string,
    () => Promise<Readonly<Record<string, Found>>>,
    (readonly ResolvedArtefact[])?,
  ])[] = [
    ['one knows it', async () => ({ server: pair(await leaf(former)), peer: pair(await leaf(own)) })],
    ['they do not agree', async () => ({ server: pair(await leaf(former)), peer: pair(await leaf(third)) })],
    ['nothing is there', async () => ({})],
    [
      'the former CA stands in its file',
      async () => ({ ca: pair(own.certificate, former.certificate), server: pair(await leaf(former)) }),
    ],
    [
      'the former CA stands in its bundle',
      async () => ({ bundle: found('ca-bundle.crt', former.certificate), server: pair(await leaf(former)) }),
      [ca, bundle, server],
    ],
    [
      'the leaf brings a CA along that it has signed',
      async () => {
        const middle = await authority({ commonName: 'middle', issuer: own });
        return { server: pair(await leaf(middle), middle.certificate) };
      },
    ],
    [
      'a leaf is damaged in its signature',
      async () => ({ server: pair(damaged(await leaf(own), (der) => der.length - 1)) }),
    ],
    [
      'a leaf is damaged in the key identifier of its issuer',
      async () => {
        const id = Buffer.from(own.certificate.fields.subjectKeyId ?? '', 'hex');
        return { server: pair(damaged(await leaf(own), (der) => der.indexOf(id) + 3)) };
      },
    ],
    ['it is signed by itself', async () => ({ server: pair(third.certificate) })],
    [
      'others may sign it',
      async () => ({ server: pair(await leaf(former)) }),
      [ca, { ...server, mayBeOfOthers: true }],
    ],
    [
      'the kubelet rotates it',
      async () => ({ server: pair(await leaf(former)) }),
      [ca, { ...server, rotatedBy: 'kubelet' }],
    ],
    [
      'it does no work of its place',
      async () => ({ server: pair(await leaf(former, { usage: 'client', commonName: 'x' })) }),
    ],
    ['it is made here', async () => ({ server: pair(await leaf(former)) }), [{ ...ca, owned: true }, server]],
    [
      'it lies in the API, where bundles hold the former',
      async () => ({ server: pair(await leaf(former)) }),
      [{ ...ca, location: { kind: 'secret', namespace: 'n', name: 'ca' } }, server],
    ],
  ];
  for (const [what, there, artefacts] of rows)
    test(`says nothing where ${what}`, async () => {
      expect(await evidence(await there(), artefacts)).toBeUndefined();
    });
});

describe('plan()', () => {
  const artefacts = [ca, bundle, copy, server, peer];
  const decide = async (accepted?: string, more: Partial<UnknownAuthority> = {}) => {
    const strange = await leaf(former);
    const unknownTo = { leaves: ['server'], issuer: 'CN=test-ca', keyId: '00ff', ...more };
    const ended = { ...strange.facts, notAfter: day(-1), signedBy: [] };
    const facts = new Map([
      ['ca', { ...present({ ...own.certificate.facts, signedBy: [own.certificate.facts.fingerprint] }), unknownTo }],
      ['bundle', present(former.certificate.facts)],
      ['copy', present(former.certificate.facts)],
      ['server', present({ ...strange.facts, signedBy: [] })],
      ['peer', present(ended)],
    ]);
    const acceptedAuthorities = accepted === undefined ? undefined : new Set([accepted]);
    const policy = { ...onlyWhenExpired, settleMs: 0, acceptedAuthorities };
    const { decisions } = plan({ resolved: { name: 'test', artefacts }, facts, policy, clock: goodClock, now });
    expect(certificateOf(facts.get('ca'))).toBeDefined();
    return decisions;
  };

  it('holds back all that would follow from it, and says what to do', async () => {
    const decisions = await decide();
    for (const { action, reason, byHand } of decisions)
      expect([action, reason, byHand]).toEqual(['blocked', 'SignerUnknown', true]);
    const { fingerprint } = own.certificate.facts;
    const message = decisions.find(({ artefact }) => artefact === 'ca')?.message ?? '';
    for (const text of [`CA "CN=test-ca" (SHA256:${fingerprint})`, '1 of 1', '00ff', '/ca.crt', '/ca.key'])
      expect(message).toContain(text);
    expect(message).toContain(`--accept-ca=SHA256:${fingerprint}`);
  });

  it('names the copy of both files where there is one', async () => {
    const isKept = await decide(undefined, { backup: 'valid', fingerprint: 'ab12', heldBy: 'admin' });
    const message = isKept.find(({ artefact }) => artefact === 'ca')?.message ?? '';
    for (const text of [
      '(SHA256:ab12; key identifier 00ff; its certificate lies in admin)',
      '"kube-cert-recovery restore ca"',
    ])
      expect(message).toContain(text);
    const [{ message: expired } = { message: '' }] = await decide(undefined, { backup: 'expired' });
    expect(expired).toContain('"kube-cert-recovery restore ca --force", which has a copy of both from before');
  });

  it('holds nothing back once it was accepted, and goes on where another one was', async () => {
    const accepted = await decide(own.certificate.facts.fingerprint);
    expect(accepted.map(({ reason }) => reason)).not.toContain('SignerUnknown');
    expect(accepted.find(({ artefact }) => artefact === 'peer')?.action).toBe('renew');
    expect((await decide('00')).map(({ action }) => action)).not.toContain('renew');
  });
});
