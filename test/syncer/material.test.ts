import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Kubeconfigs } from '../../lib/inventory/model.ts';
import { factsOf } from '../../lib/syncer/material.ts';
import { createAuthority, createKeyPair, createLeaf } from '../support/certificates/certificates.ts';

const notAfter = new Date('2030-01-01T00:00:00Z');
const what = 'Secret "a/x"';
const pairOf = { expects: { kind: 'pair' }, what } as const;
const bundleOf = { expects: { kind: 'bundle' }, what } as const;
const opaqueOf = { expects: { kind: 'opaque' }, what } as const;
const kubeconfigs: Kubeconfigs = {
  kind: 'kubeconfigs',
  name: 'x',
  location: { kind: 'secret', namespace: 'a', name: 'x' },
  readers: [],
  client: 'client',
  authority: 'authority',
  user: 'user',
  servers: ['a', 'b'].map((key) => ({ key, cluster: 'c', server: 'https://192.0.2.1:6443' })),
};
const kubeconfigsOf = { expects: { kind: 'kubeconfigs', of: kubeconfigs }, what } as const;
const keysOf = { expects: { kind: 'keyPair', privateKey: 'sa.key', publicKey: 'sa.pub' }, what } as const;

interface Material {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly otherKey: Buffer;
  readonly saKey: Buffer;
  readonly saPub: Buffer;
  readonly conf: Buffer;
  readonly mixed: Buffer;
  readonly caless: Buffer;
}

function kubeconfig(ca: Uint8Array, cert: Uint8Array, key: Uint8Array): Buffer {
  const [authority, certificate, secret] = [ca, cert, key].map((bytes) => Buffer.from(bytes).toString('base64'));
  const cluster = { server: 'https://192.0.2.1:6443', 'certificate-authority-data': authority };
  const user = { 'client-certificate-data': certificate, 'client-key-data': secret };
  return Buffer.from(JSON.stringify({ clusters: [{ name: 'c', cluster }], users: [{ name: 'user', user }] }));
}

/** On a curve that Go does not know, as national PKIs have it. */
async function oddAuthority(): Promise<Buffer> {
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:brainpoolP256r1', '-nodes', '-keyout', '/dev/null'];
  const { stdout } = await promisify(execFile)('openssl', ['req', '-x509', '-subj', '/CN=odd', ...curve]);
  return Buffer.from(stdout);
}

let made: Material;

beforeAll(async () => {
  const directory = mkdtempSync(join(tmpdir(), 'material-'));
  const authority = await createAuthority(join(directory, 'ca'), { commonName: 'ca', notAfter });
  const leaf = await createLeaf(join(directory, 'leaf'), authority, { commonName: 'leaf', notAfter });
  const keys = await createKeyPair(join(directory, 'sa'));
  made = {
    ca: readFileSync(authority.cert),
    cert: readFileSync(leaf.cert),
    key: readFileSync(leaf.key),
    otherKey: readFileSync(authority.key),
    saKey: readFileSync(keys.key),
    saPub: readFileSync(keys.publicKey),
    conf: Buffer.alloc(0),
    mixed: Buffer.alloc(0),
    caless: Buffer.alloc(0),
  };
  const { ca, cert, key, otherKey } = made;
  made = {
    ...made,
    conf: kubeconfig(ca, cert, key),
    mixed: kubeconfig(ca, cert, otherKey),
    caless: kubeconfig(Buffer.from('none'), cert, key),
  };
});

describe('factsOf()', () => {
  test('says when the certificates of a pair and of a bundle are valid', () => {
    const lasts = { validity: [{ notBefore: expect.any(Date) as Date, notAfter }] };
    expect(factsOf(pairOf, { 'tls.crt': made.cert, 'tls.key': made.key })).toEqual(lasts);
    expect(factsOf(opaqueOf, { 'tls.crt': made.cert, 'tls.key': made.key })).toEqual(lasts);
    expect(factsOf(bundleOf, { 'ca-bundle.crt': made.ca })).toEqual(lasts);
    expect(factsOf(keysOf, { 'sa.key': made.saKey, 'sa.pub': made.saPub })).toEqual({});
    expect(factsOf(opaqueOf, { kubeconfig: Buffer.from('anything') })).toEqual({});
  });

  test('reads a pair as its readers do, with the key in the file of the certificate, too', () => {
    const facts = factsOf(pairOf, { 'tls.crt': Buffer.concat([made.cert, made.key]), 'tls.key': made.key });
    expect(facts).toEqual({ validity: [{ notBefore: expect.any(Date) as Date, notAfter }] });
  });

  test('takes an opaque object as it is, and says what cannot be read in it', async () => {
    const brainpool = await oddAuthority();
    const bundle = factsOf(opaqueOf, { 'ca-bundle.crt': Buffer.concat([made.ca, brainpool, made.ca]) });
    expect(bundle).toEqual({
      warning: expect.stringMatching(/^cannot read certificates: .*brainpool/) as string,
      validity: [
        { notBefore: expect.any(Date) as Date, notAfter },
        { notBefore: expect.any(Date) as Date, notAfter },
      ],
    });
    const keyless = factsOf(opaqueOf, { 'tls.crt': made.cert, 'tls.key': Buffer.from('of a kind of its own') });
    expect(keyless).toMatchObject({ warning: expect.stringMatching(/^cannot read private key: /) as string });
    for (const emptied of ['text', '', '\n']) {
      expect(factsOf(opaqueOf, { 'ca-bundle.crt': Buffer.from(emptied) })).toEqual({
        warning: expect.stringMatching(/^cannot read certificates: /) as string,
        validity: [],
      });
    }
    expect(factsOf(opaqueOf, { 'ca-bundle.crt': brainpool })).toEqual({
      warning: expect.stringMatching(/^cannot read certificates: .*brainpool/) as string,
      validity: undefined,
    });
    expect(factsOf(opaqueOf, { 'tls.crt': made.cert })).toEqual({
      warning: 'it holds "tls.crt" without the other half of the pair',
    });
  });

  test('says how long whole kubeconfigs are good', () => {
    expect(factsOf(kubeconfigsOf, { a: made.conf, b: made.conf })).toMatchObject({ validity: [{ notAfter }] });
  });

  test('finds a pair that does not belong together', () => {
    expect(factsOf(opaqueOf, { 'tls.crt': made.cert, 'tls.key': made.otherKey })).toMatchObject({
      problem: {
        reason: 'mismatchedPair',
        message: '"tls.crt" was not made for the key in "tls.key", a matching pair is wanted',
      },
    });
    expect(factsOf(keysOf, { 'sa.key': made.key, 'sa.pub': made.saPub })).toMatchObject({
      problem: { reason: 'mismatchedPair' },
    });
  });

  test.each<[string, () => ReturnType<typeof factsOf>]>([
    ['an empty certificate', () => factsOf(pairOf, { 'tls.crt': Buffer.alloc(0), 'tls.key': made.key })],
    ['a certificate cut short', () => factsOf(pairOf, { 'tls.crt': made.cert.subarray(0, 300), 'tls.key': made.key })],
    ['a key that is none', () => factsOf(pairOf, { 'tls.crt': made.cert, 'tls.key': Buffer.from('no key') })],
    ['an empty bundle', () => factsOf(bundleOf, { 'ca-bundle.crt': Buffer.alloc(0) })],
    [
      'a bundle of which one block is broken',
      () => factsOf(bundleOf, { 'ca-bundle.crt': Buffer.concat([made.ca, made.ca.subarray(0, 200)]) }),
    ],
    ['kubeconfigs that are none', () => factsOf(kubeconfigsOf, { a: made.conf, b: Buffer.from('kind: Config') })],
    [
      'kubeconfigs of which one is cut short',
      () => factsOf(kubeconfigsOf, { a: made.conf, b: made.conf.subarray(0, 900) }),
    ],
    ['kubeconfigs with another key', () => factsOf(kubeconfigsOf, { a: made.conf, b: made.mixed })],
    ['kubeconfigs without a CA', () => factsOf(kubeconfigsOf, { a: made.conf, b: made.caless })],
  ])('refuses %s, and the message holds none of it', (_, facts) => {
    const { problem } = facts();
    expect(problem?.reason).toBe('unreadable');
    expect(problem?.message).toMatch(/^(cannot read (certificates|private key): |cannot use Secret "a\/x" b: )/);
    expect(problem?.message).not.toContain('MII');
  });
});

test('whatever is thrown while content is read is a problem of that content', () => {
  const entries = {
    'tls.crt': made.cert,
    get 'tls.key'(): Buffer {
      throw new TypeError('out of order');
    },
  };
  const problem = {
    reason: 'unreadable',
    message: expect.stringMatching(/fault of this program, TypeError: out of/) as string,
  };
  expect(factsOf(pairOf, entries)).toEqual({ problem });
});
