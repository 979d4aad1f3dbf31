// The command-line flags and kubeconfigs with which the components of an upstream control plane read what the syncer
// writes. Pure.
// A flag whose artefact is not in the inventory is left out, so an inventory may cover a part of the control plane.
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../store/store.ts';
import { toYaml } from '../yaml.ts';
import { fileOf, type HostLayout, kubeconfigFile } from './layout.ts';

/** Flag without dashes -> value; a list repeats the flag. */
export type FlagValues = Readonly<Record<string, string | readonly string[]>>;
export type ComponentFlags = Readonly<Record<string, FlagValues>>;

type Entry = 'certificate' | 'key' | 'bundle' | 'privateKey' | 'publicKey';
/** Component, flag, artefact, entry. */
type Row = readonly [component: string, flag: string, artefact: string, entry: Entry];

const rows: readonly Row[] = [
  ['etcd', 'cert-file', 'etcd-server', 'certificate'],
  ['etcd', 'key-file', 'etcd-server', 'key'],
  ['etcd', 'trusted-ca-file', 'etcd-ca', 'bundle'],
  ['etcd', 'peer-cert-file', 'etcd-peer', 'certificate'],
  ['etcd', 'peer-key-file', 'etcd-peer', 'key'],
  ['etcd', 'peer-trusted-ca-file', 'etcd-ca', 'bundle'],
  ['kube-apiserver', 'etcd-cafile', 'etcd-ca', 'bundle'],
  ['kube-apiserver', 'etcd-certfile', 'etcd-client', 'certificate'],
  ['kube-apiserver', 'etcd-keyfile', 'etcd-client', 'key'],
  ['kube-apiserver', 'client-ca-file', 'client-ca', 'bundle'],
  ['kube-apiserver', 'tls-cert-file', 'kube-apiserver-serving', 'certificate'],
  ['kube-apiserver', 'tls-private-key-file', 'kube-apiserver-serving', 'key'],
  ['kube-apiserver', 'kubelet-client-certificate', 'kubelet-client', 'certificate'],
  ['kube-apiserver', 'kubelet-client-key', 'kubelet-client', 'key'],
  ['kube-apiserver', 'proxy-client-cert-file', 'aggregator-client', 'certificate'],
  ['kube-apiserver', 'proxy-client-key-file', 'aggregator-client', 'key'],
  ['kube-apiserver', 'requestheader-client-ca-file', 'aggregator-client-ca', 'bundle'],
  ['kube-apiserver', 'service-account-key-file', 'service-account-key', 'publicKey'],
  ['kube-apiserver', 'service-account-signing-key-file', 'service-account-key', 'privateKey'],
  ['kube-controller-manager', 'client-ca-file', 'client-ca', 'bundle'],
  ['kube-controller-manager', 'requestheader-client-ca-file', 'aggregator-client-ca', 'bundle'],
  ['kube-controller-manager', 'cluster-signing-cert-file', 'csr-signer', 'certificate'],
  ['kube-controller-manager', 'cluster-signing-key-file', 'csr-signer', 'key'],
  ['kube-controller-manager', 'root-ca-file', 'kube-apiserver-server-ca', 'bundle'],
  ['kube-controller-manager', 'service-account-private-key-file', 'service-account-key', 'privateKey'],
];

/** Certificates that kube-apiserver serves under a name of their own: artefact, name. */
const namedServing: readonly (readonly [artefact: string, serverName: string])[] = [
  ['localhost-serving', 'localhost'],
  ['localhost-recovery-serving', 'localhost-recovery'],
];

/** Clients that get a kubeconfig: component, artefact of the client certificate. */
export const kubeconfigClients: readonly (readonly [component: string, artefact: string])[] = [
  ['kube-controller-manager', 'kube-controller-manager-client'],
  ['kube-scheduler', 'kube-scheduler-client'],
  ['admin', 'admin-client'],
];

export const serverBundle = 'kube-apiserver-server-ca';

/**
 * What components on this machine verify the API server by. They read their CA file once, at their start (client-go
 * before 1.36), so it must name a CA that is still good when they start after months off: the ten-year one.
 */
const localServing = { artefact: 'localhost-recovery-serving', serverName: 'localhost-recovery' } as const;

/** What must be said beside a file for the component to use it. */
function companions(
  component: string,
  flags: Readonly<Record<string, unknown>>,
  allowedName: string | undefined,
): FlagValues {
  return {
    ...('trusted-ca-file' in flags && { 'client-cert-auth': 'true' }),
    ...('peer-trusted-ca-file' in flags && { 'peer-client-cert-auth': 'true' }),
    ...('requestheader-client-ca-file' in flags && {
      ...(allowedName !== undefined && { 'requestheader-allowed-names': allowedName }),
      ...(component === 'kube-apiserver' && {
        'requestheader-username-headers': 'X-Remote-User',
        'requestheader-group-headers': 'X-Remote-Group',
        'requestheader-extra-headers-prefix': 'X-Remote-Extra-',
      }),
    }),
  };
}

export function componentFlags({ artefacts }: Resolved, layout: HostLayout): ComponentFlags {
  const named = new Map(artefacts.map((artefact) => [artefact.name, artefact]));
  const flags: Record<string, Record<string, string | readonly string[]>> = {};
  const set = (component: string, flag: string, value: string | readonly string[]): void => {
    flags[component] = { ...flags[component], [flag]: value };
  };
  for (const [component, flag, name, entry] of rows) {
    const file = entryFile(named.get(name), entry, layout);
    if (file !== undefined) set(component, flag, file);
  }
  const sni = namedServing.flatMap(([name, serverName]) => {
    const [cert, key] = (['certificate', 'key'] as const).map((entry) => entryFile(named.get(name), entry, layout));
    return cert === undefined || key === undefined ? [] : [`${cert},${key}:${serverName}`];
  });
  if (sni.length > 0) set('kube-apiserver', 'tls-sni-cert-key', sni);
  for (const [component, name] of kubeconfigClients) {
    if (component === 'admin' || !named.has(name)) continue;
    const file = kubeconfigFile(layout, component);
    for (const flag of ['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'])
      set(component, flag, file);
  }
  const aggregator = named.get('aggregator-client');
  const allowedName = aggregator?.kind === 'target' ? aggregator.commonName : undefined;
  return Object.fromEntries(
    Object.entries(flags).map(([component, own]) => [
      component,
      { ...own, ...companions(component, own, allowedName) },
    ]),
  );
}

function entryFile(artefact: ResolvedArtefact | undefined, entry: Entry, layout: HostLayout): string | undefined {
  if (artefact === undefined) return undefined;
  switch (entry) {
    case 'certificate':
      return fileOf(artefact, certificateKey, layout);
    case 'key':
      return fileOf(artefact, privateKeyKey, layout);
    case 'bundle':
      return fileOf(artefact, caBundleKey, layout);
    case 'privateKey':
    case 'publicKey':
      break;
  }
  return artefact.kind === 'keyPair' ? fileOf(artefact, artefact[entry], layout) : undefined;
}

/** `--flag=value` arguments of one component. */
export function flagArguments(flags: FlagValues): string[] {
  return Object.entries(flags).flatMap(([flag, value]) => [value].flat().map((one) => `--${flag}=${one}`));
}

interface ComponentKubeconfig {
  readonly component: string;
  readonly path: string;
  readonly content: string;
}

/** Of every client whose certificate and whose CA bundle are published below this layout. */
export function componentKubeconfigs(
  { artefacts }: Resolved,
  layout: HostLayout,
  server: string,
  /** For people. */
  adminServer = server,
): readonly ComponentKubeconfig[] {
  const named = new Map<string, ResolvedArtefact>(artefacts.map((artefact) => [artefact.name, artefact]));
  const file = (name: string, key: string): string | undefined => {
    const artefact = named.get(name);
    return artefact && fileOf(artefact, key, layout);
  };
  const certificateAuthority = file(serverBundle, caBundleKey);
  if (certificateAuthority === undefined) return [];
  return kubeconfigClients.flatMap(([component, name]) => {
    const [certFile, keyFile] = [file(name, certificateKey), file(name, privateKeyKey)];
    if (certFile === undefined || keyFile === undefined) return [];
    const isLocal = component !== 'admin' && named.has(localServing.artefact);
    const content = kubeconfigYaml({
      server: component === 'admin' ? adminServer : server,
      certificateAuthority,
      ...(isLocal && { tlsServerName: localServing.serverName }),
      user: { name: component, certFile, keyFile },
    });
    return [{ component, path: kubeconfigFile(layout, component), content }];
  });
}

/**
 * Names files and embeds nothing: a renewed certificate or token is picked up without a restart, and the kubeconfig holds
 * no secret. Only the kubelet's bootstrap kubeconfig embeds its token, as kubeadm's does.
 */
interface KubeconfigContent {
  readonly server: string;
  /** Absolute path. */
  readonly certificateAuthority: string;
  readonly tlsServerName?: string;
  readonly user:
    | { readonly name: string; readonly certFile: string; readonly keyFile: string }
    | { readonly name: string; readonly tokenFile: string }
    | { readonly name: string; readonly token: string };
}

export function kubeconfigYaml({ server, certificateAuthority, tlsServerName, user }: KubeconfigContent): string {
  const { name: _name, ...credential } = user;
  const identity =
    'certFile' in credential
      ? { 'client-certificate': credential.certFile, 'client-key': credential.keyFile }
      : credential;
  return toYaml({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'cluster',
        cluster: {
          server,
          'certificate-authority': certificateAuthority,
          ...(tlsServerName !== undefined && { 'tls-server-name': tlsServerName }),
        },
      },
    ],
    users: [{ name: user.name, user: identity }],
    contexts: [{ name: user.name, context: { cluster: 'cluster', user: user.name } }],
    'current-context': user.name,
  });
}
