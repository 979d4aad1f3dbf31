// CAs of image registries in a directory, and their credentials, which follow objects in the API.
import { beforeAll, describe, expect, it } from 'vitest';
import { bounds } from '../../lib/bounds.ts';
import { loadInventory } from '../../lib/inventory/load.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import type { Decision } from '../../lib/plan/decision.ts';
import { gather } from '../../lib/plan/gather.ts';
import { plan } from '../../lib/plan/plan.ts';
import { RecoveryError } from '../../lib/errors.ts';
import type { Store } from '../../lib/store/store.ts';
import { authority, day, leaf, now } from '../pki/authority.ts';

const inventory = loadInventory(`
apiVersion: kube-cert-recovery/v1alpha1
kind: Inventory
namespace: openshift-config
artefacts:
  - { kind: external, name: cas, location: { configMap: registry-cas, content: bundles } }
  - { kind: external, name: more-cas, presence: optional, location: { configMap: more, content: bundles } }
  - { kind: external, name: auths, location: { secret: pull-secret, content: registryAuths } }
  - kind: external
    name: registries
    followedAs: otherCa
    inputs: [cas, more-cas]
    location: { pemDirectory: /etc/docker/certs.d }
  - { kind: copy, name: kubelet-auths, of: auths, location: { registryAuths: /var/lib/kubelet/config.json } }
`);

let first: Certificate;
let second: Certificate;
let expired: Certificate;
let ofServer: Certificate;

beforeAll(async () => {
  const [one, two, three] = await Promise.all([
    authority({ commonName: 'first' }),
    authority({ commonName: 'second' }),
    authority({ commonName: 'expired', notBefore: day(-20), notAfter: day(-2), at: day(-20) }),
  ]);
  [first, second, expired] = [one.certificate, two.certificate, three.certificate];
  ofServer = await leaf(one);
});

type Bundles = Readonly<Record<string, readonly Certificate[] | string>>;
interface World {
  /** By key; undefined: the object is absent. */
  readonly cas?: Bundles | undefined;
  readonly more?: Bundles | 'unreadable' | undefined;
  readonly retired?: string;
  /** Files of the directory, by name. */
  readonly here?: Bundles | undefined;
  readonly changedAt?: Date;
  readonly synchronised?: boolean;
  readonly auths?: string | undefined;
  readonly authsHere?: string | undefined;
}

const entries = (bundles: Bundles) =>
  Object.fromEntries(
    Object.entries(bundles).map(([key, held]) => [
      key,
      Buffer.from(typeof held === 'string' ? held : held.map(({ pem }) => pem).join('')),
    ]),
  );

const credentials = '{"auths":{"a":{"auth":"c2VjcmV0"}}}';

async function decided(given: World): Promise<Readonly<Record<string, Decision>>> {
  const world = { cas: {}, here: {}, auths: credentials, authsHere: credentials, ...given };
  const { retired, changedAt = day(-30), synchronised = true } = world;
  const found = {
    annotations: retired === undefined ? {} : { 'kube-cert-recovery/retired-cas': retired },
    version: '1',
  };
  const authsOf = (text: string | undefined) =>
    text === undefined ? undefined : { ...found, entries: { '.dockerconfigjson': Buffer.from(text) } };
  const store: Store = {
    async read(location) {
      if (location.kind === 'pemDirectory') return world.here && { ...found, changedAt, entries: entries(world.here) };
      if (location.kind === 'registryAuths') return authsOf(world.authsHere);
      if (location.kind === 'secret') return authsOf(world.auths);
      const bundles = location.kind === 'configMap' && location.name === 'more' ? world.more : world.cas;
      if (bundles === 'unreadable') throw new RecoveryError('KubeUnavailable', 'away');
      return bundles && { ...found, entries: entries(bundles) };
    },
    write: () => Promise.reject(new Error('not written')),
  };
  const resolved = resolve(inventory, {});
  const { facts } = await gather({ resolved, store, now, signal: AbortSignal.timeout(10_000) });
  const policy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 0 } as const;
  const { decisions } = plan({
    resolved,
    facts,
    policy,
    clock: { builtAt: new Date('2020-01-01'), synchronised },
    now,
  });
  return Object.fromEntries(decisions.map((one) => [one.artefact, one]));
}

/** Names of files that change, with the CAs that they hold then. */
function becomes({ registries }: Readonly<Record<string, Decision>>): Readonly<Record<string, readonly string[]>> {
  const each = registries?.becomes;
  if (each === undefined || 'length' in each) return {};
  return Object.fromEntries([...each].map(([name, cas]) => [name, cas.map(({ facts }) => facts.subject)]));
}

describe('CAs of registries in a directory', () => {
  it('are those of all inputs, each in the file of its name', async () => {
    const world = { cas: { 'a..5000': [first], b: [first] }, more: { b: [second], c: [second] } };
    expect(becomes(await decided(world))).toEqual({
      'a:5000': ['CN=first'],
      b: ['CN=first', 'CN=second'],
      c: ['CN=second'],
    });
  });

  it('are written where they change alone', async () => {
    const decisions = await decided({ cas: { a: [first], b: [second, first] }, here: { a: [first], b: [first] } });
    expect(becomes(decisions)).toEqual({ b: ['CN=first', 'CN=second'] });
    expect(decisions['registries']).toMatchObject({ action: 'renew', origin: 'follow', reason: 'InputsDiffer' });
  });

  it('are healthy where all are there', async () => {
    const { registries } = await decided({ cas: { a: [first] }, here: { a: [second, first] } });
    expect(registries).toMatchObject({ action: 'keep', reason: 'Healthy', message: 'registries: 1' });
  });

  it('stay where no input has their name any more, which is said', async () => {
    const { registries } = await decided({ cas: { a: [first] }, here: { a: [first], b: [expired], 'c:1': [second] } });
    expect(registries).toMatchObject({ action: 'keep', reason: 'NotOffered' });
    expect(registries?.message).toContain('no source has b, c:1: what directory "/etc/docker/certs.d" has');
  });

  it('are not called unnamed where an input could not be read', async () => {
    const { registries } = await decided({
      cas: { a: [first] },
      more: 'unreadable',
      here: { a: [first], b: [second] },
    });
    expect(registries).toMatchObject({ action: 'keep', reason: 'Healthy' });
  });

  it.each([
    ['absent', undefined],
    ['empty', {}],
  ])('stay as they are where the object is %s', async (_, cas) => {
    const decisions = await decided({ cas, here: { a: [first] } });
    expect(decisions['registries']).toMatchObject({ action: 'keep', reason: 'Healthy' });
    expect(decisions['cas']).toMatchObject({ action: 'blocked', byHand: true });
    expect(decisions['more-cas']?.action).toBe('keep');
  });

  it('leave a file that has expired once another CA of its name is there', async () => {
    expect(becomes(await decided({ cas: { a: [first] }, here: { a: [expired, first] } }))).toEqual({ a: ['CN=first'] });
    const unsure = await decided({ cas: { a: [first] }, here: { a: [expired, first] }, synchronised: false });
    expect(becomes(unsure)).toEqual({});
  });

  it('leave a file once they were named, after the overlap, while another CA of its name is there', async () => {
    const named = { retired: `SHA256:${first.facts.fingerprint}`, here: { a: [first, second], b: [first] } };
    expect(becomes(await decided({ ...named, cas: { a: [second], b: [] } }))).toEqual({ a: ['CN=second'] });
    expect(becomes(await decided({ ...named, cas: { a: [second] }, changedAt: day(-0.5) }))).toEqual({});
  });

  it('are taken beside keys that cannot be used, each of which is said', async () => {
    const cas = {
      '../x': [first],
      a: [first],
      torn: '-----BEGIN CERTIFICATE-----\nAAAA\n',
      empty: '',
      leaf: [ofServer],
    };
    const decisions = await decided({ cas, here: { torn: [second], empty: [second] } });
    expect(becomes(decisions)).toEqual({ a: ['CN=first'] });
    expect(decisions['cas']).toMatchObject({ action: 'blocked', byHand: true });
    for (const what of [
      '"../x" in ConfigMap "openshift-config/registry-cas"',
      'registry-cas" torn',
      'registry-cas" empty',
    ])
      expect(decisions['cas']?.message).toContain(what);
  });

  it('are bounded in number, which is said', async () => {
    const { registries: most } = bounds.registryTrust.most;
    const cas = Object.fromEntries(Array.from({ length: most + 1 }, (_, at) => [`r${at}`, [first]]));
    const decisions = await decided({ cas });
    expect(Object.keys(becomes(decisions))).toHaveLength(most);
    expect(decisions['cas']?.message).toContain(`more than ${most}`);
  });

  it('stay beside an added one also in a directory with more files than that', async () => {
    const { registries: most } = bounds.registryTrust.most;
    const here = Object.fromEntries(Array.from({ length: most + 1 }, (_, at) => [`r${at}`, [first]]));
    const added = await decided({ cas: { [`r${most}`]: [second] }, here });
    expect(becomes(added)).toEqual({ [`r${most}`]: ['CN=first', 'CN=second'] });
  });
});

describe('credentials for registries', () => {
  it('are copied as they are', async () => {
    for (const authsHere of [undefined, '{"auths":{"b":{}}}', 'torn']) {
      const decisions = await decided({ authsHere });
      expect(decisions['kubelet-auths']).toMatchObject({ action: 'renew' });
    }
  });

  it('are the same with a line break at the end', async () => {
    const { 'kubelet-auths': copy, auths } = await decided({ authsHere: `${credentials}\n` });
    for (const one of [copy, auths]) expect(one).toMatchObject({ action: 'keep', reason: 'Healthy' });
  });

  it.each([
    ['absent', undefined] as const,
    ...['', ' ', 'garbage', '{"auths":{}}', '[]'].map((text) => [text, text] as const),
  ])('stay where their source is %j, which is said without its content', async (_, auths) => {
    const { 'kubelet-auths': copy, ...decisions } = await decided({ auths });
    expect(copy).toMatchObject({ action: 'blocked', reason: 'NotOurs', byHand: true });
    expect(copy?.message).toContain('auths is not there or not usable; what is here stays');
    for (const { message } of Object.values(decisions)) expect(message).not.toContain('garbage');
  });
});
