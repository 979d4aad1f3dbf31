import { describe, expect, test } from 'vitest';
import { keysOf } from '../../lib/inventory/content.ts';
import type { Artefact, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { syncedObjects } from '../../lib/syncer/synced-objects.ts';

const base = { readers: [], published: 'required' } as const;
const secret = (name: string, namespace = 'a') => ({ kind: 'secret', namespace, name }) as const;
const configMap = (name: string) => ({ kind: 'configMap', namespace: 'a', name }) as const;
const dates = { validity: 1, refresh: 1 };

const signer: Artefact = { ...base, ...dates, kind: 'signer', name: 'signer', location: secret('csr-signer') };
const bundle: Artefact = {
  ...base,
  kind: 'caBundle',
  name: 'bundle',
  location: configMap('client-ca'),
  signers: ['signer'],
};
const copy: Artefact = { ...base, kind: 'copy', name: 'copy', location: configMap('copy'), of: 'bundle' };
const opaque: Artefact = { ...base, kind: 'opaque', name: 'opaque', location: secret('user'), published: 'optional' };
const keyPair: Artefact = {
  ...base,
  kind: 'keyPair',
  name: 'keys',
  location: secret('sa'),
  privateKey: 'k',
  publicKey: 'p',
};

const objectsFor = (...artefacts: ResolvedArtefact[]) => syncedObjects({ name: 'test', artefacts }, '/certs');

describe('syncedObjects()', () => {
  test('gives each published object its directory, mode and expectation', () => {
    expect(objectsFor(signer, bundle, copy, opaque, keyPair)).toMatchObject([
      { name: 'signer', directory: '/certs/secrets/csr-signer', mode: 0o600, expects: { kind: 'pair' } },
      { name: 'bundle', directory: '/certs/configmaps/client-ca', mode: 0o644, expects: { kind: 'bundle' } },
      { name: 'copy', directory: '/certs/configmaps/copy', expects: { kind: 'bundle' } },
      { name: 'opaque', directory: '/certs/secrets/user', published: 'optional', expects: { kind: 'opaque' } },
      { name: 'keys', expects: { kind: 'keyPair', privateKey: 'k', publicKey: 'p' } },
    ]);
  });

  test('expects kubeconfigs to be whole', () => {
    const servers = [{ key: 'lb', cluster: 'c', server: 'https://192.0.2.1' }];
    const parts = { client: 'a', authority: 'b', user: 'u', servers };
    const kubeconfigs: Artefact = { ...base, kind: 'kubeconfigs', name: 'k', location: secret('k'), ...parts };
    const [object] = objectsFor(kubeconfigs);
    expect(object?.expects).toEqual({ kind: 'kubeconfigs', of: kubeconfigs });
    expect(keysOf(object?.expects ?? { kind: 'opaque' })).toEqual(['lb']);
  });

  test('expects of a copy of a copy what its original is', () => {
    const second: Artefact = { ...copy, name: 'second', location: configMap('second'), of: 'copy' };
    expect(objectsFor(bundle, copy, second)).toMatchObject([{}, {}, { name: 'second', expects: { kind: 'bundle' } }]);
  });

  test('leaves out what is not published and what lies on disk', () => {
    const { published: _, ...unpublished } = signer;
    const onDisk = { ...opaque, location: { kind: 'pemFile', file: '/x' } } as const;
    expect(objectsFor(unpublished, onDisk)).toEqual([]);
  });
});
