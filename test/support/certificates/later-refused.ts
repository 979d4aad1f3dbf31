// Certificates that older Go loads and newer Go refuses, made by openssl, each with what Go 1.25 and newer say. Measured
// with Go 1.22.12, 1.23.12, 1.24.0, 1.25.0 and 1.26.8; only the first has a switch in GODEBUG.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { encodePem, readPem } from '../../../lib/pki/pem.ts';

const run = promisify(execFile);

export interface LaterRefused {
  readonly name: string;
  /** The release that began to refuse it. */
  readonly since: string;
  /** What Go says. */
  readonly reason: RegExp;
  readonly args?: readonly string[];
  readonly extensions?: readonly string[];
  readonly patch?: (der: Buffer) => void;
}

const basic = 'basicConstraints=critical,CA:TRUE';
/** A BMPString of two characters, of which the second becomes one that is reserved for none. */
const noCharacter = (der: Buffer): void => {
  for (let at = der.indexOf('\0a\0b'); at >= 0; at = der.indexOf('\0a\0b')) der.writeUInt16BE(0xfdd0, at + 2);
};

export const laterRefused: readonly LaterRefused[] = [
  {
    name: 'a negative serial number',
    since: '1.23',
    reason: /: negative serial number$/,
    args: ['-set_serial', '-5'],
  },
  {
    name: 'a critical subject key identifier',
    since: '1.23',
    reason: /subject key identifier incorrectly marked critical$/,
    extensions: [basic, '2.5.29.14=critical,DER:04020102'],
  },
  {
    name: 'a critical authority key identifier',
    since: '1.23',
    reason: /authority key identifier incorrectly marked critical$/,
    extensions: [basic, '2.5.29.35=critical,DER:300480020102'],
  },
  {
    name: 'a critical authority information access',
    since: '1.23',
    reason: /authority info access incorrectly marked critical$/,
    extensions: [basic, 'authorityInfoAccess=critical,OCSP;URI:http://ca.example.com'],
  },
  {
    name: 'a policy that is there twice',
    since: '1.24',
    reason: /invalid certificate policies$/,
    extensions: [basic, '2.5.29.32=DER:300E300506032A0304300506032A0304'],
  },
  {
    name: 'policy constraints that are none',
    since: '1.24',
    reason: /invalid policy constraints extension$/,
    extensions: [basic, '2.5.29.36=DER:0500'],
  },
  {
    name: 'policy mappings that are none',
    since: '1.24',
    reason: /invalid policy mappings extension$/,
    extensions: [basic, '2.5.29.33=DER:0500'],
  },
  {
    name: 'inhibitAnyPolicy that is no number',
    since: '1.24',
    reason: /invalid inhibit any policy extension$/,
    extensions: [basic, '2.5.29.54=DER:0500'],
  },
  {
    name: 'a negative path length',
    since: '1.25',
    reason: /invalid basic constraints$/,
    extensions: ['2.5.29.19=critical,DER:30060101FF0201FF'],
  },
  {
    name: 'a name with a character that is none',
    since: '1.25',
    reason: /invalid BMPString$/,
    patch: noCharacter,
  },
];

/** DER of a CA that is signed by itself; what is patched has a wrong signature. */
export async function makeLaterRefused({ args = [], extensions = [basic], patch }: LaterRefused): Promise<Buffer> {
  const dir = await mkdtemp(join(tmpdir(), 'later-'));
  try {
    const file = (name: string): string => join(dir, name);
    const config = `[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\nstring_mask=MASK:0x800\n[dn]\nCN=ab\n[ext]\n`;
    await writeFile(file('openssl.cnf'), `${config}${extensions.join('\n')}\n`);
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', file('key')];
    await run('openssl', ['req', '-x509', '-config', file('openssl.cnf'), ...key, ...args, '-out', file('crt')]);
    const der = Buffer.from(readPem(await readFile(file('crt')), 'test')[0]?.der ?? '');
    patch?.(der);
    return der;
  } finally {
    await rm(dir, { recursive: true });
  }
}

export const pemOf = (der: Buffer): Buffer => Buffer.from(encodePem({ label: 'CERTIFICATE', der }));
