// The files that flags of the components name, and the role of each: whether it is a certificate and whose, a bundle of
// CAs, or a kubeconfig. One table; flags as `--help` of Kubernetes 1.35 and etcd 3.6 lists them. Pure.
import type { ComponentName } from '../components.ts';
import type { Target } from './model.ts';

export interface FlagOf {
  readonly component: ComponentName;
  readonly flag: string;
}

/** A flag in messages: `etcd --cert-file`. */
export const flagName = ({ component, flag }: { readonly component: string; readonly flag: string }): string =>
  `${component} --${flag}`;

/** The content of a file that a flag names. */
export type FileRole =
  /** A leaf certificate; its key is in the file that `keyFlag` names, else behind a comma (`CERT,KEY[:names]`). */
  | { readonly holds: 'pair'; readonly usage: Target['usage']; readonly keyFlag?: string }
  /** A CA that signs; its key is in the file that `keyFlag` names. */
  | { readonly holds: 'signer'; readonly keyFlag: string }
  /** CA certificates by which peers are verified. */
  | { readonly holds: 'bundle' }
  /** The kubeconfig of a component for the API server. `isOptional`: it runs without the file. */
  | { readonly holds: 'kubeconfig'; readonly isOptional?: true }
  /** A kubeconfig that leads to a webhook: its trust is its administrator's choice, and it may hold no certificate. */
  | { readonly holds: 'webhook' }
  /**
   * Keys of service accounts: a new one invalidates every token. `knownBy` names the public keys of a signing key, once
   * for each file.
   */
  | { readonly holds: 'tokenKey'; readonly knownBy?: FlagOf }
  /** A document whose fields name further files (configurationFields). */
  | { readonly holds: 'configuration' }
  /** The key of a certificate that another flag names. */
  | { readonly holds: 'key' }
  /**
   * A directory in which the component makes `PAIR.crt` and `PAIR.key` to serve with, where no flag names a
   * certificate.
   */
  | { readonly holds: 'directory'; readonly pair: string }
  /** Nothing that expires: settings, tokens, a log, a socket. */
  | { readonly holds: 'nothing' };

/** A file of this host that a flag of a component names. */
export interface FileOfFlag extends FlagOf {
  readonly role: FileRole;
  readonly file: string;
  /** The file of the key, for a certificate. */
  readonly keyFile?: string;
  /** The flag that names the key file; undefined where none does, and the key next to the certificate is read. */
  readonly keyFlag?: string;
  /** The signer of this inventory whose key has signed the present certificate; undefined: none of them. */
  readonly issuer?: string | undefined;
}

const nothing = { holds: 'nothing' } as const;
const bundle = { holds: 'bundle' } as const;
const key = { holds: 'key' } as const;
const kubeconfig = { holds: 'kubeconfig' } as const;
const webhook = { holds: 'webhook' } as const;
const tokenKey = { holds: 'tokenKey' } as const;
const tokenSigningKey = {
  ...tokenKey,
  knownBy: { component: 'kube-apiserver', flag: 'service-account-key-file' },
} as const;
const configuration = { holds: 'configuration' } as const;
const directory = (name: string) => ({ holds: 'directory', pair: name }) as const;
const pair = (usage: Target['usage'], keyFlag?: string) =>
  ({ holds: 'pair', usage, ...(keyFlag !== undefined && { keyFlag }) }) as const;
const signer = (keyFlag: string) => ({ holds: 'signer', keyFlag }) as const;

/** Flags of every server of k8s.io/apiserver (pkg/server/options: serving.go, authentication.go). */
const serving = {
  'tls-cert-file': pair('serving', 'tls-private-key-file'),
  'tls-private-key-file': key,
  'tls-sni-cert-key': pair('serving'),
  'client-ca-file': bundle,
  'requestheader-client-ca-file': bundle,
} as const;

/**
 * Flags of a component that delegates authentication to the API server (pkg/server/options:
 * DelegatingAuthenticationOptions).
 */
const delegating = {
  ...serving,
  kubeconfig,
  'authentication-kubeconfig': kubeconfig,
  'authorization-kubeconfig': kubeconfig,
} as const;

/** Roles by component and flag, without dashes. */
export const fileFlags: Readonly<Record<ComponentName, Readonly<Record<string, FileRole>>>> = {
  'kube-apiserver': {
    ...serving,
    'cert-dir': directory('apiserver'),
    'etcd-cafile': bundle,
    'etcd-certfile': pair('client', 'etcd-keyfile'),
    'etcd-keyfile': key,
    'kubelet-certificate-authority': bundle,
    'kubelet-client-certificate': pair('client', 'kubelet-client-key'),
    'kubelet-client-key': key,
    'proxy-client-cert-file': pair('client', 'proxy-client-key-file'),
    'proxy-client-key-file': key,
    'peer-ca-file': bundle,
    'oidc-ca-file': bundle,
    'audit-webhook-config-file': webhook,
    'authentication-token-webhook-config-file': webhook,
    'authorization-webhook-config-file': webhook,
    'admission-control-config-file': configuration,
    'authorization-config': configuration,
    'egress-selector-config-file': configuration,
    'egress-selector-ca-bundle': bundle,
    'egress-selector-client-cert': pair('client', 'egress-selector-client-key'),
    'egress-selector-client-key': key,
    'admission-webhook-kubeconfig': webhook,
    'authorization-config-kubeconfig': webhook,
    'allow-metric-labels-manifest': nothing,
    'audit-log-path': nothing,
    'audit-policy-file': nothing,
    'authentication-config': nothing, // the CAs in it are text, not files
    'authorization-policy-file': nothing,
    'debug-socket-path': nothing,
    'encryption-provider-config': nothing,
    'service-account-key-file': tokenKey,
    'service-account-signing-endpoint': nothing,
    'service-account-signing-key-file': tokenSigningKey,
    'token-auth-file': nothing,
    'tracing-config-file': nothing,
  },
  'kube-controller-manager': {
    ...delegating,
    'cert-dir': directory('kube-controller-manager'),
    'root-ca-file': bundle,
    'cluster-signing-cert-file': signer('cluster-signing-key-file'),
    'cluster-signing-key-file': key,
    'cluster-signing-kube-apiserver-client-cert-file': signer('cluster-signing-kube-apiserver-client-key-file'),
    'cluster-signing-kube-apiserver-client-key-file': key,
    'cluster-signing-kubelet-client-cert-file': signer('cluster-signing-kubelet-client-key-file'),
    'cluster-signing-kubelet-client-key-file': key,
    'cluster-signing-kubelet-serving-cert-file': signer('cluster-signing-kubelet-serving-key-file'),
    'cluster-signing-kubelet-serving-key-file': key,
    'cluster-signing-legacy-unknown-cert-file': signer('cluster-signing-legacy-unknown-key-file'),
    'cluster-signing-legacy-unknown-key-file': key,
    'allow-metric-labels-manifest': nothing,
    'cloud-config': nothing,
    'flex-volume-plugin-dir': nothing,
    'debug-socket-path': nothing,
    'leader-migration-config': nothing,
    'pv-recycler-pod-template-filepath-hostpath': nothing,
    'pv-recycler-pod-template-filepath-nfs': nothing,
    'service-account-private-key-file': tokenSigningKey,
  },
  'kube-scheduler': {
    ...delegating,
    'cert-dir': directory('kube-scheduler'),
    config: configuration,
    'allow-metric-labels-manifest': nothing,
    'debug-socket-path': nothing,
    'write-config-to': nothing,
  },
  kubelet: {
    'tls-cert-file': pair('serving', 'tls-private-key-file'),
    'tls-private-key-file': key,
    'client-ca-file': bundle,
    'cert-dir': directory('kubelet'),
    kubeconfig,
    'bootstrap-kubeconfig': { holds: 'kubeconfig', isOptional: true }, // read where kubeconfig has no credential
    config: configuration,
    'config-dir': configuration,
    'boot-id-file': nothing,
    'cloud-config': nothing, // up to 1.31
    'experimental-mounter-path': nothing,
    'image-credential-provider-bin-dir': nothing,
    'image-credential-provider-config': nothing,
    'lock-file': nothing,
    'machine-id-file': nothing,
    'pod-manifest-path': nothing,
    'resolv-conf': nothing,
    'root-dir': nothing,
    'volume-plugin-dir': nothing,
  },
  etcd: {
    'cert-file': pair('serving', 'key-file'),
    'key-file': key,
    'trusted-ca-file': bundle,
    'client-cert-file': pair('client', 'client-key-file'),
    'client-key-file': key,
    'client-crl-file': nothing,
    'peer-cert-file': pair('peer', 'peer-key-file'),
    'peer-key-file': key,
    'peer-trusted-ca-file': bundle,
    'peer-client-cert-file': pair('client', 'peer-client-key-file'),
    'peer-client-key-file': key,
    'peer-crl-file': nothing,
    'discovery-cacert': bundle,
    'discovery-cert': pair('client', 'discovery-key'),
    'discovery-key': key,
    // For people at this member: the environment file of the service gives these to etcdctl (kubespray, KubeKey).
    'etcdctl-cacert': bundle,
    'etcdctl-cert': pair('client', 'etcdctl-key'),
    'etcdctl-key': key,
    'config-file': configuration,
    'data-dir': nothing,
    'wal-dir': nothing,
  },
};

interface ConfigurationFields {
  /** Paths of fields, `[]` for each item of a list, with the flag of the same role. */
  readonly fields: Readonly<Record<string, string>>;
  /** Precedence: flags beat fields; flags are not read where there is a configuration; no flag at all is read then. */
  readonly order: 'flagsFirst' | 'fieldsInstead' | 'fieldsAlone';
}

/** Configurations that name files, by component and the flag that names the configuration. */
export const configurationFields: Readonly<
  Partial<Record<ComponentName, Readonly<Record<string, ConfigurationFields>>>>
> = {
  'kube-apiserver': {
    'egress-selector-config-file': {
      order: 'flagsFirst',
      fields: {
        'egressSelections[].connection.transport.tcp.tlsConfig.caBundle': 'egress-selector-ca-bundle',
        'egressSelections[].connection.transport.tcp.tlsConfig.clientCert': 'egress-selector-client-cert',
        'egressSelections[].connection.transport.tcp.tlsConfig.clientKey': 'egress-selector-client-key',
      },
    },
    'admission-control-config-file': {
      order: 'flagsFirst',
      fields: {
        'plugins[].configuration.kubeConfigFile': 'admission-webhook-kubeconfig',
        'plugins[].configuration.imagePolicy.kubeConfigFile': 'admission-webhook-kubeconfig',
      },
    },
    'authorization-config': {
      order: 'flagsFirst',
      fields: { 'authorizers[].webhook.connectionInfo.kubeConfigFile': 'authorization-config-kubeconfig' },
    },
  },
  // Its flags are ignored where a configuration is given (cmd/kube-scheduler/app/options: ApplyDeprecated).
  'kube-scheduler': {
    config: { order: 'fieldsInstead', fields: { 'clientConnection.kubeconfig': 'kubeconfig' } },
  },
  kubelet: {
    config: {
      order: 'flagsFirst',
      fields: {
        tlsCertFile: 'tls-cert-file',
        tlsPrivateKeyFile: 'tls-private-key-file',
        'authentication.x509.clientCAFile': 'client-ca-file',
        staticPodPath: 'pod-manifest-path',
      },
    },
  },
  // "other command line flags and environment variables will be ignored" (etcd --help).
  etcd: {
    'config-file': {
      order: 'fieldsAlone',
      fields: {
        'client-transport-security.cert-file': 'cert-file',
        'client-transport-security.key-file': 'key-file',
        'client-transport-security.trusted-ca-file': 'trusted-ca-file',
        'client-transport-security.client-cert-file': 'client-cert-file',
        'client-transport-security.client-key-file': 'client-key-file',
        'peer-transport-security.cert-file': 'peer-cert-file',
        'peer-transport-security.key-file': 'peer-key-file',
        'peer-transport-security.trusted-ca-file': 'peer-trusted-ca-file',
        'peer-transport-security.client-cert-file': 'peer-client-cert-file',
        'peer-transport-security.client-key-file': 'peer-client-key-file',
        'listen-client-urls': 'listen-client-urls',
        'listen-peer-urls': 'listen-peer-urls',
        'advertise-client-urls': 'advertise-client-urls',
        'initial-advertise-peer-urls': 'initial-advertise-peer-urls',
        name: 'name',
      },
    },
  },
};
