// Names and addresses by which pods and components know the API server and Services. The holder of a serving
// certificate for one of them, signed by the cluster's CA, is the API server to every client that trusts that CA. So no
// node gets one, whatever a source of `approver.addresses`, or several of them together, answers. Pure.
import { isIP } from 'node:net';
import { inRanges } from '../config/address-settings.ts';
import { dnsNameCovers } from '../pki/names.ts';
import { controlPlaneLabel, defaultRecoveryServerName } from '../well-known.ts';
import type { AskedName } from './serving-request.ts';

/** Names of the cluster, from the cluster itself. */
export interface ClusterNames {
  /** Canonical names, wildcards and addresses of the certificates that kube-apiserver serves. */
  readonly served: ReadonlySet<string>;
  /** Ranges of the addresses of Services. */
  readonly serviceRanges: readonly string[];
  /** Requested names by which pods reach an existing Service (`serviceNameOf`). */
  readonly services: ReadonlySet<string>;
}

/**
 * Unspecified, loopback, link-local (clouds' metadata services), multicast, reserved; IPv4 addresses embedded in IPv6:
 * compatible and translated ones (RFC 4291, 2765), NAT64 (RFC 6052, 8215), Teredo (RFC 4380), 6to4 (RFC 3056).
 */
const isOfNoMachine = inRanges([
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/3',
  '::/96',
  '::ffff:0:0:0/96',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '2001::/32',
  '2002::/16',
  'fe80::/10',
  'ff00::/8',
]);

const apiServices = ['kubernetes', 'openshift'];
const usualDomain = 'cluster.local';

const isBelow = (name: string, domain: string): boolean => name === domain || name.endsWith(`.${domain}`);

/** Names of every cluster: its API server, its Services, the machine itself. */
function isFixed(name: string, domains: readonly string[]): boolean {
  return (
    apiServices.some((service) => name === service || name === `${service}.default`) ||
    /\.svc(?:\.|$)|\.pod$/.test(name) ||
    [defaultRecoveryServerName, ...domains].some((domain) => isBelow(name, domain)) ||
    // RFC 6761, /etc/hosts of Debian and of Fedora.
    /^localhost[46]?(?:\.|$)|(?:^|\.)local(?:host|domain)[46]?$|(?:^|\.)ip6-[a-z]+$/.test(name)
  );
}

/** `kubernetes.default.svc.DOMAIN` is in the certificate of each API server (kubeadm, OpenShift, RKE2 alike). */
const domainsOf = ({ served }: ClusterNames): readonly string[] => [
  usualDomain,
  ...[...served].flatMap((name) => /^kubernetes\.default\.svc\.(.+)$/.exec(name)?.[1] ?? []),
];

/**
 * Whether the name of a node, as in its client certificate, is a name by which clients of every cluster know the API
 * server, Services or the machine itself.
 */
export const isClusterName = (name: string): boolean => isFixed(name, [usualDomain]);

/**
 * Short forms in which pods of any namespace address a Service, and a pod of a headless one: `NAME.NAMESPACE`,
 * `POD.NAME.NAMESPACE`.
 */
export function serviceNameOf({ kind, value }: AskedName): { namespace: string; name: string } | undefined {
  const labels = value.split('.');
  if (kind !== 'DNS' || (labels.length !== 2 && labels.length !== 3)) return undefined;
  const [name = '', namespace = ''] = labels.slice(-2);
  return { namespace, name };
}

/** The name of a node as one that it requests. */
export const nodeName = (node: string): AskedName => ({ kind: isIP(node) === 0 ? 'DNS' : 'IP', value: node });

/** Whether it is a name of one label that is not the node's: pods call a Service of their own namespace by one. */
const isWordOfOthers = (name: string, node: string): boolean =>
  !name.includes('.') && name !== node && name !== node.split('.')[0];

interface Asking {
  readonly node: string;
  readonly asked: readonly AskedName[];
  /** An API server runs there: the names of its machine are in the API server's certificate, too. */
  readonly isControlPlane: boolean;
  /** Names that the administrator has listed for this node by hand. */
  readonly listed?: ReadonlySet<string>;
  readonly cluster: ClusterNames;
}

/** Requested names that no node may have, and the node's own if it is one, each with its owner. */
export function clusterNamesIn({ node, asked, isControlPlane, listed, cluster }: Asking): readonly string[] {
  const domains = domainsOf(cluster);
  const isServed = ({ kind, value }: AskedName): boolean =>
    cluster.served.has(value) || (kind === 'DNS' && [...cluster.served].some((one) => dnsNameCovers(one, value)));
  const named = asked.some(({ value }) => value === node) ? asked : [...asked, nodeName(node)];
  return named.flatMap(({ kind, value }) => {
    const owner =
      kind === 'IP'
        ? ownerOfAddress(value, cluster)
        : isFixed(value, domains)
          ? 'the API server or Services'
          : undefined;
    const found =
      owner ??
      (cluster.services.has(value) ? 'a Service' : undefined) ??
      (kind === 'DNS' && isWordOfOthers(value, node) && listed?.has(value) !== true
        ? 'whatever Service has it in a namespace (of the node, where a list in approver.addresses has it)'
        : undefined) ??
      (!isControlPlane && listed?.has(value) !== true && isServed({ kind, value })
        ? `the API server, by the certificate that it serves (of its own machine, where the Node has the label ${controlPlaneLabel} or a list in approver.addresses has it)`
        : undefined);
    return found === undefined ? [] : [`${kind}:${value} is of ${found}`];
  });
}

function ownerOfAddress(ip: string, { serviceRanges }: ClusterNames): string | undefined {
  if (isOfNoMachine(ip)) return 'no machine alone';
  return inRanges(serviceRanges)(ip) ? 'Services' : undefined;
}
