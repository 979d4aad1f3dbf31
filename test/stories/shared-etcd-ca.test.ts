// etcd's CA lies on disk, and every member has the same one: two of a name that differ, and members never trust each
// other again.
import { describe, expect, it, test } from 'vitest';
import { loadInventory } from '../../lib/inventory/load.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { isFile } from '../../lib/inventory/places.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import { at, goodClock, start } from '../support/facts.ts';
import { SimulatedCluster } from '../support/stories/simulated-cluster.ts';

const policies: readonly RenewalPolicy[] = [
  { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
  { kind: 'BeforeExpiry', graceMs: 0, settleMs: 1000 },
];

/** etcd's files of one machine. */
function machine(etcdHostnames: readonly string[]): SimulatedCluster {
  const { artefacts, ...rest } = resolve(loadPreset('kubernetes'), {
    parameters: { apiServerHostnames: [], etcdHostnames },
  });
  return new SimulatedCluster({ ...rest, artefacts: artefacts.filter(({ location }) => isFile(location)) });
}

describe.each(policies)('etcd of the preset kubernetes, $kind', (policy) => {
  const decided = (cluster: SimulatedCluster, now: Date): Record<string, string> =>
    Object.fromEntries(
      cluster.plan(policy, goodClock, now).decisions.map((one) => [one.artefact, `${one.action} ${one.reason}`]),
    );

  it.each([[[]], [['192.0.2.1']]])('never makes a CA where there is none, members named: %j', (names) => {
    const cluster = machine(names);
    expect(decided(cluster, start)).toMatchObject({
      'etcd-signer': 'blocked NotOurs',
      'etcd-server': 'blocked SignerUnusable',
    });
    const { decisions } = cluster.plan(policy, goodClock, start);
    expect(decisions.find(({ artefact }) => artefact === 'etcd-signer')).toMatchObject({ byHand: true });
  });

  it('makes leaves as soon as somebody has brought it', () => {
    const cluster = machine(['192.0.2.1']);
    cluster.make('etcd-signer', start);
    cluster.act('us', policy, goodClock, start);
    expect(cluster.unusable(start)).toEqual([]);
  });

  it('with other members it is reported, and renewed with its own key once it has expired', () => {
    const cluster = machine(['192.0.2.1']);
    cluster.make('etcd-signer', start);
    cluster.act('us', policy, goodClock, start);
    expect(decided(cluster, at(9 * 365))['etcd-signer']).toMatch(/^keep (NotOurs|Healthy)/);
    const own = cluster.plan(policy, goodClock, at(3651)).decisions.find(({ artefact }) => artefact === 'etcd-signer');
    expect(own).toMatchObject({ action: 'renew', reason: 'Expired', origin: 'ownKey' });
  });

  it('where no other member is named an expired one is', () => {
    const cluster = machine([]);
    cluster.make('etcd-signer', start);
    cluster.act('us', policy, goodClock, start);
    expect(decided(cluster, at(3651))['etcd-signer']).toBe('renew Expired');
  });
});

test('a signer names only a declared parameter of other machines', () => {
  const text = `apiVersion: kube-cert-recovery/v1alpha1
kind: Inventory
artefacts:
  - kind: signer
    name: ca
    location: { pemPair: { certFile: /ca.crt, keyFile: /ca.key } }
    owned: { unlessSet: members }
    validity: 10d
    refresh: 5d
`;
  expect(() => loadInventory(text)).toThrow(
    'artefacts[ca].owned.unlessSet: must name a declared parameter, got "members"',
  );
  const declared = text.replace(
    'artefacts:',
    'parameters: { members: { description: others, default: [] } }\nartefacts:',
  );
  const inventory = loadInventory(declared);
  const ownedWith = (members: readonly string[]) => resolve(inventory, { parameters: { members } }).artefacts[0];
  expect(ownedWith([])).toMatchObject({ owned: { unlessSet: 'members' } });
  expect(ownedWith(['other'])).toMatchObject({ owned: false });
});
