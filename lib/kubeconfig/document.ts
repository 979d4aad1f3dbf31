// Parses a kubeconfig: where in it the credentials of this machine's own context are, and the CA by which it knows its
// server. Pure.
//
// Which context is this machine's own: `kind create cluster`, `kubectl config use-context` and merged files leave the
// current context with another cluster, whose user and CA must never be replaced by ours.
//   1. the server is known for this machine
//   2. else a CA of this machine has signed its certificate, or is its server's CA: whatever its names
//   3. else kubeadm's name for its cluster, else for its user and context, or the kubelet's (kubernetes/kubernetes
//      cmd/kubeadm/app/util/kubeconfig, pkg/kubelet/certificate/bootstrap), unless a foreign CA has signed it
//   4. else the current context where no server is known, and none where a server is known
// Where several contexts match alike, the current context counts.
import { dirname, resolve } from 'node:path';
import { errorText } from '../errors.ts';
import { isMapping, isYamlText, parseYaml, yamlMapping, yamlText } from '../yaml.ts';
import { otherThanKubeconfig } from './kubeconfig-remains.ts';
import { isHere, type KnownServers } from './known-servers.ts';
import { isBase64, kubeconfigProblem } from './schema.ts';

export type KubeconfigFields = Readonly<Record<string, unknown>>;

/** Embedded bytes, or a file. Where both are given the data counts, as in client-go. */
export type Source =
  | { readonly kind: 'data'; readonly bytes: Buffer | undefined }
  | { readonly kind: 'file'; readonly file: string }
  | { readonly kind: 'none' };

export interface KubeconfigView {
  /** Paths of the mappings of its user and its cluster. */
  readonly user: readonly (string | number)[];
  readonly cluster: readonly (string | number)[];
  readonly certificate: Source;
  readonly key: Source;
  readonly authority: Source;
  readonly server?: string | undefined;
  /** Name that replaces the host of that URL for verification. */
  readonly serverName?: string | undefined;
  /** It trusts any server, and must not name a CA then. */
  readonly insecure: boolean;
  /** Why no component loads it, although its fields can be read. */
  readonly conflict?: string | undefined;
}

/** Name of the field of a cluster by which its clients trust any server. */
export const insecureFlag = 'insecure-skip-tls-verify';

/** `foreign`: why it is never written: its credentials are foreign, or it is another document. */
export type KubeconfigReading =
  | KubeconfigView
  | { readonly problem: string }
  | {
      readonly foreign: string;
      readonly isOtherDocument?: true;
      /** Certificate of the current context. */
      readonly certificate?: Source;
    };

/** Ways to authenticate that exclude a client certificate. */
const others = ['exec', 'auth-provider', 'username', 'token', 'tokenFile'] as const;

/** Reads a kubeconfig; paths in it are relative to the directory of `file`. Never throws. */
export function readKubeconfigView(file: string, bytes: Uint8Array, known: KnownServers): KubeconfigReading {
  const other = otherThanKubeconfig(bytes);
  if (other !== undefined) return { foreign: `it is no kubeconfig but ${other}`, isOtherDocument: true };
  const reading = readView(file, bytes, known);
  if (!('problem' in reading) || !isTornOfOthers(yamlText(bytes), known)) return reading;
  return { foreign: 'it is a damaged kubeconfig of another cluster', isOtherDocument: true };
}

function readView(file: string, bytes: Uint8Array, known: KnownServers): KubeconfigReading {
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
  // Checked before its owner: no owner works with a file that no component can load.
  const own =
    'user' in context ? [context.user, context.cluster].map(({ path: [list, at, of] }) => `${list}[${at}].${of}`) : [];
  const problem = kubeconfigProblem(config, own);
  if (problem !== undefined) return { problem };
  if (!('user' in context)) {
    const { foreign, stranger } = context;
    return { foreign, certificate: sourceOf(dirname(file), stranger.fields, 'client-certificate') };
  }
  const { user, cluster } = context;
  const source = (fields: KubeconfigFields, name: string): Source => sourceOf(dirname(file), fields, name);
  const certificate = source(user.fields, 'client-certificate');
  const way = others.find((name) => isSet(user.fields[name]));
  const certified = certificate.kind !== 'none' && (way === 'token' || way === 'tokenFile');
  if (way !== undefined && !certified && known.anyUser !== true)
    return { foreign: `its user authenticates by "${way}"`, certificate };
  const [server, serverName] = [cluster.fields['server'], cluster.fields['tls-server-name']];
  const authority = source(cluster.fields, 'certificate-authority');
  const insecure = cluster.fields[insecureFlag] === true;
  // client-go transport.TLSConfigFor: "specifying a root certificates file with the insecure flag is not allowed"
  const hasBoth = insecure && authority.kind !== 'none';
  return {
    server: typeof server === 'string' ? server : undefined,
    ...(typeof serverName === 'string' && serverName !== '' && { serverName }),
    user: user.path,
    cluster: cluster.path,
    certificate,
    key: source(user.fields, 'client-key'),
    authority,
    insecure,
    conflict: hasBoth ? `its cluster has a CA and ${insecureFlag}, and no component loads both` : undefined,
  };
}

/** Returns values of a field in a text that may be no YAML. Linear: a field begins a word. */
function whole(text: string, field: string): readonly string[] {
  const values = new RegExp(`(?<![^\\s"',{])${field}["']?[ \\t]*:[ \\t]*["']?([^\\s"',}]+)["']?[ \\t]*[\\n,}]`, 'g');
  return [...text.matchAll(values)].flatMap(([, value]) => value ?? []);
}

/** Whether a text without readable contexts names a server, none of this machine's, and a foreign CA. */
export function isTornOfOthers(text: string, known: KnownServers): boolean {
  if (known.issued === undefined) return false;
  const servers = whole(text, 'server');
  if (servers.length === 0 || servers.some((server) => isHere(server, known))) return false;
  const data = (field: string): readonly Buffer[] => whole(text, field).flatMap((one) => decoded(one) ?? []);
  const verdicts = [
    ...data('certificate-authority-data').map((pem) => known.issued?.authority(pem)),
    ...data('client-certificate-data').map((pem) => known.issued?.certificate(pem)),
  ];
  return verdicts.includes(false) && !verdicts.includes(true);
}

/** Why Go's YAML reader refuses the bytes as text: decoded, damage would look like part of a value. */
export function textDamage(bytes: Uint8Array): string | undefined {
  if (!isYamlText(bytes)) return 'it is not UTF-8';
  // oxlint-disable-next-line no-control-regex -- searched on purpose
  const isControl = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/;
  return isControl.test(yamlText(bytes)) ? 'it holds control characters' : undefined;
}

export const isSet = (value: unknown): boolean => value !== undefined && value !== null && value !== '';

function sourceOf(directory: string, fields: KubeconfigFields, name: string): Source {
  const data = fields[`${name}-data`];
  if (isSet(data)) return { kind: 'data', bytes: typeof data === 'string' ? decoded(data) : undefined };
  const file = fields[name];
  return typeof file === 'string' && file !== '' ? { kind: 'file', file: resolve(directory, file) } : { kind: 'none' };
}

const decoded = (data: string): Buffer | undefined => (isBase64(data) ? Buffer.from(data, 'base64') : undefined);

/** The mapping of a named item: `users[2].user`. */
interface NamedFields {
  readonly path: readonly (string | number)[];
  readonly fields: KubeconfigFields;
}

interface OwnContext {
  readonly name: string;
  readonly user: NamedFields;
  readonly cluster: NamedFields;
}

/** `foreign`: it is sound, and all of it another cluster's. `stranger`: the user of its current context. */
type ContextChoice =
  OwnContext | { readonly problem: string } | { readonly foreign: string; readonly stranger: NamedFields };

interface Context extends OwnContext {
  readonly clusterName: string;
  readonly userName: string;
}

/** Returns this machine's own context. `config`: the value of a kubeconfig. Never throws. */
export function ownContext(config: unknown, known: KnownServers): ContextChoice {
  if (!isMapping(config)) return { problem: 'it is not a mapping with clusters, users, contexts and current-context' };
  const present = config['current-context'];
  if (typeof present !== 'string' || present === '') return { problem: 'it has no current-context' };
  const current = contextOf(config, present);
  if (typeof current === 'string') return { problem: current };
  const own = evidentContext(config, known, present);
  // Without a server it is damaged, and not another cluster's.
  const { cluster, clusterName } = own ?? current;
  const { server } = cluster.fields;
  if (typeof server !== 'string' || server === '') return { problem: `its cluster "${clusterName}" has no server` };
  if (own !== undefined) return own;
  if (known.controlPlane === undefined && known.local === undefined) return current;
  return { foreign: `its current context "${present}" is that of another cluster`, stranger: current.user };
}

/** Returns the name of the context that rules 1 and 2 give, whatever the current one is. */
export function evidentContextName(config: unknown, known: KnownServers): string | undefined {
  return isMapping(config) ? evidentContext(config, known)?.name : undefined;
}

function evidentContext(config: KubeconfigFields, known: KnownServers, present?: string): Context | undefined {
  const contexts = listOf(config, 'context').flatMap(({ name }): Context[] => {
    const context = typeof name === 'string' ? contextOf(config, name) : '';
    return typeof context === 'string' ? [] : [context];
  });
  const isIssued = (one: Context): boolean => issuedHere(one, known) === true;
  for (const isOurs of [(one: Context) => pointsHere(one, known), isIssued, hasKubeadmsCluster, hasKubeadmsName]) {
    const ours = contexts.filter((one) => isOurs(one) && (issuedHere(one, known) !== false || pointsHere(one, known)));
    // a context of another kubeadm cluster has the same names
    if (isOurs === hasKubeadmsName && new Set(ours.map((one) => one.clusterName)).size > 1) break;
    const own = ours.find(({ name }) => name === present) ?? ours.find(hasKubeadmsName) ?? ours[0];
    if (own !== undefined) return own;
  }
  return undefined;
}

/** Returns the context, or its problem. */
function contextOf(config: KubeconfigFields, name: string): Context | string {
  const context = entryOf(config, 'context', name);
  if (context === undefined) return `it has no context named "${name}"`;
  const { user: userName, cluster: clusterName } = context.fields;
  const user = entryOf(config, 'user', userName);
  if (user === undefined) return 'it has no user with the name that its current context gives';
  const cluster = entryOf(config, 'cluster', clusterName);
  if (cluster === undefined) return 'it has no cluster with the name that its current context gives';
  return { name, user, cluster, userName: String(userName), clusterName: String(clusterName) };
}

type Kind = 'cluster' | 'user' | 'context';

const listOf = (config: KubeconfigFields, kind: Kind): readonly KubeconfigFields[] => {
  const list = config[`${kind}s`];
  return Array.isArray(list) ? list.map((item: unknown) => (isMapping(item) ? item : {})) : [];
};

export function entryOf(config: KubeconfigFields, kind: Kind, name: unknown): NamedFields | undefined {
  if (typeof name !== 'string') return undefined;
  const list = listOf(config, kind);
  const index = list.findIndex((item) => item['name'] === name);
  const item = list[index];
  if (item === undefined) return undefined;
  const fields = item[kind];
  return { path: [`${kind}s`, index, kind], fields: isMapping(fields) ? fields : {} };
}

/** Whether our CAs issued it; undefined where nothing can be read, or only a foreign CA: a load balancer's. */
function issuedHere({ user, cluster }: Context, { issued }: KnownServers): boolean | undefined {
  const data = ({ fields }: NamedFields, name: string): Buffer | undefined =>
    typeof fields[name] === 'string' ? decoded(fields[name]) : undefined;
  const [certificate, authority] = [data(user, 'client-certificate-data'), data(cluster, 'certificate-authority-data')];
  if (authority !== undefined && issued?.authority(authority) === true) return true;
  return certificate && issued?.certificate(certificate);
}

const pointsHere = ({ cluster }: Context, known: KnownServers): boolean => isHere(cluster.fields['server'], known);

const hasKubeadmsCluster = ({ clusterName }: Context): boolean => clusterName === 'kubernetes';

const kubeadmsUser = /^(kubernetes(-super)?-admin|system:(kube-controller-manager|kube-scheduler|node:.+))$/;

const hasKubeadmsName = ({ name, userName, clusterName }: Context): boolean =>
  (name === `${userName}@${clusterName}` && kubeadmsUser.test(userName)) ||
  (name === 'default-context' && userName === 'default-auth');

interface OnlyEntries {
  readonly cluster: KubeconfigFields | undefined;
  readonly user: KubeconfigFields | undefined;
}

/** Returns the only cluster and the only user; undefined where there is none, or the document is no kubeconfig. */
export function onlyEntries(bytes: Uint8Array): OnlyEntries {
  const config = yamlMapping(yamlText(bytes)) ?? {};
  const only = (kind: Kind): KubeconfigFields | undefined => {
    const value = listOf(config, kind)[0]?.[kind];
    return isMapping(value) ? value : undefined;
  };
  return { cluster: only('cluster'), user: only('user') };
}
