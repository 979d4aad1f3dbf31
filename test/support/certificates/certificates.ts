// Certificates for tests, made by the openssl command line: an opinion on X.509 that is independent of lib/pki.
// Keys are P-256 because they cost milliseconds. Any dates can be asked for, also in the past.
import { execFile } from 'node:child_process';
import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Files of one certificate and its key. */
export interface Pair {
  readonly cert: string;
  readonly key: string;
}

export interface LeafOptions {
  readonly commonName: string;
  readonly organization?: string;
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly string[];
  /** None: it restricts nothing. Default: `clientAuth`. */
  readonly usages?: readonly ('clientAuth' | 'serverAuth')[];
  readonly notBefore?: Date;
  readonly notAfter?: Date;
}

export interface AuthorityOptions {
  readonly commonName: string;
  /** Signed by this authority; default: by itself. */
  readonly signer?: Pair;
  /** Besides those of every CA, as openssl's configuration has them. */
  readonly extensions?: readonly string[];
  /** Default: `sha256`. */
  readonly digest?: 'sha1';
  readonly notBefore?: Date;
  readonly notAfter?: Date;
}

const day = 86_400_000;

/** ASN.1 time as `openssl ca` wants it: 20270131235959Z. */
const asn1Time = (at: Date): string => at.toISOString().replaceAll(/[-:T]|\.\d{3}/g, '');

async function createKey(key: string): Promise<void> {
  await mkdir(dirname(key), { recursive: true });
  await writeFile(key, '', { mode: 0o600 });
  await run('openssl', ['genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', key]);
  await chmod(key, 0o600);
}

interface Issue {
  readonly pair: Pair;
  readonly subject: string;
  readonly signer: Pair | undefined;
  readonly extensions: readonly string[];
  readonly notBefore: Date | undefined;
  readonly notAfter: Date | undefined;
  readonly digest?: AuthorityOptions['digest'];
}

/** `openssl ca` rather than `openssl x509`: before OpenSSL 3.4 only it takes both dates. */
async function issue({ pair, subject, signer, extensions, notBefore, notAfter, digest }: Issue): Promise<void> {
  const scratch = `${pair.cert}.scratch`;
  const config = join(scratch, 'openssl.cnf');
  const request = join(scratch, 'request.pem');
  await mkdir(scratch, { recursive: true });
  await writeFile(join(scratch, 'index.txt'), '');
  await writeFile(
    config,
    `[req]\ndistinguished_name = dn\nprompt = no\n[dn]\n${subject}\n[ca]\ndefault_ca = me\n` +
      `[me]\ndatabase = ${scratch}/index.txt\nnew_certs_dir = ${scratch}\nrand_serial = yes\ndefault_md = ${digest ?? 'sha256'}\n` +
      `policy = any\nunique_subject = no\nx509_extensions = ext\n` +
      `[any]\norganizationName = optional\ncommonName = supplied\n[ext]\n${extensions.join('\n')}\n`,
  );
  await run('openssl', ['req', '-new', '-config', config, '-key', pair.key, '-out', request]);
  const from = notBefore ?? new Date(Date.now() - 60_000);
  const to = notAfter ?? new Date(Date.now() + 365 * day);
  const by =
    signer === undefined ? ['-selfsign', '-keyfile', pair.key] : ['-cert', signer.cert, '-keyfile', signer.key];
  const dates = ['-startdate', asn1Time(from), '-enddate', asn1Time(to)];
  await run('openssl', [
    'ca',
    '-batch',
    '-notext',
    '-config',
    config,
    ...by,
    ...dates,
    '-in',
    request,
    '-out',
    pair.cert,
  ]);
  await rm(scratch, { recursive: true });
}

/** A CA in `directory`/tls.crt and tls.key. */
export async function createAuthority(directory: string, options: AuthorityOptions): Promise<Pair> {
  const pair = { cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') };
  await createKey(pair.key);
  await issue({
    pair,
    subject: `CN = ${options.commonName}`,
    signer: options.signer,
    extensions: [
      'basicConstraints = critical,CA:TRUE',
      'keyUsage = critical,digitalSignature,keyCertSign,cRLSign',
      'subjectKeyIdentifier = hash',
      ...(options.signer ? ['authorityKeyIdentifier = keyid'] : []),
      ...(options.extensions ?? []),
    ],
    digest: options.digest,
    notBefore: options.notBefore,
    notAfter: options.notAfter,
  });
  return pair;
}

/** etcd's CA where the preset `kubernetes` has it: files are made with the one that is there, and none is made. */
export async function createEtcdAuthority(pkiDir: string): Promise<void> {
  const { cert, key } = await createAuthority(join(pkiDir, 'etcd'), { commonName: 'etcd' });
  await rename(cert, join(pkiDir, 'etcd/ca.crt'));
  await rename(key, join(pkiDir, 'etcd/ca.key'));
}

/** A leaf signed by `signer` in `directory`/tls.crt and tls.key. */
export async function createLeaf(directory: string, signer: Pair, options: LeafOptions): Promise<Pair> {
  const pair = { cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') };
  const names = [
    ...(options.dnsNames ?? []).map((name) => `DNS:${name}`),
    ...(options.ipAddresses ?? []).map((ip) => `IP:${ip}`),
  ];
  const { usages = ['clientAuth'] } = options;
  await createKey(pair.key);
  await issue({
    pair,
    subject: [...(options.organization ? [`O = ${options.organization}`] : []), `CN = ${options.commonName}`].join(
      '\n',
    ),
    signer,
    extensions: [
      'basicConstraints = critical,CA:FALSE',
      'keyUsage = critical,digitalSignature,keyEncipherment',
      ...(usages.length > 0 ? [`extendedKeyUsage = ${usages.join(',')}`] : []),
      'authorityKeyIdentifier = keyid',
      ...(names.length > 0 ? [`subjectAltName = ${names.join(',')}`] : []),
    ],
    notBefore: options.notBefore,
    notAfter: options.notAfter,
  });
  return pair;
}

/** A bare key pair, as service account tokens are signed with: the private key and its public half. */
export async function createKeyPair(directory: string): Promise<{ readonly key: string; readonly publicKey: string }> {
  const files = { key: join(directory, 'service-account.key'), publicKey: join(directory, 'service-account.pub') };
  await createKey(files.key);
  await run('openssl', ['pkey', '-in', files.key, '-pubout', '-out', files.publicKey]);
  return files;
}
