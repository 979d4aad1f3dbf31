// Names of an OpenShift cluster, which only its API has: the hosts of its load balancers, from Infrastructure
// "cluster", and the address of the API server's own service in each network, from Network "cluster"
// (openshift/cluster-kube-apiserver-operator pkg/operator/certrotationcontroller; types: openshift/api config/v1). They
// may change while the process runs, so they are read in each pass. Reading is impure; parsing is pure.
import { errorText, isCode } from '../../errors.ts';
import { isMapping } from '../../yaml.ts';
import type { KubeConnection } from '../../kube/kube.ts';
import { bareHost } from '../../address.ts';
import { checkedHostname } from '../values.ts';
import type { NamesInApi, ParameterValue } from '../names-in-api.ts';
import { firstServiceIp } from './service-range.ts';

/** An object from the API, or why it could not be read. */
export type Sight = { readonly object: unknown } | { readonly problem: string; readonly isUnread: boolean };

const group = '/apis/config.openshift.io/v1';
/** The objects that are read, for RBAC. */
export const openshiftObjects = {
  group: 'config.openshift.io',
  resources: ['infrastructures', 'networks'],
  name: 'cluster',
};
const infrastructureText = 'Infrastructure "cluster" (config.openshift.io)';
const networkText = 'Network "cluster" (config.openshift.io)';

/** Reads the names. Never throws because of the API's answer: that is a reason why names are not known. */
export async function readNamesInApi(connection: KubeConnection, signal: AbortSignal): Promise<NamesInApi> {
  const read = async (resource: string, what: string): Promise<Sight> => {
    try {
      const path = `${group}/${resource}/${openshiftObjects.name}`;
      return { object: await connection.request({ method: 'GET', path, timeoutMs: 3000, longestMs: 12_000, signal }) };
    } catch (err) {
      if (isCode(err, 'KubeNotFound')) return { problem: `${what} does not exist`, isUnread: false };
      return { problem: `${what} could not be read: ${errorText(err)}`, isUnread: true };
    }
  };
  const [infrastructure, network] = await Promise.all([
    read('infrastructures', infrastructureText),
    read('networks', networkText),
  ]);
  return namesOf(infrastructure, network);
}

export function namesOf(infrastructure: Sight, network: Sight): NamesInApi {
  const external = serverOf(infrastructure, 'apiServerURL');
  const internal = serverOf(infrastructure, 'apiServerInternalURI');
  const [externalLoadBalancerHostnames, internalLoadBalancerHostnames] = [external, internal].map((server) =>
    'host' in server ? { values: [server.host] } : server,
  ) as [ParameterValue, ParameterValue];
  return {
    parameters: {
      externalLoadBalancerHostnames,
      internalLoadBalancerHostnames,
      serviceNetworkIPs: serviceIps(network),
    },
    endpoints: {
      ...('url' in external && { controlPlane: external.url }),
      ...('url' in internal && { internal: internal.url }),
    },
    unread: [infrastructure, network].filter((sight) => 'problem' in sight && sight.isUnread).length,
  };
}

function statusOf(sight: Sight): { readonly status: Readonly<Record<string, unknown>> } | { readonly problem: string } {
  if ('problem' in sight) return { problem: sight.problem };
  const { status } = (sight.object ?? {}) as { readonly status?: unknown };
  return { status: isMapping(status) ? status : {} };
}

function serverOf(
  sight: Sight,
  field: 'apiServerURL' | 'apiServerInternalURI',
): { readonly url: string; readonly host: string } | { readonly problem: string } {
  const read = statusOf(sight);
  if ('problem' in read) return read;
  const url = read.status[field];
  if (typeof url !== 'string' || url === '') return { problem: `${infrastructureText} has no status.${field}` };
  const host = isPlain(url) ? checkedHostname(bareHost(new URL(url))) : undefined;
  if (host !== undefined && !host.startsWith('*')) return { url, host };
  const text = JSON.stringify(url);
  return {
    problem: `${infrastructureText} status.${field} names no host, or is no address like "https://host:6443": ${text}`,
  };
}

/** Whether a URL is in plain form: URL parsers normalise it, each in its own way; kubeconfigs get it to the letter. */
function isPlain(url: string): boolean {
  const read = URL.parse(url);
  if (read?.protocol !== 'https:' || read.username !== '' || read.password !== '') return false;
  const plain = (text: string): string => text.replace(/\/$/, '').replace(/:443$/, '').toLowerCase();
  return plain(read.href) === plain(url);
}

/** Every network must be parsed: half of the addresses would remove names from the present certificates. */
function serviceIps(sight: Sight): ParameterValue {
  const read = statusOf(sight);
  if ('problem' in read) return read;
  const { serviceNetwork } = read.status;
  const field = `${networkText} status.serviceNetwork`;
  if (!Array.isArray(serviceNetwork) || serviceNetwork.length === 0) return { problem: `${field} has no entry` };
  const addresses = serviceNetwork.map((range) => (typeof range === 'string' ? firstServiceIp(range) : undefined));
  const at = addresses.indexOf(undefined);
  if (at >= 0) return { problem: `${field} has an entry that is no network: ${JSON.stringify(serviceNetwork[at])}` };
  return { values: addresses.filter((address) => address !== undefined) };
}
