// What encoding/asn1 asks of a value that it passes over, because an optional field has another tag.
import { expect, it } from 'vitest';
import { DerReader, tags } from '../../lib/pki/der.ts';

const enter = (hex: string): boolean => new DerReader(Buffer.from(hex, 'hex')).enter(tags.sequence);

it.each([
  ['of the smallest number', '9f1f0100'],
  ['of two bytes', '9f81000100'],
  ['of the largest number', `9f87ffffff7f0100`],
  ['with a long length', `9f1f8180${'00'.repeat(128)}`],
])('a tag of several bytes, %s, is another tag', (_what, hex) => expect(enter(hex)).toBe(false));

it.each([
  ['a number that fits into one byte', '9f0f0100'],
  ['a padded number', '9f801f0100'],
  ['a number beyond 2^31', '9f88808080000100'],
  ['a number that does not end', '9fffffffffffff'],
  ['no length', '9f1f'],
  ['a length that is not minimal', '9f1f810100'],
  ['a length from 2^31 on', '9f1f8480000000'],
])('a tag of several bytes with %s is no DER', (_what, hex) => expect(() => enter(hex)).toThrow(RangeError));

it('another tag may have any length below 2^31', () => {
  expect(enter('f3847fffffff')).toBe(false);
  expect(() => enter('f38480000000')).toThrow(RangeError);
});
