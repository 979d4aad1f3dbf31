// Files of a kubeadm control plane -> parameters of its inventory. Pure. Every source may be missing or garbage: then
// the next one counts, finally kubeadm's own default. The administrator's values beat all of them. Sources of each
// value, best first:
//
//   nodeName            the kubelet's certificate where one of these has the same name: --hostname-override, etcd's
//                       --name, the host name of the machine; else these, in this order
//   advertiseAddress    kube-apiserver --advertise-address, etcd's URLs, kubeconfigs' servers and present certificates
//                       (address-witnesses.ts), the only address of the machine
//   serviceIP           kube-apiserver --service-cluster-ip-range, else 10.96.0.0/12
//   clusterServiceNames the kubelet's clusterDomain, the issuer of service-account tokens, else cluster.local
//   apiServerHostnames  the host of the control-plane endpoint, which kubeconfigs name
//   stackedEtcd, else externalEtcd: the manifest of etcd, kube-apiserver --etcd-servers and --etcd-cafile, etcd's CA
import { isIP } from 'node:net';
import { bareHost, isLoopbackHost } from '../../address.ts';
import type { KnownServers } from '../../kubeconfig/known-servers.ts';
import { issuedHere } from '../../pki/issued-here.ts';
import { checkedHostname } from '../values.ts';
import type { Endpoints, Feature, Parameters } from '../model.ts';
import type { Environment } from '../resolve.ts';
import type { ValuesByFlag } from './component-settings.ts';
import { type AddressWitnesses, witnessedAddresses, witnessedPort } from './address-witnesses.ts';
import {
  clusterDomainOf,
  commonNameOf,
  flagInEnv,
  flagsOf,
  kubeconfigOf,
  kubeletConfigurationOf,
  minorVersionOf,
} from './documents.ts';
import { firstServiceIp } from './service-range.ts';
import { nodePrefix } from '../../well-known.ts';

/** The texts of files; undefined where there is none. */
export interface KubeadmFiles {
  readonly apiServerManifest?: string | undefined;
  readonly etcdManifest?: string | undefined;
  readonly kubeletConfiguration?: string | undefined;
  readonly kubeletFlags?: string | undefined;
  /** kubelet-client-current.pem. */
  readonly kubeletCertificate?: string | undefined;
  readonly kubeletKubeconfig?: string | undefined;
  readonly adminKubeconfig?: string | undefined;
  /** Other kubeconfigs, which name the endpoint of the cluster in older versions. */
  readonly otherKubeconfigs?: readonly (string | undefined)[];
  readonly superAdminKubeconfig?: string | undefined;
  readonly hostname?: string | undefined;
  /** The name that the machine has at each boot (/etc/hostname). */
  readonly staticHostname?: string | undefined;
  /** The CAs by which the API server verifies its clients. */
  readonly authorities?: string | undefined;
  readonly apiServerCertificate?: string | undefined;
  /** Serving and peer certificates of etcd. */
  readonly etcdCertificates?: readonly (string | undefined)[];
}

export interface KubeadmSight {
  readonly files: KubeadmFiles;
  /** Path at which kubeadm has the CA of an etcd that it made, and whether that exists. */
  readonly etcdAuthority: string;
  readonly hasEtcdAuthority: boolean;
  /** Address of the interface with the default route. */
  readonly address?: string | undefined;
  /** All present addresses of this machine. */
  readonly ownAddresses?: readonly string[];
  /** Flags of the kubelet, from its unit. */
  readonly kubelet?: ValuesByFlag | undefined;
  /** Addresses among these by which other machines may reach it. */
  readonly candidates?: readonly string[];
}

export interface KubeadmFindings {
  readonly parameters: Parameters;
  readonly endpoints: Endpoints;
  readonly lacks: readonly Feature[];
  /** Why a parameter has no value, as the last part of a sentence. */
  readonly unknown: Readonly<Record<string, string>>;
  /** Files that could not be parsed, and their replacement. */
  readonly notes: readonly string[];
}

/** kubeadm's defaults (cmd/kubeadm/app/apis/kubeadm/v1beta4/defaults.go). */
const defaults = { serviceRange: '10.96.0.0/12', domain: 'cluster.local', port: 6443 } as const;

type Flags = ReadonlyMap<string, string>;

export function decideKubeadm(sight: KubeadmSight, given: Environment): KubeadmFindings {
  const { files, ownAddresses = [] } = sight;
  const apiServer: Flags = flagsOf(files.apiServerManifest ?? '') ?? new Map<string, string>();
  const etcd: Flags = flagsOf(files.etcdManifest ?? '') ?? new Map<string, string>();
  const asked = given.parameters ?? {};

  const nodeName = first(asked['nodeName'], nodeNames(sight, etcd));
  const kubeconfigs = kubeconfigsIn(files);
  const witnessed = witnessedAddresses(witnessesIn(files, ownAddresses));
  const addresses = [...advertisedAddresses(apiServer, etcd), ...witnessed, guessedAddress(sight)].filter(isAddress);
  const advertised = first(asked['advertiseAddress'], addresses);
  const port = apiServer.get('secure-port') ?? witnessedPort(kubeconfigs, advertised ?? '');
  const local = given.endpoints?.local ?? urlOf(advertised, port);
  const issued = issuedHere(files.authorities);
  const known = { ...given.endpoints, ...(local !== undefined && { local }), issued };
  const server = first(given.endpoints?.controlPlane, servers(files, advertised, known));
  const range =
    firstServiceIp(apiServer.get('service-cluster-ip-range') ?? '') ?? firstServiceIp(defaults.serviceRange);
  const domain = first(undefined, domains(files, apiServer));
  const controlPlane = server ?? local;
  const host = server === undefined ? undefined : hostOf(server);

  const found = {
    nodeName: named(nodeName),
    advertiseAddress: named(advertised),
    serviceIP: named(range),
    clusterServiceNames: named(`kubernetes.default.svc.${domain ?? defaults.domain}`),
    apiServerHostnames: host === advertised ? [] : named(host),
  };
  return {
    parameters: { ...found, ...asked },
    endpoints: {
      ...(controlPlane !== undefined && { controlPlane }),
      ...(local !== undefined && { local }),
      ...(issued !== undefined && { authorities: files.authorities ?? '' }),
    },
    lacks: given.lacks ?? [
      isStacked({ ...sight, apiServer, advertised }) ? 'externalEtcd' : 'stackedEtcd',
      ...(isBeforeClusterAdmins(files) ? (['clusterAdmins'] as const) : []),
    ],
    unknown: advertised === undefined ? { advertiseAddress: addressUnknown(sight) } : {},
    notes: notesOf(files),
  };
}

/** Returns an address unless there are several: every component would refuse a certificate with a wrong one. */
const guessedAddress = ({ address, candidates = [] }: KubeadmSight): string | undefined =>
  candidates.length > 1 ? undefined : (candidates[0] ?? address);

function addressUnknown({ candidates = [] }: KubeadmSight): string {
  const wanted = 'give it by --parameter advertiseAddress=ADDRESS';
  if (candidates.length === 0)
    return `no file names the address of the API server, and this machine has none; ${wanted}`;
  return `no file says which address of this machine is the API server's: ${candidates.join(', ')}; ${wanted}`;
}

/**
 * kubeadm has bound the group since 1.29, and makes super-admin.conf since then (cmd/kubeadm/app/phases/kubeconfig:
 * EnsureAdminClusterRoleBinding). A version that cannot be read counts as a newer one.
 */
function isBeforeClusterAdmins({ apiServerManifest = '', superAdminKubeconfig }: KubeadmFiles): boolean {
  if (superAdminKubeconfig !== undefined) return false;
  const minor = minorVersionOf(apiServerManifest, 'kube-apiserver');
  return minor !== undefined && minor < 29;
}

/** Returns the given name, else the first that is a host name or an address, in its one spelling. */
function first(
  given: readonly string[] | string | undefined,
  found: readonly (string | undefined)[],
): string | undefined {
  if (typeof given === 'string') return given;
  return given?.[0] ?? found.find((text) => text !== undefined && isUsable(text));
}

const isUsable = (text: string): boolean =>
  /^https?:\/\//.test(text) ? hostOf(text) !== undefined : checkedHostname(text) !== undefined;
const isAddress = (text: string | undefined): boolean => text !== undefined && isIP(text) !== 0;

function named(text: string | undefined): readonly string[] {
  const name = text === undefined ? undefined : checkedHostname(text);
  return name === undefined ? [] : [name];
}

/**
 * Returns candidates for the node name. The name in the kubelet's credentials counts unless all sources for this
 * machine have another one: then the credentials are another node's, and the kubelet is refused with them
 * (plugin/pkg/admission/noderestriction).
 */
function nodeNames({ files, kubelet }: KubeadmSight, etcd: Flags): readonly (string | undefined)[] {
  const { kubeletCertificate, kubeletKubeconfig, kubeletFlags = '', hostname, staticHostname } = files;
  const [identity] = [commonNameOf(kubeletCertificate), kubeconfigOf(kubeletKubeconfig ?? '')?.commonName].flatMap(
    (name) => (name?.startsWith(nodePrefix) === true ? name.slice(nodePrefix.length) : []),
  );
  const flag = (name: string): string | undefined => kubelet?.get(name)?.at(-1) ?? flagInEnv(kubeletFlags, name);
  // kubeadm names the member of etcd after its node.
  const told = [flag('hostname-override'), etcd.get('name')];
  const present = nameOfHost(hostname);
  // A network may have given it another name, or none yet. Cloud providers within the kubelet have names of their own.
  const isSettled = present !== undefined && present === nameOfHost(staticHostname) && !present.startsWith('localhost');
  const isNamedByCloud = !['', 'external'].includes(flag('cloud-provider') ?? '');
  const witnesses = [...told, isSettled && !isNamedByCloud ? present : undefined].filter((name) => name !== undefined);
  const isOfOther = witnesses.length > 0 && identity !== undefined && ![...witnesses, present].includes(identity);
  return isOfOther ? witnesses : [identity, ...told, present];
}

/** Normalises a host name like the kubelet (pkg/util/node, GetHostname). */
function nameOfHost(text: string | undefined): string | undefined {
  const name = text?.trim().toLowerCase();
  return name === '' ? undefined : name;
}

/** Kubeconfigs, the components' own first: they name this machine. */
const kubeconfigsIn = (files: KubeadmFiles): readonly (string | undefined)[] => [
  ...(files.otherKubeconfigs ?? []).toReversed(),
  files.kubeletKubeconfig,
  files.adminKubeconfig,
];

export const witnessesIn = (files: KubeadmFiles, own: readonly string[]): AddressWitnesses => ({
  kubeconfigs: kubeconfigsIn(files),
  etcdCertificates: files.etcdCertificates ?? [],
  apiServerCertificate: files.apiServerCertificate,
  own,
});

function advertisedAddresses(apiServer: Flags, etcd: Flags): readonly (string | undefined)[] {
  const urls = ['advertise-client-urls', 'initial-advertise-peer-urls', 'listen-peer-urls', 'listen-client-urls']
    .flatMap((flag) => (etcd.get(flag) ?? '').split(','))
    .map((url) => hostOf(url));
  const ours = urls.filter(
    (host) => host !== undefined && !isLoopbackHost(host) && host !== '0.0.0.0' && host !== '::',
  );
  return [apiServer.get('advertise-address'), ...ours];
}

/**
 * Returns the URLs of the API server in kubeconfigs. People's kubeconfigs name the endpoint of the cluster, in older
 * versions all do; the rest name this machine alone (cmd/kubeadm/app/phases/kubeconfig/kubeconfig.go), which counts
 * only where none names another host.
 */
function servers(
  { kubeletKubeconfig, adminKubeconfig, otherKubeconfigs = [] }: KubeadmFiles,
  advertised: string | undefined,
  known: KnownServers,
): readonly (string | undefined)[] {
  const all = [adminKubeconfig, kubeletKubeconfig, ...otherKubeconfigs].map(
    (yaml) => kubeconfigOf(yaml ?? '', known)?.server,
  );
  const elsewhere = all.filter((url) => url !== undefined && hostOf(url) !== advertised);
  return [...elsewhere, ...all];
}

function domains({ kubeletConfiguration }: KubeadmFiles, apiServer: Flags): readonly (string | undefined)[] {
  const issuer = hostOf(apiServer.get('service-account-issuer') ?? '');
  return [clusterDomainOf(kubeletConfiguration ?? ''), /^kubernetes\.default\.svc\.(.+)$/.exec(issuer ?? '')?.[1]];
}

interface EtcdSight extends KubeadmSight {
  readonly apiServer: Flags;
  readonly advertised: string | undefined;
}

/** Whether etcd is kubeadm's: an etcd on this host that another tool installed and certifies has its CA elsewhere. */
function isStacked({ files, apiServer, etcdAuthority, hasEtcdAuthority, advertised }: EtcdSight): boolean {
  if (files.etcdManifest !== undefined) return true;
  if (!hasEtcdAuthority && apiServer.get('etcd-cafile') !== etcdAuthority) return false;
  const asked = (apiServer.get('etcd-servers') ?? '').split(',').flatMap((url) => hostOf(url) ?? []);
  return asked.length === 0 || asked.some((host) => isLoopbackHost(host) || host === advertised);
}

function hostOf(url: string): string | undefined {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) return undefined;
  return checkedHostname(bareHost(new URL(url)));
}

function urlOf(host: string | undefined, port: string | undefined): string | undefined {
  if (host === undefined) return undefined;
  const digits = /^\d{1,5}$/.test(port ?? '') ? port : String(defaults.port);
  return `https://${isIP(host) === 6 ? `[${host}]` : host}:${digits}`;
}

function notesOf(files: KubeadmFiles): readonly string[] {
  const { apiServerManifest, etcdManifest, kubeletConfiguration, kubeletKubeconfig, adminKubeconfig } = files;
  const told = (
    what: string,
    text: string | undefined,
    read: (text: string) => unknown,
    ifAbsent?: 'absent',
  ): string[] => {
    const problem = text === undefined ? ifAbsent : read(text) === undefined ? 'not what it should be' : undefined;
    return problem === undefined ? [] : [`${what} is ${problem}; other files and kubeadm's defaults take its place`];
  };
  return [
    ...told('the manifest of kube-apiserver', apiServerManifest, flagsOf, 'absent'),
    ...told('the manifest of etcd', etcdManifest, flagsOf),
    ...told('the configuration of the kubelet', kubeletConfiguration, kubeletConfigurationOf, 'absent'),
    ...told('kubelet.conf', kubeletKubeconfig, kubeconfigOf),
    ...told('admin.conf', adminKubeconfig, kubeconfigOf),
  ];
}
