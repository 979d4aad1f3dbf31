// What servers of the cluster show: the kubelet of each Node, and each API server. Impure: it asks the API for their
// addresses, and makes a handshake with each, in which nothing is sent.
import { type Address, addressText } from '../address.ts';
import { type Clock, steadyMs } from '../clock.ts';
import { errorText, systemCode } from '../errors.ts';
import { list, type ListOptions } from '../kube/list.ts';
import { getIfPresent } from '../kube/objects.ts';
import type { EndpointSlice, NodeObject } from '../kube/received.ts';
import { collectionPath, resourcePath } from '../kube/resources.ts';
import { servedChain } from '../proof/served.ts';
import { namesMet } from './met-names.ts';
import { fileNamed, type FileHere, type ServerMet, type TrustFacts, valuesOf } from './trust-facts.ts';

export interface ServerRequest extends Pick<ListOptions<never, never>, 'connection' | 'signal'> {
  readonly clock: Clock;
}

type Asked = ServerMet & Address;

const kas = 'kube-apiserver';
/** As kube-apiserver has it by default (cmd/kube-apiserver/app/options). */
const usualTypes = 'Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP';

/** Those that kube-apiserver of this machine verifies, at the address that it takes. Throws errors of the API. */
export async function kubelets(facts: TrustFacts, { connection, signal }: ServerRequest): Promise<readonly Asked[]> {
  if (fileNamed(facts, { component: kas, flag: 'kubelet-certificate-authority' }).value === undefined) return [];
  const types = valuesOf(facts, { component: kas, flag: 'kubelet-preferred-address-types' }).at(-1) ?? usualTypes;
  const keep = ({ metadata, status }: NodeObject): Asked | undefined => {
    const all = types.split(',').flatMap((type) => status?.addresses?.filter((one) => one.type === type) ?? []);
    const host = all[0]?.address;
    if (host === undefined) return undefined;
    const at = { host, port: status?.daemonEndpoints?.kubeletEndpoint?.Port ?? 10_250 };
    return { ...at, id: 'R3', name: `kubelet of Node "${metadata?.name ?? ''}" at ${addressText(at)}`, hostname: host };
  };
  const path = collectionPath('Node');
  return (await list<NodeObject, Asked>({ connection, signal, path, pages: { size: 100, keep } })).objects;
}

/** Each by the names that Pods know it by: it may have a certificate for each. Throws errors of the API. */
export async function apiServers(facts: TrustFacts, request: ServerRequest): Promise<readonly Asked[]> {
  const path = resourcePath('EndpointSlice', { namespace: 'default', name: 'kubernetes' });
  const slice = await getIfPresent<EndpointSlice>(request, path);
  const port = slice?.ports?.[0]?.port ?? 6443;
  return (slice?.endpoints ?? []).flatMap(({ addresses = [] }) =>
    addresses.flatMap((host) =>
      namesMet('inCluster', facts).map((hostname): Asked => {
        const name = `${kas} at ${addressText({ host, port })} as ${hostname}`;
        return { id: 'R8', name, hostname, host, port };
      }),
    ),
  );
}

const timeoutMs = 3000;
const atATime = 20;
/** For all together. Those that answer take milliseconds. */
const longestMs = 60_000;

/** Returns PEM by the name of the server, leaf first. Never throws. */
export async function meetAll(
  servers: readonly Asked[],
  { clock, signal }: Pick<ServerRequest, 'clock' | 'signal'>,
): Promise<TrustFacts['files']> {
  const until = steadyMs(clock) + longestMs;
  const meet = async ({ name, hostname: serverName, ...at }: Asked): Promise<readonly [string, FileHere]> => {
    if (steadyMs(clock) >= until) return [name, { unread: 'is not verified: others were too slow' }];
    try {
      return [name, { bytes: Buffer.from(await servedChain({ ...at, serverName, timeoutMs, clock, signal })) }];
    } catch (err) {
      return [name, { unread: `is not verified: no answer (${errorText(err) || systemCode(err)})` }];
    }
  };
  const files: (readonly [string, FileHere])[] = [];
  for (let from = 0; from < servers.length; from += atATime)
    files.push(...(await Promise.all(servers.slice(from, from + atATime).map(meet))));
  return new Map(files);
}
