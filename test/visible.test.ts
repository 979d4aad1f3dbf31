// Text that reaches a terminal.
import { describe, expect, it } from 'vitest';
import { visibleLines } from '../lib/visible.ts';

describe('visibleLines()', () => {
  it.each([
    ['\u202Egpj.exe', '\\u202egpj.exe'],
    ['a\u001B[2Jb\u001B[8mc\rd', 'a\\u001b[2Jb\\u001b[8mc\\u000dd'],
    ['\u{E0041}', '\\udb40\\udc41'],
    ['one\u2028two\u0085', 'one\\u2028two\\u0085'],
    ['behind\r\u001B[Kit\n\r\u001B[K', 'behind\\u000d\\u001b[Kit\n\\u000d\\u001b[K'],
    ['CN=\u001B[32mgood\u001B[0m ', 'CN=\\u001b[32mgood\\u001b[0m '],
  ])('replaces what a terminal would act on in %j', (text, wanted) => {
    expect(visibleLines(text)).toBe(wanted);
  });

  it('leaves lines, colours and the start of a line over another', () => {
    const text = '\r\u001B[Kthree\n\tlines,\n\u001B[31mé 漢\u001B[0m\n';
    expect(visibleLines(text)).toBe(text);
  });

  it('leaves JSON as it is meant', () => {
    const info = { name: 'registry\u202E\u007F\n\u{E0041}"' };
    expect(JSON.parse(visibleLines(JSON.stringify(info)))).toEqual(info);
  });
});
