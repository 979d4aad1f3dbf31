// Reads a kubeconfig file into the parts of a connection: address, server name for SNI, CA, and the identity. All
// problems are reported together, with file and field; values of secret fields never are. Verification cannot be
// switched off, and no plugin is ever run: recovery must work when nothing else does.
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { dirname, resolve } from 'node:path';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { withoutSlashesAtEnd } from '../address.ts';
import { errorText, RecoveryError, systemCode } from '../errors.ts';
import { problemsError, valueText, type Problem } from '../problems.ts';
import { parseYaml, yamlText, isMapping } from '../yaml.ts';
import { entryOf, isSet, type KubeconfigFields } from './document.ts';
import { isBase64 } from './schema.ts';

export interface Credentials {
  /** Address without a trailing slash, with the path that some proxies put before the API: `https://host:6443`. */
  readonly server: string;
  /** Sent by SNI and verified. Undefined: the host of `server`. */
  readonly serverName: string | undefined;
  /** PEM. */
  readonly ca: Buffer;
  readonly token: string | undefined;
  /** PEM. */
  readonly clientCertificate: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  /** Absolute paths of all files read: a change of any of them changes these credentials. */
  readonly files?: readonly string[];
}

export interface KubeconfigOptions {
  /** Replaces `tls-server-name`. */
  readonly tlsServerNameOverride?: string | undefined;
  /** Token that replaces the user: only the server and its CA come from the kubeconfig. Absolute path. */
  readonly tokenFile?: string | undefined;
}

/** Fields that would change our identity or our trust, if they were honoured: refused, never ignored. */
const refused: Readonly<Record<'cluster' | 'user', Readonly<Record<string, string>>>> = {
  cluster: {
    'insecure-skip-tls-verify': 'the server is always verified; give certificate-authority',
    'proxy-url': 'proxies are not supported',
  },
  user: {
    exec: 'credential plugins are not run; use a token, tokenFile or a client certificate',
    'auth-provider': 'credential plugins are not run; use a token, tokenFile or a client certificate',
    username: 'the API server has no basic authentication; use a token, tokenFile or a client certificate',
    password: 'the API server has no basic authentication; use a token, tokenFile or a client certificate',
    as: 'impersonation is not supported',
    'as-uid': 'impersonation is not supported',
    'as-groups': 'impersonation is not supported',
    'as-user-extra': 'impersonation is not supported',
  },
};

/** Values and problems of one file. */
class Reading {
  readonly problems: Problem[] = [];
  readonly file: string;
  readonly files: string[];

  constructor(file: string) {
    this.file = file;
    this.files = [file];
  }

  problem(path: string, message: string, kind: Problem['kind'] = 'invalid'): undefined {
    this.problems.push({ path, kind, message });
    return undefined;
  }

  refusal(): RecoveryError {
    return problemsError('ConfigInvalid', `Cannot use kubeconfig "${this.file}"`, this.problems);
  }

  /** Returns the text of an optional field. An empty one counts as left out, as in client-go. */
  text(fields: KubeconfigFields, path: string, name: string): string | undefined {
    const value = fields[name];
    if (!isSet(value)) return undefined;
    if (typeof value === 'string') return value;
    return this.problem(`${path}.${name}`, `must be text, got ${typeof value}`);
  }

  /** Bytes given inline (`<name>-data`, which wins, as in client-go) or as a path relative to the kubeconfig. */
  async bytes(fields: KubeconfigFields, path: string, name: string): Promise<Buffer | undefined> {
    const data = this.text(fields, path, `${name}-data`);
    if (data !== undefined) {
      if (isBase64(data)) return Buffer.from(data, 'base64');
      return this.problem(`${path}.${name}-data`, 'must be base64');
    }
    const file = this.text(fields, path, name);
    return file === undefined ? undefined : this.content(file, `${path}.${name}`);
  }

  async content(file: string, path: string): Promise<Buffer | undefined> {
    const absolute = resolve(dirname(this.file), file);
    this.files.push(absolute);
    try {
      return await readRegularFile(realDisk, absolute);
    } catch (err) {
      return this.problem(path, `cannot read "${absolute}": ${systemCode(err) ?? 'failed'}`, 'notFound');
    }
  }

  /** Returns the entry called `name` in its list. */
  entry(config: KubeconfigFields, kind: 'cluster' | 'user' | 'context', name: string): KubeconfigFields | undefined {
    const fields = entryOf(config, kind, name)?.fields;
    return fields ?? this.problem(`${kind}s`, `has no entry named ${valueText(name)}`, 'notFound');
  }

  refuse(kind: 'cluster' | 'user', path: string, fields: KubeconfigFields): void {
    for (const [name, why] of Object.entries(refused[kind])) {
      if (isSet(fields[name]) && fields[name] !== false) this.problem(`${path}.${name}`, `is not allowed: ${why}`);
    }
  }
}

function certificates(pem: Buffer): X509Certificate[] {
  const blocks = pem.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  return blocks.map((block) => new X509Certificate(block));
}

function serverAddress(reading: Reading, cluster: KubeconfigFields): string | undefined {
  const text = reading.text(cluster, 'cluster', 'server');
  if (text === undefined) return reading.problem('cluster.server', 'is missing', 'required');
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '' || url.search !== '') {
    return reading.problem('cluster.server', 'must be an address like "https://10.0.0.1:6443"');
  }
  return `${url.origin}${withoutSlashesAtEnd(url.pathname)}`;
}

async function authority(reading: Reading, cluster: KubeconfigFields): Promise<Buffer | undefined> {
  const before = reading.problems.length;
  const ca = await reading.bytes(cluster, 'cluster', 'certificate-authority');
  if (ca === undefined) {
    if (reading.problems.length > before) return undefined;
    return reading.problem('cluster.certificate-authority', 'is missing: the server could not be verified', 'required');
  }
  try {
    if (certificates(ca).length > 0) return ca;
  } catch {
    // reported below: the text of the error may hold bytes of the file
  }
  return reading.problem('cluster.certificate-authority', 'must hold PEM certificates, and only whole ones');
}

async function clientCertificate(reading: Reading, user: KubeconfigFields): Promise<Credentials['clientCertificate']> {
  const before = reading.problems.length;
  const cert = await reading.bytes(user, 'user', 'client-certificate');
  const key = await reading.bytes(user, 'user', 'client-key');
  if (reading.problems.length > before || (cert === undefined && key === undefined)) return undefined;
  if (cert === undefined) return reading.problem('user.client-certificate', 'is missing beside client-key', 'required');
  if (key === undefined) return reading.problem('user.client-key', 'is missing beside client-certificate', 'required');
  try {
    const [leaf] = certificates(cert);
    if (leaf?.checkPrivateKey(createPrivateKey(key)) === true) return { cert, key };
  } catch {
    return reading.problem('user.client-certificate', 'and client-key must be a PEM certificate and a PEM key');
  }
  return reading.problem('user.client-key', 'does not belong to client-certificate');
}

/** Returns the bearer token. tokenFile wins over token, as in client-go, because the file is renewed. */
async function bearerToken(reading: Reading, user: KubeconfigFields): Promise<string | undefined> {
  const file = reading.text(user, 'user', 'tokenFile');
  const path = file === undefined ? 'user.token' : 'user.tokenFile';
  const text =
    file === undefined ? reading.text(user, 'user', 'token') : (await reading.content(file, path))?.toString();
  const token = text?.trim();
  if (token === undefined) return undefined;
  // Only printable ASCII fits into a header; the value itself is never shown.
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  return reading.problem(path, token === '' ? 'is empty' : 'must be one line of printable characters without spaces');
}

async function readFields(reading: Reading): Promise<KubeconfigFields> {
  let text: string;
  try {
    text = yamlText(await readRegularFile(realDisk, reading.file));
  } catch (err) {
    const details = { path: reading.file };
    const why = systemCode(err) ?? 'failed';
    throw new RecoveryError('ConfigInvalid', `Cannot read kubeconfig "${reading.file}": ${why}`, {
      cause: err,
      details,
    });
  }
  try {
    const value = parseYaml(text, 'ours'); // an administrator may have hundreds of clusters in it
    if (isMapping(value)) return value;
    reading.problem('', 'must be a mapping with clusters, users, contexts and current-context', 'syntax');
  } catch (err) {
    reading.problem('', errorText(err), 'syntax');
  }
  throw reading.refusal();
}

function serverName(reading: Reading, cluster: KubeconfigFields, override: string | undefined): string | undefined {
  const name = override ?? reading.text(cluster, 'cluster', 'tls-server-name');
  // RFC 6066 section 3: an address is no server name; sent as one, it is treated differently by Node and Go servers.
  if (name !== undefined && (isIP(name) !== 0 || !/^[A-Za-z0-9._-]+$/.test(name))) {
    return reading.problem('cluster.tls-server-name', `must be a DNS name, got ${valueText(name)}`);
  }
  return name;
}

interface CurrentContext {
  readonly context: KubeconfigFields | undefined;
  readonly cluster: KubeconfigFields | undefined;
}

function currentContext(reading: Reading, config: KubeconfigFields): CurrentContext {
  const current = reading.text(config, '', 'current-context');
  if (current === undefined) reading.problem('current-context', 'is missing', 'required');
  const context = current === undefined ? undefined : reading.entry(config, 'context', current);
  const cluster = context && reading.entry(config, 'cluster', reading.text(context, 'context', 'cluster') ?? '');
  return { context, cluster };
}

/** Reads the server of the current context, for callers with their own credential and CA. Throws ConfigInvalid. */
export async function readServer(path: string): Promise<Pick<Credentials, 'server' | 'serverName'>> {
  const reading = new Reading(resolve(path));
  const { cluster } = currentContext(reading, await readFields(reading));
  if (cluster !== undefined) reading.refuse('cluster', 'cluster', cluster);
  const server = cluster && serverAddress(reading, cluster);
  const name = cluster && serverName(reading, cluster, undefined);
  if (reading.problems.length > 0 || server === undefined) throw reading.refusal();
  return { server, serverName: name };
}

/** Reads the credentials of the current context. Throws ConfigInvalid. */
export async function readKubeconfig(path: string, options: KubeconfigOptions = {}): Promise<Credentials> {
  const reading = new Reading(resolve(path));
  const config = await readFields(reading);
  const { context, cluster } = currentContext(reading, config);
  const { tokenFile } = options;
  const user =
    tokenFile === undefined
      ? context && reading.entry(config, 'user', reading.text(context, 'context', 'user') ?? '')
      : { tokenFile };
  if (cluster !== undefined) reading.refuse('cluster', 'cluster', cluster);
  const server = cluster && serverAddress(reading, cluster);
  const ca = cluster && (await authority(reading, cluster));
  const name = cluster && serverName(reading, cluster, options.tlsServerNameOverride);
  const before = reading.problems.length;
  if (user !== undefined) reading.refuse('user', 'user', user);
  const token = user && (await bearerToken(reading, user));
  const pair = user && (await clientCertificate(reading, user));
  if (user !== undefined && token === undefined && pair === undefined && reading.problems.length === before) {
    reading.problem('user', 'has no token, no tokenFile and no client-certificate', 'required');
  }
  if (reading.problems.length > 0 || server === undefined || ca === undefined) {
    throw reading.refusal();
  }
  return { server, serverName: name, ca, token, clientCertificate: pair, files: reading.files };
}

const sameBytes = (a: Buffer | undefined, b: Buffer | undefined): boolean =>
  a === undefined || b === undefined ? a === b : a.equals(b);

/** Whether connections made from `a` may stay when `b` is in force. */
export function sameCredentials(a: Credentials, b: Credentials): boolean {
  return (
    a.server === b.server &&
    a.serverName === b.serverName &&
    a.token === b.token &&
    sameBytes(a.ca, b.ca) &&
    sameBytes(a.clientCertificate?.cert, b.clientCertificate?.cert) &&
    sameBytes(a.clientCertificate?.key, b.clientCertificate?.key)
  );
}
