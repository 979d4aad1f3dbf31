import { describe, expect, it } from 'vitest';
import { exitOfNode } from '../../cmd/exit-codes.ts';
import { addressGone } from '../../lib/host/own-address.ts';
import { renderNode } from '../../lib/status/print.ts';
import { tell } from './node.ts';

const endpoint = 'https://192.0.2.10:6443';

describe('the address of the own API server', () => {
  it.each<readonly [string, string | undefined, readonly string[]]>([
    ['an interface has it', endpoint, ['127.0.0.1', '10.0.2.15', '192.0.2.10']],
    ['an interface has it in another spelling', 'https://[FD00:0::10]:6443', ['10.0.2.15', 'fd00::10']],
    ['the network is not up', endpoint, ['127.0.0.1', '::1', 'fe80::1']],
    ['it is a name', 'https://api.example.com:6443', ['10.0.2.15']],
    ['it is the loopback interface', 'https://127.0.0.1:6443', ['10.0.2.15']],
    ['nobody knows it', undefined, ['10.0.2.15']],
  ])('is not gone where %s', (_, url, own) => {
    expect(addressGone(url, own)).toBeUndefined();
  });

  it('is gone where the machine has others only', () => {
    const text = addressGone(endpoint, ['127.0.0.1', '10.0.2.15', 'fe80::1']);
    expect(text).toMatch(/^192\.0\.2\.10 is no address of this machine/);
    expect(text).toContain('(10.0.2.15)');
  });

  it('is a problem of status, which no run solves', () => {
    const status = tell({}, { addressGone: 'the address is gone' });
    expect(exitOfNode(status)).toBe(3);
    expect(status.problems).toEqual(['the address is gone']);
    const text = renderNode(status, { output: 'table' });
    expect(text).toContain('To do:\n  the address is gone\n');
    expect(text).not.toContain('as it should be');
  });
});
