import { describe, expect, it } from 'vitest';
import { signerChoices, signingPlace } from '../../lib/inventory/discover/signer-places.ts';
import { fileFlags, type FileOfFlag } from '../../lib/inventory/file-flags.ts';

const by = (flag: string) => ({ component: 'kube-controller-manager', flag }) as const;
const declared = {
  ca: {
    description: 'CA',
    namedBy: { component: 'kube-apiserver', flag: 'client-ca-file' },
    alsoNamedBy: [by('cluster-signing-cert-file'), by('root-ca-file')],
    default: '{pkiDir}/ca.crt',
  },
  caKey: { description: 'its key', keyOf: 'ca', default: '{pkiDir}/ca.key' },
};
const usual = (path: string): string => path.replace('{pkiDir}', '/pki');
const flagged = (flag: string, file: string, keyFile?: string): FileOfFlag => ({
  ...by(flag),
  role: fileFlags['kube-controller-manager'][flag] ?? { holds: 'nothing' },
  file,
  ...(keyFile !== undefined && { keyFile }),
});
const placesOf = (ca: string | null, flags: readonly FileOfFlag[] = []) =>
  signerChoices(declared, { named: { ca, caKey: ca && ca.replace('.crt', '.key') }, flags, usual }).flatMap(
    ({ places }) => places.map(({ certFile, keyFile }) => `${certFile} ${keyFile}`),
  );

describe('signerChoices()', () => {
  it.each([
    [
      'the usual place for a bundle elsewhere',
      '/bundle.crt',
      [],
      ['/bundle.crt /bundle.key', '/pki/ca.crt /pki/ca.key'],
    ],
    ['none for the usual place itself', '/pki/ca.crt', [], []],
    ['none where no flag names the file', null, [], []],
    [
      'the places that other flags name, with the key that a flag names',
      '/pki/ca.crt',
      [flagged('cluster-signing-cert-file', '/pki/ca.crt', '/secure/ca.key'), flagged('root-ca-file', '/root/ca.pem')],
      ['/pki/ca.crt /pki/ca.key', '/pki/ca.crt /secure/ca.key', '/root/ca.pem /root/ca-key.pem'],
    ],
  ])('%s', (_title, ca, flags, expected) => {
    expect(placesOf(ca, flags)).toEqual(expected);
  });
});

describe('signingPlace()', () => {
  const at = (name: string, hasKey: boolean, signed: number, isLeaf = false) => ({
    place: { certFile: `${name}.crt`, keyFile: `${name}.key` },
    hasKey,
    signed,
    isLeaf,
  });
  it.each([
    ['is where the key of a bundle elsewhere is', [at('bundle', false, 5), at('pki', true, 5)], 'pki'],
    ['is where the flag says, where a key is there', [at('flag', true, 5), at('pki', true, 5)], 'flag'],
    ['is that of the CA that has signed what is here', [at('flag', true, 1), at('pki', true, 5)], 'pki'],
    ['is not where a serving certificate has its key', [at('serving', true, 5, true), at('pki', true, 5)], 'pki'],
    [
      'is where the flag says, where the CA with a key has signed nothing',
      [at('flag', false, 5), at('pki', true, 0)],
      'flag',
    ],
    ['is where a key is, where nothing shows who has signed', [at('flag', false, 0), at('pki', true, 0)], 'pki'],
    ['is where the flag says, where no key is', [at('flag', false, 5), at('pki', false, 5)], 'flag'],
  ] as const)('%s', (_title, places, expected) => {
    expect(signingPlace(places).certFile).toBe(`${expected}.crt`);
  });
});
