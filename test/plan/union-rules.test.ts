// The CAs of files that follow a ConfigMap: what is added, what stays, what leaves, and when nothing changes.
import { X509Certificate } from 'node:crypto';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { bounds } from '../../lib/bounds.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { type Environment, resolve } from '../../lib/inventory/resolve.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import type { Decision, RenewalPolicy } from '../../lib/plan/decision.ts';
import type { InUse } from '../../lib/plan/facts.ts';
import { gather } from '../../lib/plan/gather.ts';
import { plan } from '../../lib/plan/plan.ts';
import { authorityKey, type Found, type Store } from '../../lib/store/store.ts';
import { authority, type Authority, day, leaf, now, one } from '../pki/authority.ts';
import { dated } from '../support/certificates/dated.ts';

const clientCaFile = '/etc/kubernetes/kubelet-clients.crt';
const files = { clientCaFile, adminConf: '/etc/kubernetes/admin.conf' };
const absent = { serverCaFile: null, controllerManagerConf: null, schedulerConf: null, superAdminConf: null };

let own: Authority;
let signerOfNext: Authority;
let present: Certificate;
let next: Certificate;
let expired: Certificate;
let early: Certificate;
let foreign: Certificate;
const made = (by: Authority, from: number, until: number): Certificate =>
  one(dated(by.certificate.pem, String(by.key.export({ type: 'pkcs8', format: 'pem' })), day(from), day(until)));

beforeAll(async () => {
  const [first, second, third, fourth, fifth] = await Promise.all(
    ['present', 'next', 'expired', 'early', 'foreign'].map((commonName) => authority({ commonName })),
  );
  own = first as Authority;
  present = made(own, -100, 3000);
  signerOfNext = second as Authority;
  next = made(signerOfNext, -1, 3000);
  expired = made(third as Authority, -3000, -1);
  early = made(fourth as Authority, 3, 3000);
  foreign = made(fifth as Authority, -1, 3000);
});

const pemOf = (certificates: readonly Certificate[]): Buffer =>
  Buffer.from(certificates.map(({ pem }) => pem).join(''));

type Content = readonly Certificate[] | Buffer;
const bytes = (content: Content): Buffer => (Buffer.isBuffer(content) ? content : pemOf(content));

interface World {
  /** Of the ConfigMap, for both purposes; undefined: it is absent. */
  readonly source?: Content | 'unreadable' | undefined;
  /** Undefined: the file is absent. */
  readonly clients?: Content | undefined;
  readonly server?: Content;
  readonly admin?: Content;
  readonly retired?: string;
  readonly changedAt?: Date;
  readonly synchronised?: boolean;
  readonly environment?: Environment;
  readonly policy?: Partial<RenewalPolicy>;
  /** Default: nothing is in use. */
  readonly inUse?: InUse | undefined;
  readonly clientsAre?: Partial<Found>;
}

async function decisionsIn(world: World): Promise<(name: string) => Decision | undefined> {
  const { source, retired, synchronised = true, changedAt = day(-30) } = world;
  const resolved = resolve(loadPreset('node-ca'), { files: { ...absent, ...files }, ...world.environment });
  const found = { annotations: {}, version: '1', changedAt };
  const store: Store = {
    async read(location) {
      if (location.kind === 'configMap') {
        if (source === 'unreadable') throw new RecoveryError('KubeUnavailable', 'no answer');
        const annotations = retired === undefined ? {} : { 'kube-cert-recovery/retired-cas': retired };
        return source && { ...found, annotations, entries: { 'ca-bundle.crt': bytes(source) } };
      }
      if (location.kind === 'kubeconfig') {
        const { server = [present], admin = [present] } = world;
        return { ...found, entries: { [authorityKey]: bytes(location.context === 'current' ? server : admin) } };
      }
      const clients = 'clients' in world ? world.clients : [present];
      return clients && { ...found, entries: { 'ca-bundle.crt': bytes(clients) }, ...world.clientsAre };
    },
    write: () => Promise.reject(new Error('not written')),
  };
  const gathered = await gather({ resolved, store, now, signal: AbortSignal.timeout(10_000) });
  const clock = { builtAt: new Date('2020-01-01'), synchronised };
  const policy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 0, ...world.policy } as const;
  const inUse = 'inUse' in world ? world.inUse : { chains: [] };
  const { decisions } = plan({ resolved, facts: gathered.facts, policy, clock, now, inUse });
  return (name) => decisions.find(({ artefact }) => artefact === name);
}

const becomes = (decision: Decision | undefined): readonly string[] | undefined =>
  decision?.becomes && 'length' in decision.becomes ? decision.becomes.map(({ pem }) => pem) : undefined;
const pems = (...certificates: readonly Certificate[]): readonly string[] => certificates.map(({ pem }) => pem);
const nodeFiles = ['kubelet-client-ca', 'kubelet.conf', 'admin.conf'] as const;

describe('files that follow a ConfigMap', () => {
  it('stay as they are while they hold its CAs', async () => {
    const decided = await decisionsIn({ source: [present] });
    for (const name of [...nodeFiles, 'client-ca', 'server-ca'])
      expect(decided(name)).toMatchObject({ action: 'keep', reason: 'Healthy' });
  });

  it('hold what they held, and what it has gained', async () => {
    const decided = await decisionsIn({ source: [present, next] });
    for (const name of nodeFiles) {
      expect(decided(name)).toMatchObject({ action: 'renew', origin: 'follow', reason: 'InputsDiffer' });
      expect(becomes(decided(name))).toEqual(pems(present, next));
    }
    expect(decided('kubelet.conf')?.message).toContain('"CN=next"');
  });

  it('trust a CA ahead of the day on which it begins', async () => {
    expect(becomes((await decisionsIn({ source: [present, early] }))('kubelet-client-ca'))).toEqual(
      pems(present, early),
    );
  });

  it('keep a CA that it has lost', async () => {
    const decided = await decisionsIn({ source: [next], clients: [present, next] });
    expect(decided('kubelet-client-ca')).toMatchObject({ action: 'keep', reason: 'Healthy' });
  });

  it('have one of each', async () => {
    const decided = await decisionsIn({ source: [next, next, present, next] });
    expect(becomes(decided('kubelet-client-ca'))).toEqual(pems(present, next));
  });

  it.each<[string, () => Promise<Content | undefined> | Content | undefined]>([
    ['absent', () => undefined],
    ['empty', () => []],
    ['blank', () => Buffer.from(' \n')],
    ['garbage', () => Buffer.from('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n')],
    ['only expired CAs', () => [expired]],
    ['only a leaf', async () => [await leaf(own)]],
  ])('change nothing where it is %s, which is said', async (_, sourceOf) => {
    const decided = await decisionsIn({ source: await sourceOf(), clients: [present, expired] });
    for (const name of nodeFiles) expect(decided(name)).toMatchObject({ action: 'keep' });
    for (const name of ['client-ca', 'server-ca'])
      expect(decided(name)).toMatchObject({ action: 'blocked', reason: 'NotOurs', byHand: true });
  });

  it.each<[string, (good: Buffer) => Buffer]>([
    ['a torn block', (good) => Buffer.concat([Buffer.from('-----BEGIN CERTIFICATE-----\nAAAA\n'), good])],
    ['a block of another kind', (good) => Buffer.concat([Buffer.from(keyBlock), good])],
    ['text around them', (good) => Buffer.concat([Buffer.from('# the CAs\r\n\n'), good, Buffer.from('\n# end')])],
    ['CRLF', (good) => Buffer.from(good.toString().replaceAll('\n', '\r\n'))],
    ['no newline at the end', (good) => Buffer.from(good.toString().trimEnd())],
  ])('take the CAs that are whole beside %s', async (_, around) => {
    const decided = await decisionsIn({ source: around(pemOf([present, next])) });
    for (const name of nodeFiles) expect(becomes(decided(name))).toEqual(pems(present, next));
  });

  it('take no leaf, which is said, and the CAs beside it', async () => {
    const decided = await decisionsIn({ source: [await leaf(own), next] });
    expect(becomes(decided('kubelet-client-ca'))).toEqual(pems(present, next));
    expect(decided('client-ca')).toMatchObject({
      action: 'blocked',
      message: expect.stringContaining('is no CA') as string,
    });
  });

  it('are replaced in part by a successor, and added to, at once', async () => {
    const [ending, later] = [made(own, -100, -2), made(own, -100, 4000)];
    const decided = await decisionsIn({ source: [later, next], clients: [ending] });
    expect(becomes(decided('kubelet-client-ca'))).toEqual(pems(later, next));
  });

  it('settle on a successor while the CA that it follows is still offered', async () => {
    const [ending, later] = [made(own, -2000, 10), made(own, -2000, 4000)];
    const server = [ending, next];
    expect(becomes((await decisionsIn({ source: [ending, later], server }))('kubelet.conf'))).toEqual(
      pems(later, next),
    );
    const decided = await decisionsIn({ source: [ending, later], server: [later, next] });
    expect(decided('kubelet.conf')).toMatchObject({ action: 'keep', reason: 'Healthy' });
  });

  it.each<[string, (self: Authority, other: Authority) => Authority]>([
    ['whole', (self) => self],
    ['damaged', ({ certificate }, { key }) => ({ certificate, key })],
  ])('try few signatures of many CAs that are of one name and %s', async (_, signer) => {
    const other = await authority();
    const all = await Promise.all(Array.from({ length: 100 }, () => authority({ commonName: 'present' })));
    const source = all.map((each) => made(signer(each, other), -1, 3000));
    const verify = vi.spyOn(X509Certificate.prototype, 'verify');
    await decisionsIn({ source, clients: [present, ...source], server: [present, ...source] });
    const { length } = verify.mock.calls;
    verify.mockRestore();
    expect(length / source.length).toBeLessThan(200);
  });

  it('get a CA that lasts, also beside its successor', async () => {
    const [first, later] = [made(own, -100, 3000), made(own, -100, 4000)];
    const decided = await decisionsIn({ source: [first, later], server: [later] });
    expect(becomes(decided('kubelet.conf'))).toEqual(pems(later, first));
  });
});

const keyBlock = '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n';

it('are not added where a file would hold more than it can, which is said, and one that was named leaves', async () => {
  const { 'CAs in a file': most } = bounds.nodeTrust.most;
  const many = await Promise.all(
    Array.from({ length: most }, async (_, at) => (await authority({ commonName: `ca-${at}` })).certificate),
  );
  const full = (await decisionsIn({ source: many }))('kubelet-client-ca');
  expect(full).toMatchObject({ action: 'blocked', message: expect.stringContaining(`more than ${most}`) as string });
  const emptied = (await decisionsIn({ source: many, clients: [expired] }))('kubelet-client-ca');
  expect([emptied?.action, becomes(emptied)]).toEqual(['blocked', undefined]);
  const fits = (await decisionsIn({ source: many.slice(1) }))('kubelet-client-ca');
  expect(becomes(fits)).toHaveLength(most);
  expect(fits?.message.length).toBeLessThan(500);
  const retired = `SHA256:${present.facts.fingerprint}`;
  const clients = [present, ...many.slice(1)];
  const freed = (await decisionsIn({ source: many, clients, retired }))('kubelet-client-ca');
  expect(becomes(freed)).toEqual(pems(...many.slice(1)));
  const unknown = (await decisionsIn({ source: many, clients, retired, inUse: undefined }))('kubelet-client-ca');
  expect(unknown).toMatchObject({
    action: 'blocked',
    asksUse: true,
    message: expect.stringMatching(/more than .*"CN=present".* was named for removal, and stays/) as string,
  });
  expect(unknown?.recheckAt.getTime()).toBeGreaterThan(now.getTime());
});

describe('a CA that has expired', () => {
  it('leaves the file beside a valid one', async () => {
    const decided = await decisionsIn({ source: [present], clients: [expired, present] });
    expect(decided('kubelet-client-ca')).toMatchObject({ action: 'renew', reason: 'ExpiredInBundle' });
    expect(becomes(decided('kubelet-client-ca'))).toEqual(pems(present));
  });

  it('stays by a clock that nothing confirms', async () => {
    const decided = await decisionsIn({ source: [present], clients: [expired, present], synchronised: false });
    expect(decided('kubelet-client-ca')).toMatchObject({ action: 'keep' });
  });

  it('stays where it is all there is', async () => {
    const decided = await decisionsIn({ source: undefined, clients: [expired] });
    expect(becomes(decided('kubelet-client-ca'))).toBeUndefined();
  });
});

describe('a CA that was named for removal', () => {
  const world = (hours: number, more: World = {}): World => ({
    source: [next],
    clients: [present, next],
    retired: `SHA256:${present.facts.fingerprint}`,
    changedAt: new Date(now.getTime() - hours * 3_600_000),
    ...more,
  });

  it('leaves once the others have been there for the overlap', async () => {
    const decided = await decisionsIn(world(25));
    expect(becomes(decided('kubelet-client-ca'))).toEqual(pems(next));
  });

  it('stays until then, and the time is known', async () => {
    const decision = (await decisionsIn(world(23.5)))('kubelet-client-ca');
    expect(decision).toMatchObject({ action: 'keep', recheckAt: new Date(now.getTime() + 1_800_000) });
  });

  it('leaves after the overlap that is configured', async () => {
    const decided = await decisionsIn(world(2, { policy: { caOverlapMs: 3_600_000 } }));
    expect(becomes(decided('kubelet-client-ca'))).toEqual(pems(next));
  });

  it.each<[string, () => World]>([
    ['it is offered still', () => ({ source: [present, next] })],
    ['the clock is not confirmed', () => ({ synchronised: false })],
    ['nothing else is offered', () => ({ source: [] })],
    ['another fingerprint is named', () => ({ retired: `SHA256:${'0'.repeat(64)}` })],
  ])('stays where %s', async (_, more) => {
    expect(becomes((await decisionsIn(world(100, more())))('kubelet-client-ca'))).toBeUndefined();
  });

  const using = (certificate: Certificate, ...intermediates: readonly Certificate[]): World => ({
    inUse: { chains: [{ what: 'the certificate of api:6443', chain: [certificate, ...intermediates] }] },
  });

  it('stays while a certificate that it has signed is in use on the node, which is said', async () => {
    const decided = await decisionsIn(world(100, using(await leaf(own))));
    expect(decided('kubelet-client-ca')).toMatchObject({
      action: 'keep',
      reason: 'StillUsed',
      message: expect.stringMatching(/"CN=present".* stays while it verifies the certificate of api:6443/) as string,
    });
  });

  it('stays while it verifies a certificate in use by an intermediate CA that is sent along', async () => {
    const middle = await authority({ commonName: 'middle', issuer: own });
    const decided = await decisionsIn(world(100, using(await leaf(middle), middle.certificate)));
    expect(decided('kubelet-client-ca')).toMatchObject({ action: 'keep', reason: 'StillUsed' });
  });

  it('stays while certificates in use are not known, and they are asked for', async () => {
    const decided = await decisionsIn(world(100, { inUse: undefined }));
    expect(decided('kubelet-client-ca')).toMatchObject({ action: 'keep', reason: 'StillUsed', asksUse: true });
    const failed = await decisionsIn(world(100, { inUse: { problem: 'no answer' } }));
    expect(failed('kubelet-client-ca')?.message).toContain('no answer');
    expect(failed('kubelet-client-ca')).toMatchObject({ action: 'keep', reason: 'StillUsed', asksUse: undefined });
  });

  it.each<[string, () => Promise<World>]>([
    ['another CA has signed what is in use', async () => using(await leaf(signerOfNext))],
    ['what it has signed has expired', async () => using(await leaf(own, { notAfter: day(-0.25), now: day(-0.5) }))],
    [
      'a CA with its name and key stays',
      async () => ({ ...using(await leaf(own)), clients: [present, made(own, -1, 3500), next] }),
    ],
  ])('leaves where %s', async (_, more) => {
    const decided = await decisionsIn(world(100, await more()));
    expect(becomes(decided('kubelet-client-ca'))).not.toContain(present.pem);
    expect(becomes(decided('kubelet-client-ca'))).toContain(next.pem);
  });

  it('leaves alone, of two that were named, where the other one is in use', async () => {
    const retired = [present, foreign].map(({ facts }) => `SHA256:${facts.fingerprint}`).join();
    const clients = [present, foreign, next];
    const decided = await decisionsIn(world(100, { ...using(await leaf(own)), retired, clients }));
    expect(becomes(decided('kubelet-client-ca'))).toEqual(pems(present, next));
  });

  it('stays until a CA that is lacking has come and been there', async () => {
    const decided = await decisionsIn(world(100, { source: [next, early] }));
    expect(becomes(decided('kubelet-client-ca'))).toEqual(pems(present, next, early));
  });
});

describe('a file that follows', () => {
  it.each([
    ['BEGIN', ' '],
    ['END', '\t '],
  ])('keeps a CA with blanks after its %s mark, as Go reads it', async (mark, blanks) => {
    const clients = pemOf([present, foreign]).toString();
    const first = clients.replace(`${mark} CERTIFICATE-----`, `$&${blanks}`);
    const decided = await decisionsIn({ source: [next], clients: Buffer.from(first) });
    expect(becomes(decided('kubelet-client-ca'))).toEqual(pems(present, foreign, next));
  });

  it('is made where the kubelet is told of it and it is absent', async () => {
    const decided = await decisionsIn({ source: [present, next], clients: undefined });
    expect(decided('kubelet-client-ca')).toMatchObject({ action: 'renew', reason: 'Absent' });
    expect(becomes(decided('kubelet-client-ca'))).toEqual(pems(present, next));
  });

  it('is made again where nothing of it can be read', async () => {
    const decided = await decisionsIn({ source: [next], clients: Buffer.from('-----BEGIN CERTIFICATE-----\nA') });
    expect(decided('kubelet-client-ca')).toMatchObject({ action: 'renew', reason: 'Unreadable' });
  });

  it.each<[string, Content | undefined]>([
    ['is absent', undefined],
    ['is torn', Buffer.from('-----BEGIN CERTIFICATE-----\nMIIB')],
  ])('is no work for an administrator where it %s and the ConfigMap could not be read', async (_, clients) => {
    const decision = (await decisionsIn({ source: 'unreadable', clients }))('kubelet-client-ca');
    expect(decision).toMatchObject({ action: 'blocked', reason: 'Unavailable' });
    expect(decision?.message).toContain('client-ca, of which it is made, could not be read');
  });

  it('is left alone where it holds something else', async () => {
    const clientsAre = { foreign: 'it is left alone: it holds a script', isOtherDocument: true } as const;
    const decided = await decisionsIn({ source: [next], clientsAre });
    expect(decided('kubelet-client-ca')).toMatchObject({ action: 'blocked', reason: 'NotOurs' });
  });

  it('is not written where it is also what kube-controller-manager signs with', async () => {
    const environment = { files: { ...absent, ...files }, signerFiles: [clientCaFile] };
    const decided = await decisionsIn({ source: [present, next], environment });
    expect(decided('kubelet-client-ca')).toMatchObject({
      action: 'blocked',
      message: expect.stringContaining('a file of its own') as string,
    });
    expect((await decisionsIn({ source: [present], environment }))('kubelet-client-ca')).toMatchObject({
      action: 'keep',
    });
  });
});

describe('a kubeconfig of other clients', () => {
  it('is left alone where it knows another cluster', async () => {
    const decided = await decisionsIn({ source: [present, next], admin: [foreign] });
    expect(decided('admin.conf')).toMatchObject({ action: 'keep' });
    expect(decided('kubelet.conf')).toMatchObject({ action: 'renew' });
  });

  it('is left alone where the CAs of the system verify its server, as that of the kubelet', async () => {
    expect((await decisionsIn({ source: [next], admin: [] }))('admin.conf')).toMatchObject({ action: 'keep' });
    expect((await decisionsIn({ source: [next], server: [] }))('kubelet.conf')).toMatchObject({ action: 'keep' });
  });
});
