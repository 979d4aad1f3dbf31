import { describe, expect, test } from 'vitest';
import { hostnameDer, orderedNames } from '../../lib/pki/names.ts';
import { readDer, writeDer } from '../../lib/pki/der.ts';

describe('hostnameDer()', () => {
  test.each([
    ['node-1.example', '820e6e6f64652d312e6578616d706c65'],
    ['10.1.2.3', '87040a010203'],
    ['::', `8710${'00'.repeat(16)}`],
    ['::1', `8710${'00'.repeat(15)}01`],
    ['fd00::', `8710fd00${'00'.repeat(14)}`],
    ['FD00:0:0:1::2:3', '8710fd000000000000010000000000020003'],
    ['1:2:3:4:5:6:7:8', '871000010002000300040005000600070008'],
    ['::ffff:10.1.2.3', '87040a010203'],
    ['64:ff9b::10.1.2.3', '87100064ff9b00000000000000000a010203'],
  ])('%s', (hostname, hex) => {
    expect(hostnameDer(hostname).toString('hex')).toBe(hex);
  });
});

test('orderedNames() sorts DNS names, keeps the order of the rest, and each name once', () => {
  const email = writeDer(0x81, Buffer.from('a@b'));
  const uri = writeDer(0x86, Buffer.from('spiffe://a'));
  const other = writeDer(0x88, Buffer.from('2a03', 'hex'));
  const wrapped = writeDer(0x87, Buffer.from(`${'00'.repeat(10)}ffff01020304`, 'hex'));
  const [a, bb, ip, ip2] = ['a', 'bb', '9.9.9.9', '1.2.3.4'].map(hostnameDer);
  const wanted = [a, bb, email, ip, ip2, uri, other];
  expect(orderedNames([other, uri, bb, ip, wrapped, a, email, ip2, bb, ip].map((name) => name ?? email))).toEqual(
    wanted,
  );
});

test('writeDer() writes lengths of one, two, three and four bytes', () => {
  for (const length of [0, 127, 128, 255, 256, 65_535, 65_536]) {
    const { tag, content } = readDer(writeDer(0x04, Buffer.alloc(length)));
    expect([tag, content.length]).toEqual([0x04, length]);
  }
});
