import { expect, test } from 'vitest';
import { joinNames, localServer } from '../../lib/adopt/kubeadm-files.ts';

test.each([
  ['https://192.0.2.10:6443', 'https://127.0.0.1:6443'],
  ['https://192.0.2.10:8443', 'https://127.0.0.1:8443'],
  ['https://192.0.2.10', 'https://127.0.0.1:443'],
  ['https://192.0.2.10:443', 'https://127.0.0.1:443'],
  ['https://[2001:db8::10]:6443', 'https://[::1]:6443'],
  ['https://[2001:db8::10]:8443', 'https://[::1]:8443'],
  ['https://cp.example.com:8443', 'https://127.0.0.1:8443'],
  [undefined, 'https://127.0.0.1:6443'],
])('localServer() of %s is %s', (local, expected) => {
  expect(localServer(local === undefined ? {} : { local })).toBe(expected);
});

test('joinNames() has each name once, in its one spelling, and none that is declared already', () => {
  const found = [
    ['CP1', '2001:DB8:0::10', 'kubernetes'],
    ['cp1', '2001:db8::10', '192.0.2.10'],
  ];
  expect(joinNames(['kubernetes', '10.96.0.1'], ...found)).toEqual(['192.0.2.10', '2001:db8::10', 'cp1']);
});
