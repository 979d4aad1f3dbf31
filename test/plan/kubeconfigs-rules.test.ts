// Kubeconfigs that are composed of a target and a bundle: when they are rewritten, and what is in them.
import { describe, expect, it } from 'vitest';
import type { Kubeconfigs, Resolved } from '../../lib/inventory/model.ts';
import { make } from '../../lib/issue/issue.ts';
import { generateKey } from '../../lib/pki/key.ts';
import type { ArtefactFacts, Facts } from '../../lib/plan/facts.ts';
import { gather } from '../../lib/plan/gather.ts';
import type { Decision } from '../../lib/plan/decision.ts';
import { plan } from '../../lib/plan/plan.ts';
import { decisionsOf } from '../support/decisions.ts';
import type { Material } from '../../lib/store/store.ts';
import { bundle, ca, goodClock, healthy, leaf, present, signer, start, target } from '../support/facts.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';

const row = {
  kind: 'kubeconfigs',
  name: 'kubeconfigs',
  location: { kind: 'secret', namespace: 'n', name: 'kubeconfigs' },
  readers: [],
  client: 'target',
  authority: 'bundle',
  user: 'system:admin',
  servers: [
    { key: 'here', cluster: 'here', server: 'https://localhost:6443', tlsServerName: 'localhost-recovery' },
    { key: 'there', cluster: 'there', server: { endpoint: 'controlPlane' } },
  ],
} satisfies Kubeconfigs;
const url = 'https://api.example.com:6443';
const resolved: Resolved = {
  name: 'kubeconfigs',
  endpoints: { controlPlane: url },
  artefacts: [signer, bundle, target, row],
};
const good: ArtefactFacts & { state: 'present' } = {
  ...present(leaf('leaf', [-1, 29], 'ca')),
  authorities: ['ca'],
  servers: { here: 'https://localhost:6443', there: url },
};

function decide(
  fact: ArtefactFacts,
  change: Record<string, ArtefactFacts> = {},
  rows = resolved,
): Decision | undefined {
  const facts: Facts = new Map([...healthy(), ['kubeconfigs', fact], ...Object.entries(change)]);
  return decisionsOf({ resolved: rows, facts })['kubeconfigs'];
}

const absent: ArtefactFacts = { state: 'absent' };

describe('kubeconfigs', () => {
  it('stay as they are while they hold what they are made of', () => {
    expect(decide(good)).toMatchObject({ action: 'keep', reason: 'Healthy' });
  });

  it.each<[string, ArtefactFacts, Decision['reason']]>([
    ['absent', absent, 'Absent'],
    ['broken', { state: 'broken', problem: 'unreadable', version: '1', message: 'no YAML' }, 'Unreadable'],
    ['of another certificate', { ...good, ...present(leaf('old', [-40, 10], 'ca')) }, 'OriginalDiffers'],
    [
      'of two certificates',
      { ...good, ...present(leaf('leaf', [-1, 29], 'ca'), leaf('old', [-40, 10], 'ca')) },
      'OriginalDiffers',
    ],
    ['without a CA of the bundle', { ...good, authorities: ['other'] }, 'AuthorityDiffers'],
    [
      'with a server that has moved',
      { ...good, servers: { ...good.servers, there: 'https://old' } },
      'HostnameMissing',
    ],
  ])('are rewritten when they are %s', (_title, fact, reason) => {
    expect(decide(fact)).toMatchObject({ action: 'renew', reason });
  });

  it('follow their target and their bundle in one plan', () => {
    const decision = decide(good, { target: present(leaf('leaf', [-60, -1], 'ca')) });
    expect(decision).toMatchObject({ action: 'renew', after: ['target'] });
    const all = decide(good, { signer: absent, bundle: absent, target: absent });
    expect(all).toMatchObject({ action: 'renew', after: ['target', 'bundle'] });
  });

  it('wait for a bundle that may be rewritten at once', () => {
    const other = { ...present(ca('new', [-1, 59])), since: start };
    const decision = decide(absent, { signer: other });
    expect(decision).toMatchObject({ action: 'keep', reason: 'Settling', recheckAt: new Date(start.getTime() + 1000) });
  });

  it('wait for a target that cannot be made', () => {
    const broken: ArtefactFacts = { state: 'unavailable', message: 'no answer' };
    expect(decide(absent, { target: broken })).toMatchObject({ action: 'blocked', reason: 'Unavailable' });
  });

  it('wait for a server that nobody knows, and keep the one that they have', () => {
    const unknown: Resolved = { ...resolved, endpoints: {}, endpointsUnknown: 'Infrastructure "cluster" has no URL' };
    const decision = decide(absent, {}, unknown);
    expect(decision).toMatchObject({ action: 'blocked', reason: 'HostnameUnknown' });
    expect(decision?.message).toContain('Infrastructure "cluster" has no URL');
    expect(decide({ ...good, authorities: [] }, {}, unknown)).toMatchObject({ action: 'renew' });
  });
});

describe('new kubeconfigs', () => {
  const takeKey = () => generateKey({ name: 'ECDSA', curve: 'P-256' });
  const now = start;

  async function made(rows = resolved, former?: Material): Promise<Map<string, Material>> {
    const material = new Map<string, Material>(former === undefined ? [] : [['kubeconfigs', former]]);
    for (const one of rows.artefacts) {
      material.set(one.name, await make(one, { resolved: rows, material, takeKey, now }));
    }
    return material;
  }

  async function factsOf(material: ReadonlyMap<string, Material>): Promise<Facts> {
    const store = new MemoryStore();
    for (const { name, location } of resolved.artefacts) store.put(location, material.get(name));
    return (await gather({ resolved, store, now, signal: AbortSignal.timeout(5000) })).facts;
  }

  it('are what the plan then finds good', async () => {
    const facts = await factsOf(await made());
    expect(facts.get('kubeconfigs')).toMatchObject({ state: 'present', servers: good.servers });
    const { decisions } = plan({
      resolved,
      facts,
      policy: { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 0 },
      clock: goodClock,
      now,
    });
    expect(decisions.map(({ reason }) => reason)).toEqual(['Healthy', 'Healthy', 'Healthy', 'Healthy']);
  });

  it('keep the server of the former ones where it is not known now', async () => {
    const former = (await made()).get('kubeconfigs');
    const { endpoints: _, ...unknown } = resolved;
    const text = Buffer.from((await made(unknown, former)).get('kubeconfigs')?.entries['there'] ?? []).toString();
    expect(text).toContain(url);
    await expect(made(unknown)).rejects.toThrow('the server of "there" is not known');
  });

  it.each([
    ['no YAML', '{'],
    ['a list', '[]'],
    ['no user', 'clusters: [{ cluster: { server: https://a } }]'],
    ['a number', '7'],
    ['nothing', ''],
  ])('are broken with %s in one entry, and no key is told', async (_title, text) => {
    const material = await made();
    const there = material.get('kubeconfigs');
    material.set('kubeconfigs', { annotations: {}, entries: { ...there?.entries, there: Buffer.from(text) } });
    const fact = (await factsOf(material)).get('kubeconfigs');
    expect(fact).toMatchObject({ state: 'broken', problem: 'unreadable' });
    expect(JSON.stringify(fact)).not.toContain('PRIVATE');
  });

  it('are broken with a key of another certificate', async () => {
    const [one, other] = [await made(), await made()];
    const key = (material: Map<string, Material>): string =>
      Buffer.from(material.get('target')?.entries['tls.key'] ?? []).toString('base64');
    const there = Buffer.from(one.get('kubeconfigs')?.entries['there'] ?? []).toString();
    const mixed = Buffer.from(there.replace(key(one), key(other)));
    one.set('kubeconfigs', { annotations: {}, entries: { ...one.get('kubeconfigs')?.entries, there: mixed } });
    expect((await factsOf(one)).get('kubeconfigs')).toMatchObject({ state: 'broken' });
  });
});

it('a CA that is not valid any more is not asked for', () => {
  const old = present(ca('ca', [-1, 59]), ca('dead', [-300, -10]));
  expect(decide(good, { bundle: old })).toMatchObject({ action: 'keep', reason: 'Healthy' });
});
