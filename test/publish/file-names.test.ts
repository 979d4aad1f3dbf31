import { describe, expect, test } from 'vitest';
import { nameProblem, namesProblem } from '../../lib/publish/file-names.ts';

describe('nameProblem() accepts', () => {
  test.each(['tls.crt', '.hidden', 'ca-bundle.crt', 'a'.repeat(255), 'service-account-001.pub', 'a..b'])(
    '%j',
    (name) => {
      expect(nameProblem(name)).toBeUndefined();
    },
  );
});

describe('nameProblem() refuses', () => {
  test.each([
    ['', 'is empty'],
    ['.', 'is the directory itself'],
    ['..', 'starts with ".."'],
    ['..data', 'starts with ".."'],
    ['../x', 'starts with ".."'],
    ['/etc/passwd', 'holds a path separator'],
    ['a/b', 'holds a path separator'],
    ['a\\b', 'holds a path separator'],
    ['a\0b', 'holds a control character'],
    ['a\nb', 'holds a control character'],
    ['a'.repeat(256), 'is longer than 255 bytes'],
    ['é'.repeat(128), 'is longer than 255 bytes'],
  ])('%j: %s', (name, problem) => {
    expect(nameProblem(name)).toBe(problem);
  });
});

test('namesProblem() names the key and says what is wanted', () => {
  expect(namesProblem(['tls.crt', '../x'])).toBe('the key "../x" starts with ".."; a bare file name is wanted');
  expect(namesProblem(['tls.crt', 'tls.key'])).toBeUndefined();
});
