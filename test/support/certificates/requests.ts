// Certificate signing requests for tests, made by the openssl command line: an opinion on PKCS #10 that is independent of
// lib/pki. Without further wishes one is what a kubelet sends: a P-256 key, no extensions, PrintableStrings.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { childrenOf, readDer, writeDer } from '../../../lib/pki/der.ts';
import { encodePem, readPem } from '../../../lib/pki/pem.ts';

const run = promisify(execFile);

export type RequestKey = 'rsa1024' | 'rsa2048' | 'P-256' | 'P-384' | 'P-521' | 'ed25519' | 'secp256k1';

export interface RequestOptions {
  /** `O=system:nodes`, in this order. */
  readonly subject: readonly string[];
  readonly key?: RequestKey;
  /** Of a private key that is there. Default: a new one. */
  readonly keyFile?: string;
  /** Lines of openssl's section of extensions: `subjectAltName = DNS:a`. */
  readonly extensions?: readonly string[];
  readonly challengePassword?: string;
  /** Default: that of the key. */
  readonly digest?: string;
  /** Which string types openssl may use (`string_mask`). Default: `utf8only`. */
  readonly stringMask?: string;
}

const keyArguments: Readonly<Record<RequestKey, readonly string[]>> = {
  rsa1024: ['-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:1024'],
  rsa2048: ['-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048'],
  'P-256': ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256'],
  'P-384': ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-384'],
  'P-521': ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-521'],
  secp256k1: ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:secp256k1'],
  ed25519: ['-algorithm', 'ED25519'],
};

/** PEM. */
export async function createRequest(options: RequestOptions): Promise<string> {
  const { subject, key = 'P-256', extensions = [], challengePassword, digest, stringMask = 'utf8only' } = options;
  const directory = await mkdtemp(join(tmpdir(), 'request-'));
  try {
    const [newKey, config, out] = ['key.pem', 'req.cnf', 'out.pem'].map((name) => join(directory, name)) as [
      string,
      string,
      string,
    ];
    const { keyFile = newKey } = options;
    if (keyFile === newKey) await run('openssl', ['genpkey', ...keyArguments[key], '-out', keyFile]);
    await writeFile(
      config,
      [
        `[req]\ndistinguished_name = dn\nprompt = no\nutf8 = yes\nstring_mask = ${stringMask}`,
        ...(extensions.length > 0 ? ['req_extensions = ext'] : []),
        ...(challengePassword === undefined
          ? []
          : ['attributes = attr', `[attr]\nchallengePassword = ${challengePassword}`]),
        '[dn]',
        ...subject.map((attribute, at) => `${at}.${attribute}`),
        ...(extensions.length > 0 ? ['[ext]', ...extensions] : []),
        '',
      ].join('\n'),
    );
    const more = digest === undefined ? [] : [`-${digest}`];
    await run('openssl', ['req', '-new', '-config', config, '-key', keyFile, ...more, '-out', out]);
    return await readFile(out, 'utf8');
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** What a kubelet asks for that has no certificate. */
export const kubeletRequest = (node: string, options: Partial<RequestOptions> = {}): Promise<string> =>
  createRequest({ subject: ['O=system:nodes', `CN=system:node:${node}`], stringMask: 'default', ...options });

/** The words of `request` under the signature of `other`: its sender does not have the key. */
export function withSignatureOf(other: string, request: string): string {
  const parts = (pem: string): Buffer[] => {
    const [block] = readPem(Buffer.from(pem), 'request');
    return childrenOf(readDer(block?.der ?? Buffer.alloc(0))).map(({ raw }) => raw);
  };
  const [info = Buffer.alloc(0)] = parts(request);
  const [, ...signature] = parts(other);
  return encodePem({ label: 'CERTIFICATE REQUEST', der: writeDer(0x30, info, ...signature) });
}
