import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { entriesOf, factsOf } from '../../lib/syncer/material.ts';
import { createAuthority, createKeyPair, createLeaf } from '../support/certificates.ts';

const notAfter = new Date('2030-01-01T00:00:00Z');
const what = 'Secret "a/x"';
const pairOf = { expects: { kind: 'pair' }, what } as const;
const bundleOf = { expects: { kind: 'bundle' }, what } as const;
const opaqueOf = { expects: { kind: 'opaque' }, what } as const;
const keysOf = { expects: { kind: 'keyPair', privateKey: 'sa.key', publicKey: 'sa.pub' }, what } as const;

interface Material {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly otherKey: Buffer;
  readonly saKey: Buffer;
  readonly saPub: Buffer;
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
  };
});

test('entriesOf() decodes Secrets and both parts of ConfigMaps', () => {
  expect(entriesOf('secret', { data: { a: 'AAH/' } })).toEqual({ a: Buffer.from([0, 1, 255]) });
  expect(entriesOf('secret', {})).toEqual({});
  const object = { data: { a: 'é' }, binaryData: { b: 'AAH/' } };
  expect(entriesOf('configMap', object)).toEqual({ a: Buffer.from('é'), b: Buffer.from([0, 1, 255]) });
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
    ['a bundle of text in an opaque object', () => factsOf(opaqueOf, { 'ca-bundle.crt': Buffer.from('text') })],
  ])('refuses %s, and the message holds none of it', (_, facts) => {
    const { problem } = facts();
    expect(problem?.reason).toBe('unreadable');
    expect(problem?.message).toMatch(/^cannot read (certificates|private key): /);
    expect(problem?.message).not.toContain('MII');
  });
});
