// Where in a kubeconfig the credentials of this machine's own context are, and the CA by which it knows its server. Pure.
import { dirname, resolve } from 'node:path';
import { errorText } from '../errors.ts';
import { isYamlText, parseYaml, yamlText } from '../yaml.ts';
import { isBase64, kubeconfigProblem } from './kubeconfig-shape.ts';
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
  readonly server?: string;
  /** It trusts any server, and must not name a CA then. */
  readonly insecure: boolean;
}

/** `foreign`: it is sound, and its credentials are others'. */
export type KubeconfigReading = KubeconfigView | { readonly problem: string } | { readonly foreign: string };

/** Ways to authenticate that leave a client certificate no part. */
const others = ['exec', 'auth-provider', 'username', 'token', 'tokenFile'] as const;

/** Paths in it are relative to the directory of `file`. Never throws. */
export function readKubeconfigView(file: string, bytes: Uint8Array, known: KnownServers): KubeconfigReading {
  const damage = textDamage(bytes);
  if (damage !== undefined) return { problem: damage };
  let config: unknown;
  try {
    config = parseYaml(yamlText(bytes));
  } catch (err) {
    return { problem: errorText(err) };
  }
  const context = ownContext(config, known);
  if ('problem' in context) return context;
  // Before whose it is: what no component can load is nobody's working file.
  const own =
    'user' in context ? [context.user, context.cluster].map(({ path: [list, at, of] }) => `${list}[${at}].${of}`) : [];
  const problem = kubeconfigProblem(config, own);
  if (problem !== undefined) return { problem };
  if (!('user' in context)) return context;
  const { user, cluster } = context;
  const source = (fields: Fields, name: string): Source => sourceOf(dirname(file), fields, name);
  const certificate = source(user.fields, 'client-certificate');
  const other = others.find((name) => isSet(user.fields[name]));
  const certified = certificate.kind !== 'none' && (other === 'token' || other === 'tokenFile');
  if (other !== undefined && !certified) return { foreign: `its user authenticates by "${other}"` };
  const server = cluster.fields['server'];
  return {
    ...(typeof server === 'string' && { server }),
    user: user.path,
    cluster: cluster.path,
    certificate,
    key: source(user.fields, 'client-key'),
    authority: source(cluster.fields, 'certificate-authority'),
    insecure: cluster.fields['insecure-skip-tls-verify'] === true,
  };
}

/** Why Go's YAML reader refuses the bytes as text. Decoded all the same, damage would look like part of a value. */
export function textDamage(bytes: Uint8Array): string | undefined {
  if (!isYamlText(bytes)) return 'it is not UTF-8';
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  const isControl = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/;
  return isControl.test(yamlText(bytes)) ? 'it holds control characters' : undefined;
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null && value !== '';

function sourceOf(directory: string, fields: Fields, name: string): Source {
  const data = fields[`${name}-data`];
  if (isSet(data)) return { kind: 'data', bytes: typeof data === 'string' ? decoded(data) : undefined };
  const file = fields[name];
  return typeof file === 'string' && file !== '' ? { kind: 'file', file: resolve(directory, file) } : { kind: 'none' };
}

const decoded = (data: string): Buffer | undefined => (isBase64(data) ? Buffer.from(data, 'base64') : undefined);
