// What an inventory of one's own has to say before a machine is adopted by it.
import { describe, expect, it } from 'vitest';
import { requireAdoptableInventory, requireOwnAddresses } from '../../lib/adopt/guard.ts';
import { podAddition } from '../../lib/adopt/pod-files.ts';
import { staticPods } from '../../lib/components.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';

const preset = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.com'] } });

const check = (resolved: Resolved) => (): void =>
  requireAdoptableInventory(
    resolved,
    staticPods.map((pod) =>
      podAddition(pod, {
        resolved,
        directory: '/etc/kubernetes/kube-cert-recovery',
        image: 'example.com/image:1',
        kubeletPki: '/pki',
      }),
    ),
  );

function without(
  field: 'adoptedFrom' | 'givenBackTo' | 'flags',
  isMeant: (artefact: ResolvedArtefact) => boolean,
): Resolved {
  return {
    ...preset,
    artefacts: preset.artefacts.map((artefact) => (isMeant(artefact) ? { ...artefact, [field]: undefined } : artefact)),
  };
}

describe('requireAdoptableInventory()', () => {
  it('lets the preset pass', () => {
    expect(check(preset)).not.toThrow();
  });

  it.each([
    [
      'service-account keys that would be made, and make every token invalid',
      without('adoptedFrom', ({ kind }) => kind === 'keyPair'),
      '"service-account-key" has no "adoptedFrom": a new key would make every token invalid',
    ],
    [
      'no bundle that is compared with what the machine trusts',
      without('adoptedFrom', ({ kind }) => kind === 'caBundle' || kind === 'composedBundle'),
      'no bundle has "adoptedFrom": nothing shows that the trust of today is kept',
    ],
    [
      'no bundle that is compared on the way back',
      without('givenBackTo', () => true),
      'no bundle has "givenBackTo": nothing shows that the trust of today is kept',
    ],
    [
      'a pod that would read nothing of it',
      without('flags', ({ flags }) => flags?.['kube-apiserver'] !== undefined),
      'no artefact has "flags" of kube-apiserver: it would go on with the files of kubeadm',
    ],
  ])('refuses %s', (_what, resolved, message) => {
    expect(check(resolved)).toThrow(message);
    expect(check(resolved)).toThrow(expect.objectContaining({ code: 'InventoryInvalid' }));
  });
});

describe('requireOwnAddresses()', () => {
  it('refuses an address of metrics that the containers of all three pods would share', () => {
    const metrics = { bindAddress: ':9793', certFile: '/tls.crt', keyFile: '/tls.key', clientCaFile: '/ca.crt' };
    expect(() => requireOwnAddresses({ metrics })).toThrow(
      /^Cannot adopt this machine: 1 problem\n {2}metrics\.bindAddress: must be left out: .*--metrics-file/,
    );
  });

  it.each([[{}], [{ metrics: {} }], [{ metrics: undefined }]])('accepts %j', (settings) => {
    expect(() => requireOwnAddresses(settings)).not.toThrow();
  });
});
