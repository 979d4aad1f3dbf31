import { expect, it } from 'vitest';
import { flagsIn } from '../lib/command-flags.ts';

const file = { name: 'client-ca-file', value: '/ca.crt' };

it.each<[string, readonly string[], readonly object[]]>([
  ['in one word', ['--client-ca-file=/ca.crt'], [file]],
  ['in two words', ['--client-ca-file', '/ca.crt'], [file]],
  ['with one dash', ['-client-ca-file=/ca.crt'], [file]],
  ['with one dash in two words', ['-client-ca-file', '/ca.crt'], [file]],
  ['with underscores', ['--client_ca_file=/ca.crt'], [file]],
  ['with underscores in two words', ['--client_ca-file', '/ca.crt'], [file]],
  ['given twice', ['--client-ca-file=/a', '--client-ca-file', '/ca.crt'], [{ ...file, value: '/a' }, file]],
  ['with an empty value', ['--client-ca-file='], [{ ...file, value: '' }]],
  ['with a value that holds what it is told by', ['--a=b_c=--d'], [{ name: 'a', value: 'b_c=--d' }]],
  ['with a value of several lines', ['--a=b\nc'], [{ name: 'a', value: 'b\nc' }]],
  ['without a value, before another', ['--a', '--b=c'], [{ name: 'a' }, { name: 'b', value: 'c' }]],
  ['without a value, at the end', ['--a'], [{ name: 'a' }]],
  ['among what is none', ['kube-apiserver', '--', '-', '---a=b', '', '--a=b'], [{ name: 'a', value: 'b' }]],
])('flagsIn() reads one %s', (_, words, found) => {
  expect(flagsIn(words)).toEqual(found);
});
