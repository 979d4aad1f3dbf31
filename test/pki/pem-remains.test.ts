import { describe, expect, it } from 'vitest';
import { otherThanPem, type PemRole } from '../../lib/pki/pem-remains.ts';

const block = (label: string, lines = 6): string =>
  `-----BEGIN ${label}-----\n${'MIIBszCCAVmgAwIBAgIUQd3l1p7V0R2jXoYk2T1eXwYH2dUwCgYIKoZIzj0EAwIw\n'.repeat(lines)}AAAA\n-----END ${label}-----\n`;
const roles: readonly PemRole[] = ['certificate', 'key'];
const own = { certificate: 'CERTIFICATE', key: 'EC PRIVATE KEY' } as const;
const named = (content: string | Buffer, ...of: readonly PemRole[]): string | undefined =>
  otherThanPem(Buffer.from(content as string), of);

describe.each(roles)('otherThanPem() in the place of a %s', (role) => {
  const whole = block(own[role]);

  it.each<[string, string | Buffer, string]>([
    ['a key of SSH', block('OPENSSH PRIVATE KEY'), 'a PEM block "OPENSSH PRIVATE KEY"'],
    ['a key of DSA', block('DSA PRIVATE KEY'), 'a PEM block "DSA PRIVATE KEY"'],
    ['a message of PGP', block('PGP MESSAGE'), 'a PEM block "PGP MESSAGE"'],
    ['a request', block('CERTIFICATE REQUEST'), 'a PEM block "CERTIFICATE REQUEST"'],
    ['a public key', block('PUBLIC KEY'), 'a PEM block "PUBLIC KEY"'],
    ['an EnvironmentFile', 'A=b\n', 'a file of environment variables'],
    ['a document', 'kind: Pod\napiVersion: v1\n', 'a document of kind Pod'],
    ['half a JSON document', '{"a": [1, 2', 'a JSON document, or a part of one'],
    ['a script with PEM in it', `#!/bin/sh\ncat <<EOF\n${whole}EOF\n`, 'a script'],
    ['an archive', Buffer.from('504b03041400000008000000', 'hex'), 'an archive (zip)'],
    ['DER', Buffer.from('3082015a30820100', 'hex'), 'a certificate, a key or a PKCS #12 store in DER'],
    ['text', 'garbage\n', 'text'],
    ['base64 of anything', 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2\n'.repeat(3), 'text'],
    [
      'a Secret with PEM in it',
      `kind: Secret\ndata:\n  a: |\n${whole.replaceAll(/^(?=.)/gm, '    ')}`,
      'a document of kind Secret',
    ],
    ['JSON with PEM in it', JSON.stringify({ kind: 'Secret', pem: whole }), 'a document of kind Secret'],
    [
      'half a configuration with a block',
      `client\nremote a 1\n<ca>\n${whole.slice(0, 200)}`,
      `a PEM block "${own[role]}"`,
    ],
    ['prose', `Paste the -----BEGIN ${own[role]}----- line\nand save.\n`, 'text'],
    ['a heading', 'title\n-----\n', 'text'],
    ['text before zeros', 'garbage\n\0\0\0', 'binary data'],
  ])('names %s', (_title, content, name) => {
    expect(named(content, role)).toBe(name);
  });

  it('names the other half of a pair', () => {
    const [other] = roles.filter((one) => one !== role);
    const name = { certificate: 'a certificate', key: 'a private key' }[other ?? role];
    expect(named(block(own[other ?? role]), role)).toBe(name);
    expect(named(block(own[other ?? role]), ...roles)).toBeUndefined();
  });

  it.each<[string, string | Buffer]>([
    ['nothing', ''],
    ['zeros', '\0'.repeat(4096)],
    ['blanks', '\n\n '],
    ['a whole block', whole],
    ['a block after text', `Bag Attributes\n  friendlyName: x\n${whole}`],
    ['half a block after comments', `# my CA\nsubject=CN = a\n\n${whole.slice(0, 200)}`],
    [
      'half a block after the text of x509 -text',
      `Certificate:\n    Data:\n        Version: 3\n${whole.slice(0, 200)}`,
    ],
    ['a configuration with a whole block, which readers find', `client\n<ca>\n${whole}</ca>\n`],
    ['both halves', `${block('CERTIFICATE')}${block('EC PRIVATE KEY')}`],
    ['a block beside one of another kind', `${block('DH PARAMETERS')}${whole}`],
    [
      'a block with one character of its label damaged',
      whole.replaceAll('FICATE', 'FICAUE').replaceAll('IVATE', 'IVAUE'),
    ],
    ['a block without its BEGIN line', whole.slice(whole.indexOf('\n') + 1)],
    ['a block that begins with a damaged byte', whole.replace('-----BEGIN', '----\x0dBEGIN')],
    ['a block whose first part was zeroed', `${'\0'.repeat(100)}${whole.slice(100)}`],
    ['the middle of a zeroed block', `${'\0'.repeat(100)}${whole.slice(100, 300)}${'\0'.repeat(100)}`],
  ])('takes %s for PEM of its kind', (_title, content) => {
    expect(named(content, role)).toBeUndefined();
  });

  it('takes a block for one that was cut off anywhere, or whose first part is gone', () => {
    const lengths = Array.from({ length: whole.length }, (_, length) => length);
    expect(lengths.filter((length) => named(whole.slice(0, length), role) !== undefined)).toEqual([]);
    expect(lengths.filter((length) => named(whole.slice(length), role) !== undefined)).toEqual([]);
  });
});
