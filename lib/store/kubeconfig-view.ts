// Where in a kubeconfig the credentials of this machine's own context are, and the CA by which it knows its server. Pure.
import { dirname, resolve } from 'node:path';
import { errorText } from '../errors.ts';
import { parseYaml } from '../yaml.ts';
import { type KnownServers, ownContext } from './own-context.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Embedded bytes, or a file. Where both are given the data counts, as in client-go. */
export type Source =
  | { readonly kind: 'data'; readonly bytes: Buffer | undefined }
  | { readonly kind: 'file'; readonly file: string }
  | { readonly kind: 'none' };

export interface KubeconfigView {
  /** Where the mappings of its user and its cluster are. */
  readonly user: readonly (string | number)[];
  readonly cluster: readonly (string | number)[];
  readonly certificate: Source;
  readonly key: Source;
  readonly authority: Source;
  /** It trusts any server, and must not name a CA then. */
  readonly insecure: boolean;
}

/** `foreign`: it is sound, and its credentials are others'. */
export type KubeconfigReading = KubeconfigView | { readonly problem: string } | { readonly foreign: string };

/** Ways to authenticate that leave a client certificate no part. */
const others = ['exec', 'auth-provider', 'username', 'token', 'tokenFile'] as const;

/** Paths in it are relative to the directory of `file`. Never throws. */
export function readKubeconfigView(file: string, bytes: Uint8Array, known: KnownServers): KubeconfigReading {
  let config: unknown;
  try {
    config = parseYaml(Buffer.from(bytes).toString('utf8'));
  } catch (err) {
    return { problem: errorText(err) };
  }
  const context = ownContext(config, known);
  if (!('user' in context)) return context;
  const { user, cluster } = context;
  const source = (fields: Fields, name: string): Source => sourceOf(dirname(file), fields, name);
  const certificate = source(user.fields, 'client-certificate');
  const other = others.find((name) => isSet(user.fields[name]));
  const certified = certificate.kind !== 'none' && (other === 'token' || other === 'tokenFile');
  if (other !== undefined && !certified) return { foreign: `its user authenticates by "${other}"` };
  return {
    user: user.path,
    cluster: cluster.path,
    certificate,
    key: source(user.fields, 'client-key'),
    authority: source(cluster.fields, 'certificate-authority'),
    insecure: cluster.fields['insecure-skip-tls-verify'] === true,
  };
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null && value !== '';

function sourceOf(directory: string, fields: Fields, name: string): Source {
  const data = fields[`${name}-data`];
  if (isSet(data)) return { kind: 'data', bytes: typeof data === 'string' ? decoded(data) : undefined };
  const file = fields[name];
  return typeof file === 'string' && file !== '' ? { kind: 'file', file: resolve(directory, file) } : { kind: 'none' };
}

function decoded(data: string): Buffer | undefined {
  const text = data.replaceAll(/\s/g, '');
  return /^[A-Za-z0-9+/]+={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined;
}
