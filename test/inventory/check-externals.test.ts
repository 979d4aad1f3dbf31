// Content that others maintain, as an inventory may declare it.
import { describe, expect, it } from 'vitest';
import { checkInventoryText } from '../../lib/inventory/load.ts';

const cas = '{ kind: external, name: cas, location: { configMap: cas, content: bundles } }';
const one = '{ kind: external, name: one, location: { configMap: one } }';
const auths = '{ kind: external, name: auths, location: { secret: pull-secret, content: registryAuths } }';
const directory = (more: string): string =>
  `{ kind: external, name: registries, location: { pemDirectory: /etc/docker/certs.d }${more} }`;
const problems = (...artefacts: readonly string[]): readonly string[] => {
  const text = `apiVersion: kube-cert-recovery/v1alpha1\nkind: Inventory\nnamespace: here\nartefacts:\n${artefacts.map((each) => `  - ${each}\n`).join('')}`;
  return checkInventoryText(text).problems.map(({ path, message }) => `${path} ${message}`);
};

describe('content of others', () => {
  it('is fine as bundles by name for a directory, and as credentials for a file', () => {
    const copy = '{ kind: copy, name: here, of: auths, location: { registryAuths: /var/lib/kubelet/config.json } }';
    expect(problems(cas, directory(', followedAs: otherCa, inputs: [cas]'), auths, copy)).toEqual([]);
  });

  it.each([
    [
      'a directory without inputs',
      [directory(', followedAs: otherCa')],
      /inputs is required: the bundles of its files/,
    ],
    ['a directory that is not followed', [cas, directory(', inputs: [cas]')], /followedAs is required/],
    [
      'one bundle for a directory',
      [one, directory(', followedAs: otherCa, inputs: [one]')],
      /must name bundles by name/,
    ],
    [
      'bundles by name for one file',
      [cas, '{ kind: external, name: file, followedAs: otherCa, inputs: [cas], location: { pemFile: /a } }'],
      /inputs\[0\] must name one bundle, got "cas"/,
    ],
    [
      'bundles by name for a composed bundle',
      [cas, '{ kind: composedBundle, name: all, inputs: [cas], location: { configMap: all } }'],
      /inputs\[0\] must name one bundle, got "cas"/,
    ],
    ['a key beside it', [cas.replace('content:', 'key: a, content:')], /key must be left out/],
    [
      'it in a file',
      ['{ kind: external, name: a, location: { pemFile: /a, content: bundles } }'],
      /content must be left/,
    ],
    [
      'it in an object of ours',
      ['{ kind: opaque, name: a, location: { secret: a, content: registryAuths } }'],
      /content must be left out/,
    ],
    [
      'credentials in a file of CAs',
      [auths, '{ kind: copy, name: file, of: auths, location: { pemFile: /a } }'],
      /must be a registryAuths for a copy, got a pemFile/,
    ],
    [
      'credentials as CAs',
      [auths, '{ kind: external, name: file, followedAs: otherCa, inputs: [auths], location: { pemFile: /a } }'],
      /must name a bundle or a copy of one, got "auths"/,
    ],
  ])('is refused: %s', (_, artefacts, wanted) => {
    expect(problems(...artefacts)).toContainEqual(expect.stringMatching(wanted));
  });
});
