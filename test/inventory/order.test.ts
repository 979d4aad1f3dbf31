import { describe, expect, it } from 'vitest';
import { dependenciesOf, topologicalOrder } from '../../lib/inventory/order.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';

describe('topologicalOrder()', () => {
  const { artefacts } = loadPreset('kubernetes');

  it('puts every artefact behind all that it depends on, from whatever order they are declared in', () => {
    for (const declared of [
      artefacts,
      artefacts.toReversed(),
      artefacts.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    ]) {
      const { ordered, unordered } = topologicalOrder(declared);
      expect(unordered).toEqual([]);
      expect(ordered).toHaveLength(artefacts.length);
      const place = new Map(ordered.map(({ name }, at) => [name, at]));
      for (const [name, needed] of dependenciesOf(declared)) {
        for (const one of needed) expect(place.get(one), `${one} before ${name}`).toBeLessThan(place.get(name) ?? -1);
      }
    }
  });

  it('where it has a choice, puts signers before bundles, and those before targets', () => {
    const bound = ['next-csr-signer', 'csr-signer-ca', 'csr-signer'];
    const free = artefacts.filter(({ name }) => !bound.includes(name));
    const kinds = topologicalOrder(free.toReversed()).ordered.map(({ kind }) => kind);
    expect([...new Set(kinds)]).toEqual(['signer', 'caBundle', 'composedBundle', 'copy', 'target', 'keyPair']);
    expect(kinds.lastIndexOf('signer')).toBeLessThan(kinds.indexOf('caBundle'));
    expect(kinds.lastIndexOf('copy')).toBeLessThan(kinds.indexOf('target'));
  });

  it('leaves over what lies on a cycle or behind one', () => {
    const copies = [
      { kind: 'copy' as const, name: 'a', of: 'b' },
      { kind: 'copy' as const, name: 'b', of: 'a' },
      { kind: 'copy' as const, name: 'c', of: 'b' },
      { kind: 'opaque' as const, name: 'd' },
    ];
    const { ordered, unordered } = topologicalOrder(copies);
    expect(ordered.map(({ name }) => name)).toEqual(['d']);
    expect(unordered.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
  });
});

describe('dependenciesOf()', () => {
  const dependencies = dependenciesOf(loadPreset('kubernetes').artefacts);

  it.each([
    ['a self-signed signer needs nothing', 'csr-signer-signer', []],
    [
      'an intermediate signer needs its issuer and the bundles that hold it',
      'next-csr-signer',
      ['csr-signer-signer', 'csr-controller-signer-ca'],
    ],
    ['a bundle needs its signers', 'csr-signer-ca', ['next-csr-signer']],
    ['a composed bundle needs its inputs', 'csr-controller-ca', ['csr-signer-ca', 'csr-controller-signer-ca']],
    ['a copy needs its original', 'kubelet-serving-ca', ['csr-controller-ca']],
    [
      'a promoted copy needs everything by which its original is known',
      'csr-signer',
      ['next-csr-signer', 'csr-signer-ca', 'csr-controller-ca', 'client-ca', 'kubelet-serving-ca'],
    ],
    ['a target needs its signer and the bundles that hold it', 'etcd-client', ['etcd-signer', 'etcd-ca']],
    ['a key pair needs nothing', 'service-account-key', []],
  ])('%s', (_title, name, needed) => {
    expect(dependencies.get(name)).toEqual(needed);
  });

  it('a promoted copy of a target needs the bundles above it, also over another copy', () => {
    const rows = [
      { kind: 'signer' as const, name: 'signer' },
      { kind: 'caBundle' as const, name: 'ca', signers: ['signer'] },
      { kind: 'composedBundle' as const, name: 'all', inputs: ['ca-copy'] },
      { kind: 'copy' as const, name: 'ca-copy', of: 'ca' },
      { kind: 'target' as const, name: 'leaf', issuer: 'signer' },
      { kind: 'copy' as const, name: 'next', of: 'leaf' },
      { kind: 'copy' as const, name: 'used', of: 'next', promoteAfter: 1 },
    ];
    expect(dependenciesOf(rows).get('used')).toEqual(['next', 'ca', 'all', 'ca-copy']);
    expect(dependenciesOf(rows).get('next')).toEqual(['leaf']);
  });
});
