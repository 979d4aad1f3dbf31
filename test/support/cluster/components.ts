// What the components of a test control plane are called and which flags they are started with: first what belongs to
// the place (ports, directories), then certificates, which come from the PKI of the library or from the test.
import { join } from 'node:path';
import type { OwnPki } from './own-pki.ts';

export const componentNames = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'sample-apiserver',
] as const;
export type ComponentName = (typeof componentNames)[number];

/** What a kubeadm node runs besides. */
export const nodeBinaryNames = ['kubeadm', 'kubelet', 'kubectl'] as const;

export type BinaryName = ComponentName | (typeof nodeBinaryNames)[number];

/** Flag name without dashes to value. A list repeats the flag; undefined removes it. */
export type Flags = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface Ports {
  readonly etcd: number;
  readonly etcdPeer: number;
  readonly apiserver: number;
  readonly controllerManager: number;
  readonly scheduler: number;
  readonly sampleApiserver: number;
}

export const portNames: Readonly<Record<ComponentName, keyof Ports>> = {
  etcd: 'etcd',
  'kube-apiserver': 'apiserver',
  'kube-controller-manager': 'controllerManager',
  'kube-scheduler': 'scheduler',
  'sample-apiserver': 'sampleApiserver',
};

/** kube-apiserver refuses a loopback address here. No host has this one (RFC 5737), and none needs to reach it. */
export const advertiseAddress = '192.0.2.1';
export const serviceAddress = '10.0.0.1';

export interface Place {
  readonly directory: string;
  readonly ports: Ports;
  readonly adminKubeconfig: string;
  readonly tokenFile: string;
  readonly unsafeNoFsync: boolean;
  /** Policy and log of kube-apiserver's audit; undefined: none. */
  readonly audit?: { readonly policyFile: string; readonly logFile: string } | undefined;
}

const url = (port: number): string => `https://127.0.0.1:${port}`;

/** Flags that hold whatever the certificates are. */
export function placeFlags({ directory, ports, ...place }: Place): Record<ComponentName, Flags> {
  const local = { 'bind-address': '127.0.0.1' };
  return {
    etcd: {
      name: 'test',
      'data-dir': join(directory, 'etcd'),
      'listen-client-urls': url(ports.etcd),
      'advertise-client-urls': url(ports.etcd),
      'listen-peer-urls': url(ports.etcdPeer),
      'initial-advertise-peer-urls': url(ports.etcdPeer),
      'initial-cluster': `test=${url(ports.etcdPeer)}`,
      'log-level': 'warn',
      'unsafe-no-fsync': place.unsafeNoFsync ? 'true' : undefined,
    },
    'kube-apiserver': {
      ...local,
      'secure-port': String(ports.apiserver),
      'advertise-address': advertiseAddress,
      'service-cluster-ip-range': '10.0.0.0/24',
      'etcd-servers': url(ports.etcd),
      'token-auth-file': place.tokenFile,
      'authorization-mode': 'Node,RBAC',
      'service-account-issuer': 'https://kubernetes.default.svc',
      'allow-privileged': 'true',
      profiling: 'false',
      'audit-policy-file': place.audit?.policyFile,
      'audit-log-path': place.audit?.logFile,
    },
    'kube-controller-manager': {
      ...local,
      'secure-port': String(ports.controllerManager),
      'use-service-account-credentials': 'true',
      profiling: 'false',
    },
    'kube-scheduler': { ...local, 'secure-port': String(ports.scheduler), profiling: 'false' },
    'sample-apiserver': {
      ...local,
      'secure-port': String(ports.sampleApiserver),
      'etcd-servers': url(ports.etcd),
      // The sample asks kube-apiserver who its callers are and what they may do; as an admin it may ask.
      kubeconfig: place.adminKubeconfig,
      'authentication-kubeconfig': place.adminKubeconfig,
      'authorization-kubeconfig': place.adminKubeconfig,
    },
  };
}

const clientFlags = (kubeconfig: string): Flags => ({
  kubeconfig,
  'authentication-kubeconfig': kubeconfig,
  'authorization-kubeconfig': kubeconfig,
});

/** The flags that name certificates and keys, from the library's own PKI. */
export function ownPkiFlags(pki: OwnPki, kubeconfigs: ClientKubeconfigs): Record<ComponentName, Flags> {
  const etcdClient = {
    'etcd-cafile': pki.etcdCa.cert,
    'etcd-certfile': pki.etcdClient.cert,
    'etcd-keyfile': pki.etcdClient.key,
  };
  return {
    etcd: {
      'cert-file': pki.etcdServer.cert,
      'key-file': pki.etcdServer.key,
      'client-cert-auth': 'true',
      'trusted-ca-file': pki.etcdCa.cert,
      'peer-cert-file': pki.etcdPeer.cert,
      'peer-key-file': pki.etcdPeer.key,
      'peer-client-cert-auth': 'true',
      'peer-trusted-ca-file': pki.etcdCa.cert,
    },
    'kube-apiserver': {
      ...etcdClient,
      'tls-cert-file': pki.serving.cert,
      'tls-private-key-file': pki.serving.key,
      'tls-sni-cert-key': [`${pki.localhostRecovery.cert},${pki.localhostRecovery.key}:localhost-recovery`],
      'client-ca-file': pki.clusterCa.cert,
      'kubelet-client-certificate': pki.kubeletClient.cert,
      'kubelet-client-key': pki.kubeletClient.key,
      'proxy-client-cert-file': pki.aggregatorClient.cert,
      'proxy-client-key-file': pki.aggregatorClient.key,
      'requestheader-client-ca-file': pki.aggregatorCa.cert,
      'requestheader-allowed-names': 'system:aggregator',
      'requestheader-username-headers': 'X-Remote-User',
      'requestheader-group-headers': 'X-Remote-Group',
      'requestheader-extra-headers-prefix': 'X-Remote-Extra-',
      'service-account-key-file': pki.serviceAccount.publicKey,
      'service-account-signing-key-file': pki.serviceAccount.key,
    },
    'kube-controller-manager': {
      ...clientFlags(kubeconfigs.controllerManager),
      'root-ca-file': pki.clusterCa.cert,
      'service-account-private-key-file': pki.serviceAccount.key,
      'cluster-signing-cert-file': pki.clusterCa.cert,
      'cluster-signing-key-file': pki.clusterCa.key,
    },
    'kube-scheduler': clientFlags(kubeconfigs.scheduler),
    'sample-apiserver': {
      ...etcdClient,
      'tls-cert-file': pki.sampleServing.cert,
      'tls-private-key-file': pki.sampleServing.key,
    },
  };
}

export interface ClientKubeconfigs {
  readonly controllerManager: string;
  readonly scheduler: string;
}

/** `--name=value` for each flag, lists repeated, undefined left out. */
export function flagArguments(flags: Flags): string[] {
  return Object.entries(flags).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((one) => `--${name}=${one}`),
  );
}
