// The CAs of a machine without their key: which of its files follow, from where, and when the cluster is asked.
import { beforeAll, describe, expect, it } from 'vitest';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import { gather } from '../../lib/plan/gather.ts';
import { type Sources, understandOffers } from '../../lib/plan/gather-offers.ts';
import type { Decision } from '../../lib/plan/decision.ts';
import { plan } from '../../lib/plan/plan.ts';
import { authorityKey, type Entries, type Store } from '../../lib/store/store.ts';
import { authority, type Authority, day, now, one } from '../pki/authority.ts';
import { nodePair } from '../origin/node-pair.ts';
import { dated } from '../support/certificates/dated.ts';

const files = { clientFile: '/pki/client.pem', clientCaFile: '/pki/ca.crt' };
const resolved = resolve(loadPreset('kubeadm-worker'), { files });
let own: Authority;
/** Of an attacker: the same name. */
let other: Authority;
const made = (by: Authority, until: number): Certificate =>
  one(dated(by.certificate.pem, String(by.key.export({ type: 'pkcs8', format: 'pem' })), day(-3650), day(until)));
let expired: Certificate;
let ending: Certificate;
let later: Certificate;

beforeAll(async () => {
  [own, other] = [await authority({ commonName: 'kubernetes' }), await authority({ commonName: 'kubernetes' })];
  [expired, ending, later] = [made(own, -1), made(own, 100), made(own, 3650)];
});

interface World {
  readonly server?: readonly Certificate[];
  readonly clients?: readonly Certificate[];
  readonly offered?: readonly Certificate[];
  readonly problem?: string;
  /** Minutes since the cluster was asked. */
  readonly asked?: number;
  /** The pair of the kubelet. */
  readonly pair?: Entries;
}

const pemOf = (certificates: readonly Certificate[]): Buffer =>
  Buffer.from(certificates.map(({ pem }) => pem).join(''));

async function decisionsIn(world: World): Promise<(name: string) => Decision | undefined> {
  const { server = [], clients = [], offered, problem, asked, pair } = world;
  const found = { annotations: {}, version: '1' };
  const store: Store = {
    async read({ kind }) {
      if (kind === 'kubeconfig') return { ...found, entries: { [authorityKey]: pemOf(server) } };
      if (kind === 'combinedPem') return pair && { ...found, entries: pair };
      return kind === 'pemFile' && clients.length > 0
        ? { ...found, entries: { 'ca-bundle.crt': pemOf(clients) } }
        : undefined;
    },
    write: () => Promise.reject(new Error('not written')),
  };
  const gathered = await gather({ resolved, store, now, signal: AbortSignal.timeout(10_000) });
  const answer = offered ? { authorities: pemOf(offered) } : problem === undefined ? undefined : { problem };
  const askedAt = asked === undefined ? undefined : new Date(now.getTime() - asked * 60_000);
  const sources: Sources = new Map([['kubelet.conf', { place: 'cluster-info', askedAt, answer }]]);
  const offers = understandOffers(sources, { ...gathered, resolved });
  const clock = { builtAt: new Date('2020-01-01'), synchronised: true };
  const policy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 0 } as const;
  const { decisions } = plan({ resolved, facts: gathered.facts, policy, clock, now, offers });
  return (name) => decisions.find(({ artefact }) => artefact === name);
}

const pems = (decision: Decision | undefined): readonly string[] | undefined =>
  decision?.becomes && 'length' in decision.becomes ? decision.becomes.map(({ pem }) => pem) : undefined;

describe('judgeFollowed()', () => {
  it('asks nobody while the CAs are valid for long', async () => {
    const decided = await decisionsIn({ server: [later], clients: [later] });
    for (const name of ['kubelet.conf', 'kubelet-client-ca']) {
      expect(decided(name)).toMatchObject({ action: 'keep', reason: 'Healthy' });
      expect(decided(name)).not.toHaveProperty('obtains');
    }
  });

  it('asks for the successor of an expired CA, at each run', async () => {
    const decided = await decisionsIn({ server: [expired], clients: [expired], asked: 1 });
    expect(decided('kubelet.conf')).toMatchObject({ action: 'renew', origin: 'follow', obtains: 'follow' });
    expect(decided('kubelet-client-ca')).toMatchObject({ action: 'keep', reason: 'SignerExternal' });
  });

  it.each([
    [undefined, 'follow'],
    [59, undefined],
    [61, 'follow'],
  ])('asks once an hour for that of a CA that ends: after %s minutes', async (asked, obtains) => {
    const decision = (await decisionsIn({ server: [ending], ...(asked !== undefined && { asked }) }))('kubelet.conf');
    expect(decision).toMatchObject({ action: 'keep', reason: 'SignerExternal' });
    expect(decision?.obtains).toBe(obtains);
  });

  it('writes the successor that is offered into each file whose CA it follows', async () => {
    const decided = await decisionsIn({ server: [expired], clients: [other.certificate, ending], offered: [later] });
    expect(decided('kubelet.conf')).toMatchObject({ action: 'renew', origin: 'follow', reason: 'Expired' });
    expect(pems(decided('kubelet.conf'))).toEqual([later.pem]);
    expect(pems(decided('kubelet-client-ca'))).toEqual([other.certificate.pem, later.pem]);
  });

  it('takes a successor that another file here holds without asking', async () => {
    const decided = await decisionsIn({ server: [later], clients: [expired] });
    expect(pems(decided('kubelet-client-ca'))).toEqual([later.pem]);
    expect(decided('kubelet.conf')).toMatchObject({ action: 'keep', reason: 'Healthy' });
  });

  it('trusts nothing that the key of its CA has not signed', async () => {
    const decided = await decisionsIn({ server: [expired], clients: [expired], offered: [made(other, 3650)] });
    expect(decided('kubelet.conf')).toMatchObject({
      action: 'blocked',
      message: expect.stringContaining('its key is another one') as string,
    });
    for (const name of ['kubelet.conf', 'kubelet-client-ca']) expect(pems(decided(name))).toBeUndefined();
  });

  it('keeps a CA that has not expired where none can be had', async () => {
    const decided = await decisionsIn({ server: [ending], problem: 'nothing was offered' });
    expect(decided('kubelet.conf')).toMatchObject({
      action: 'keep',
      message: expect.stringContaining('nothing was offered') as string,
    });
  });

  it('asks nobody where no CA verifies the API server', async () => {
    const decided = await decisionsIn({ server: [], clients: [expired] });
    expect(decided('kubelet.conf')).toMatchObject({ action: 'keep', reason: 'Healthy' });
    expect(decided('kubelet-client-ca')).not.toHaveProperty('obtains');
  });
});

describe('judgeRequested() beside an expired CA', () => {
  const client = async (world: World): Promise<Decision | undefined> => {
    const { certificate, key } = await nodePair(); // it has expired, too
    const pair = { 'tls.crt': Buffer.from(certificate.pem), 'tls.key': Buffer.from(key.pem) };
    return (await decisionsIn({ server: [expired], ...world, pair }))('kubelet-client');
  };

  it('waits until the cluster was asked for a CA', async () => {
    expect(await client({})).toMatchObject({
      action: 'renew',
      obtains: 'request',
      message: expect.stringContaining('once a CA is valid') as string,
    });
  });

  it('is requested with the CA that comes, and with none not at all', async () => {
    expect(await client({ offered: [later] })).toMatchObject({
      action: 'renew',
      origin: 'request',
      obtains: 'request',
    });
    const none = { action: 'blocked', reason: 'SignerUnusable' };
    expect(await client({ problem: 'nothing was offered' })).toMatchObject(none);
    expect(await client({ offered: [made(other, 3650)] })).toMatchObject(none);
  });
});
