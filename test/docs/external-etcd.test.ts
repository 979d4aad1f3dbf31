// Holds the first table of docs/external-etcd.md against what is decided about its entries.
import { expect, it } from 'vitest';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { plan } from '../../lib/plan/plan.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { at, ca, goodClock, leaf, onlyWhenExpired, present } from '../support/facts.ts';
import { firstCode, page, tables } from './markdown.ts';

const resolved = resolve(loadPreset('kubeadm'), {
  parameters: { nodeName: ['node1'] },
  lacks: ['stackedEtcd'],
  files: Object.fromEntries(
    ['etcdCaFile', 'etcdCaKeyFile', 'etcdCertFile', 'etcdKeyFile'].map((name) => [name, `/${name}`]),
  ),
});

/** A year after its CA was made, which has ended, and a leaf of it. */
function decided(authority: ArtefactFacts) {
  const facts = new Map<string, ArtefactFacts>([
    ['external-etcd-ca', authority],
    ['external-etcd-client', present(leaf('client', [-365, -1], 'etcd', { issuer: 'CN=etcd' }))],
  ]);
  const { decisions } = plan({ resolved, facts, policy: onlyWhenExpired, clock: goodClock, now: at(0) });
  return Object.fromEntries(decisions.map((one) => [one.artefact, one]));
}

it('says when each is renewed', () => {
  const [table = []] = tables(page('docs/external-etcd.md'));
  const said = new Map(table.map(([name = '', , renewed = '']) => [firstCode(name), renewed]));
  expect([...said.keys()]).toEqual(['external-etcd-client', 'external-etcd-ca']);
  const ended = ca('etcd', [-3650, -1]);
  const here = decided(present(ended));
  expect(here['external-etcd-ca']).toMatchObject({ action: 'renew', origin: 'ownKey' });
  expect(said.get('external-etcd-ca')).toBe('with its own key when it has expired, and with no other');
  const message = 'it has no private key';
  const closed = { state: 'broken', problem: 'keyAbsent', version: '1', message, certificates: [ended] } as const;
  const elsewhere = decided(closed);
  expect(elsewhere['external-etcd-ca']).toMatchObject({ action: 'blocked', byHand: true });
  expect(elsewhere['external-etcd-client']).toMatchObject({ action: 'blocked', byHand: true });
  expect(decided(present(ca('etcd', [-10, 3650])))['external-etcd-client']).toMatchObject({ action: 'renew' });
  expect(said.get('external-etcd-client')).toBe('where the key of its CA is on this machine');
});
