// Which context of a kubeconfig is this machine's own. `kind create cluster`, `kubectl config use-context` and merged
// files leave the current context with another cluster, whose user and CA must never be replaced by ours. Pure.
//   1. the server is one that is known for this machine
//   2. else kubeadm's name for its cluster, else its names of users and contexts, or the kubelet's
//      (kubernetes/kubernetes cmd/kubeadm/app/util/kubeconfig, pkg/kubelet/certificate/bootstrap)
//   3. else the current context where no server is known, and none where one is
// Where several answer alike, the current context counts.

type Fields = Readonly<Record<string, unknown>>;

/** The mapping of a named item: `users[2].user`. */
export interface NamedFields {
  readonly path: readonly (string | number)[];
  readonly fields: Fields;
}

export interface OwnContext {
  readonly name: string;
  readonly user: NamedFields;
  readonly cluster: NamedFields;
}

/** `foreign`: it is sound, and all of it another cluster's. */
export type ContextChoice = OwnContext | { readonly problem: string } | { readonly foreign: string };

/** URLs of this machine's API server, as far as they are known. */
export interface KnownServers {
  readonly controlPlane?: string;
  readonly local?: string;
}

interface Context extends OwnContext {
  readonly clusterName: string;
  readonly userName: string;
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** `config`: the value of a kubeconfig. Never throws. */
export function ownContext(config: unknown, known: KnownServers): ContextChoice {
  if (!isFields(config)) return { problem: 'it is not a mapping with clusters, users, contexts and current-context' };
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
  return { foreign: `its current context "${present}" is that of another cluster` };
}

/** The name of the context that rules 1 and 2 give, whatever the current one is. */
export function evidentContextName(config: unknown, known: KnownServers): string | undefined {
  return isFields(config) ? evidentContext(config, known)?.name : undefined;
}

function evidentContext(config: Fields, known: KnownServers, present?: string): Context | undefined {
  const contexts = listOf(config, 'context').flatMap(({ name }): Context[] => {
    const context = typeof name === 'string' ? contextOf(config, name) : '';
    return typeof context === 'string' ? [] : [context];
  });
  for (const isOurs of [(one: Context) => pointsHere(one, known), hasKubeadmsCluster, hasKubeadmsName]) {
    const ours = contexts.filter(isOurs);
    // by its names alone another kubeadm's is like ours
    if (isOurs === hasKubeadmsName && new Set(ours.map((one) => one.clusterName)).size > 1) break;
    const own = ours.find(({ name }) => name === present) ?? ours.find(hasKubeadmsName) ?? ours[0];
    if (own !== undefined) return own;
  }
  return undefined;
}

/** Or what is wrong with it. */
function contextOf(config: Fields, name: string): Context | string {
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

const listOf = (config: Fields, kind: Kind): readonly Fields[] => {
  const list = config[`${kind}s`];
  return Array.isArray(list) ? list.map((item: unknown) => (isFields(item) ? item : {})) : [];
};

function entryOf(config: Fields, kind: Kind, name: unknown): NamedFields | undefined {
  if (typeof name !== 'string') return undefined;
  const list = listOf(config, kind);
  const index = list.findIndex((item) => item['name'] === name);
  const item = list[index];
  if (item === undefined) return undefined;
  const fields = item[kind];
  return { path: [`${kind}s`, index, kind], fields: isFields(fields) ? fields : {} };
}

function pointsHere({ cluster }: Context, { controlPlane, local }: KnownServers): boolean {
  const server = urlOf(cluster.fields['server']);
  if (server === undefined) return false;
  const isLoopback = /^(127\.|localhost$|\[::1\]$)/.test(server.hostname);
  const own = urlOf(local);
  return (
    own?.host === server.host || urlOf(controlPlane)?.host === server.host || (isLoopback && own?.port === server.port)
  );
}

const urlOf = (text: unknown): URL | undefined =>
  typeof text === 'string' ? (URL.parse(text) ?? undefined) : undefined;

const hasKubeadmsCluster = ({ clusterName }: Context): boolean => clusterName === 'kubernetes';

const kubeadmsUser = /^(kubernetes(-super)?-admin|system:(kube-controller-manager|kube-scheduler|node:.+))$/;

const hasKubeadmsName = ({ name, userName, clusterName }: Context): boolean =>
  (name === `${userName}@${clusterName}` && kubeadmsUser.test(userName)) ||
  (name === 'default-context' && userName === 'default-auth');
