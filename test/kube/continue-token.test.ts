import { expect, it } from 'vitest';
import { sendableToken } from '../../lib/kube/continue-token.ts';

const tokenOf = (start: string): string =>
  Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: 7, start })).toString('base64url');
const contentOf = (token: string): unknown => JSON.parse(Buffer.from(token, 'base64url').toString());

it('keeps a token that can be sent, and one that it cannot read', () => {
  const usual = tokenOf('csr-abcde\0');
  expect(sendableToken(usual)).toBe(usual);
  for (const unknown of ['x'.repeat(70_000), Buffer.from(JSON.stringify(['y'.repeat(70_000)])).toString('base64url')])
    expect(sendableToken(unknown)).toBe(unknown);
});

it.each(['n', ',', '\u00e9', '\u{1F600}'])('continues behind all names that begin as a long one of %s', (char) => {
  const long = char.repeat(70_000);
  const token = sendableToken(tokenOf(`${long}\0`));
  expect(token.length).toBeLessThan(10_000);
  const { start, ...rest } = contentOf(token) as { readonly start: string };
  expect(rest).toEqual({ v: 'meta.k8s.io/v1', rv: 7 });
  expect(start.isWellFormed()).toBe(true);
  const isBefore = (name: string): boolean => Buffer.compare(Buffer.from(name), Buffer.from(start)) < 0;
  expect([long, `${long}zzz`, char.repeat(1100)].every(isBefore)).toBe(true);
  expect([char.repeat(500) + '\u{10FFFF}', `${char}\u{10FFFF}`].some(isBefore)).toBe(false);
});
