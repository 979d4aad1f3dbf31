import { describe, expect, it } from 'vitest';
import { objectEntries } from '../../lib/store/object-entries.ts';

describe('objectEntries()', () => {
  it('decodes Secrets and both parts of ConfigMaps', () => {
    expect(objectEntries('secret', { data: { a: 'AAH/' } }).entries).toEqual({ a: Buffer.from([0, 1, 255]) });
    expect(objectEntries('secret', {})).toEqual({ entries: {}, keys: [] });
    const object = { data: { a: 'é' }, binaryData: { b: 'AAH/' } };
    const entries = { a: Buffer.from('é'), b: Buffer.from([0, 1, 255]) };
    expect(objectEntries('configMap', object)).toEqual({ entries, keys: ['a', 'b'] });
  });

  it('reads null as an empty value, which is how Go encodes one', () =>
    expect(objectEntries('secret', { data: { a: null } })).toEqual({ entries: { a: Buffer.of() }, keys: ['a'] }));

  it.each([
    [7, 'a number'],
    [true, 'a boolean'],
    [['x'], 'a list'],
    [{ x: 1 }, 'a mapping'],
  ])('a value that is %j is named by its key, and hides no other', (value, kind) => {
    expect(objectEntries('secret', { data: { 'tls.crt': 'AA==', 'tls.key': value } })).toEqual({
      entries: { 'tls.crt': Buffer.of(0) },
      keys: ['tls.crt', 'tls.key'],
      problem: `its entry "tls.key" is ${kind}, wanted text`,
    });
  });

  it.each([
    ['text', 'a string'],
    [['x'], 'a list'],
    [7, 'a number'],
  ])('data that is %j is no mapping', (data, kind) =>
    expect(objectEntries('configMap', { data })).toMatchObject({ problem: `its data is ${kind}, wanted a mapping` }),
  );
});
