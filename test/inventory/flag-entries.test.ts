import { describe, expect, it } from 'vitest';
import { fileFlags, type FileOfFlag } from '../../lib/inventory/file-flags.ts';
import type { Artefact } from '../../lib/inventory/model.ts';
import { withFlagEntries } from '../../lib/inventory/flag-entries.ts';

const named = (component: FileOfFlag['component'], flag: string, file: string): FileOfFlag => {
  const role = fileFlags[component][flag];
  if (role === undefined) throw new Error(`No flag "${flag}" of ${component} names a file`);
  return { component, flag, role, file };
};

describe('withFlagEntries()', () => {
  it('has a component restarted for a kubeconfig that it reads at its start', () => {
    const file = '/etc/kubernetes/scheduler-authentication.conf';
    const [entry] = withFlagEntries([], [named('kube-scheduler', 'authentication-kubeconfig', file)]);
    expect(entry).toMatchObject({
      name: 'kube-scheduler-authentication-kubeconfig',
      location: { kind: 'kubeconfig', file },
      readers: [{ component: 'kube-scheduler', needs: 'restart' }],
    });
  });

  it('has no kubelet restarted for the kubeconfig of its join', () => {
    const file = '/etc/kubernetes/bootstrap-kubelet.conf';
    const [entry] = withFlagEntries([], [named('kubelet', 'bootstrap-kubeconfig', file)]);
    expect(entry).toMatchObject({ presence: 'optional', readers: [{ component: 'kubelet', needs: 'nothing' }] });
  });

  const signer = {
    kind: 'signer',
    name: 'ca',
    location: { kind: 'pemPair', certFile: '/pki/ca.crt', keyFile: '/pki/ca.key' },
    readers: [],
    validity: 2,
    refresh: 1,
  } as const satisfies Artefact;
  const signing = (keyFile: string): FileOfFlag => ({
    ...named('kube-controller-manager', 'cluster-signing-cert-file', '/pki/ca.crt'),
    keyFile,
    keyFlag: 'cluster-signing-key-file',
  });
  const tokens = (...files: readonly string[]) =>
    files.map((file) => named('kube-apiserver', 'service-account-key-file', file));
  const ofManager = named('kube-controller-manager', 'service-account-private-key-file', '/pki/sa.key');

  it('has a signer know that a flag names its key, without an entry for it', () => {
    const wanted = 'must be the key of the certificate in "/pki/ca.crt"';
    expect(withFlagEntries([signer], [signing('/pki/ca.key')])).toEqual([
      { ...signer, keyWanted: expect.stringContaining(wanted) as string },
    ]);
  });

  it('has an entry for another key of a certificate, only where a flag names it', () => {
    const [own, key] = withFlagEntries([signer], [signing('/pki/other.key')]);
    expect(own).toEqual(signer);
    expect(key).toMatchObject({
      kind: 'keyPair',
      name: 'kube-controller-manager-cluster-signing-key-file',
      location: { kind: 'keyFiles', privateKeyFile: '/pki/other.key', publicKeyFile: '/pki/ca.crt' },
    });
    const { keyFlag: _, ...beside } = signing('/pki/other.key');
    expect(withFlagEntries([signer], [beside])).toEqual([signer]);
  });

  it('has the key of tokens held against all that kube-apiserver knows, and against itself where it knows none here', () => {
    const location = (...all: readonly FileOfFlag[]) => withFlagEntries([], all).at(-1)?.location;
    expect(location(...tokens('/a.pub', '/b.pub'), ofManager)).toEqual({
      kind: 'keyFiles',
      privateKeyFile: '/pki/sa.key',
      publicKeyFile: '/a.pub',
      otherPublicKeyFiles: ['/b.pub'],
    });
    expect(location(ofManager)).toEqual({
      kind: 'keyFiles',
      privateKeyFile: '/pki/sa.key',
      publicKeyFile: '/pki/sa.key',
    });
  });

  it('has no entry for the key of tokens that is one already', () => {
    const location = { kind: 'keyFiles', privateKeyFile: '/pki/sa.key', publicKeyFile: '/a.pub' } as const;
    const entry = {
      kind: 'keyPair',
      name: 'k',
      location,
      privateKey: 'sa.key',
      publicKey: 'sa.pub',
      readers: [],
    } as const;
    expect(withFlagEntries([entry], [...tokens('/a.pub'), ofManager])).toEqual([entry]);
  });
});
