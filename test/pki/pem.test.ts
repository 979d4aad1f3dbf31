import { describe, expect, it } from 'vitest';
import { readPem } from '../../lib/pki/pem.ts';

const block = '-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n';

describe('readPem()', () => {
  it('takes blanks at the end of a line, as Go does, and no other space', () => {
    const blanks = block.replaceAll('\n', ' \t \n');
    expect(readPem(Buffer.from(blanks), 'x')).toMatchObject([{ label: 'CERTIFICATE', der: Buffer.from('x') }]);
    expect(() => readPem(Buffer.from(block.replaceAll('\n', '\v\n')), 'x')).toThrow(/damaged/);
  });

  // Where each blank of a line is tried as the first of those at its end, a line of a million takes hours.
  it.each([
    ['blanks before other text', `${' '.repeat(1_000_000)}x\n`],
    ['blanks and tabs', ' \t'.repeat(500_000) + 'x\n'],
    ['lines of blanks', `${' '.repeat(1000)}x\n`.repeat(1000)],
    ['dashes', `${'-'.repeat(1_000_000)}\n`],
    ['marks that begin', '-----BEGIN'.repeat(100_000).replaceAll('BEGIN', 'BEGI ') + '\n'],
  ])('reads a megabyte of %s before a block', (_what, before) => {
    expect(readPem(Buffer.from(before + block), 'x')).toHaveLength(1);
  });
});
