// Names of image registries, and their credentials, before they become files.
import { describe, expect, it } from 'vitest';
import { isRegistryAuths, registryOf } from '../lib/image-registries.ts';

describe('registryOf()', () => {
  it.each([
    ['registry.example.com', 'registry.example.com'],
    ['registry.example.com..5000', 'registry.example.com:5000'],
    ['registry.example.com:5000', 'registry.example.com:5000'],
    ['image-registry.openshift-image-registry.svc..5000', 'image-registry.openshift-image-registry.svc:5000'],
    ['10.0.0.1..443', '10.0.0.1:443'],
    ['A_b', 'A_b'],
    ['a', 'a'],
  ])('%j is the directory %j', (key, name) => {
    expect(registryOf(key)).toBe(name);
    expect(registryOf(name)).toBe(name);
  });

  it.each([
    '',
    '.',
    '..',
    '...',
    '../..',
    '../../etc/passwd',
    '/etc',
    'a/b',
    'a/../b',
    '.hidden',
    '-x',
    'a.',
    'a..',
    'a..b',
    'a..5000..6000',
    'a..123456',
    'a:',
    ':5000',
    'a\0b',
    'a\nb',
    'a\n',
    'a b',
    'a'.repeat(260),
  ])('%j is none', (key) => {
    expect(registryOf(key)).toBeUndefined();
  });
});

describe('isRegistryAuths()', () => {
  it.each([['{"auths":{"a":{}}}'], ['{"auths":{"a":{"auth":"eA=="}},"HttpHeaders":{}}\n']])('%s is', (text) => {
    expect(isRegistryAuths(Buffer.from(text))).toBe(true);
  });

  it.each([
    '',
    ' ',
    '{',
    '[]',
    'null',
    '"auths"',
    '{}',
    '{"auths":{}}',
    '{"auths":[]}',
    '{"auths":["a"]}',
    '{"auths":null}',
  ])('%j is not', (text) => {
    expect(isRegistryAuths(Buffer.from(text))).toBe(false);
  });
});
