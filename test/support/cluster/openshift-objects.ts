// What an OpenShift cluster holds of certificates, written down from its operators' sources and not from the presets:
// cluster-kube-apiserver-operator and cluster-kube-controller-manager-operator, pkg/operator/certrotationcontroller,
// targetconfigcontroller and resourcesynccontroller; library-go pkg/operator/certrotation and pkg/crypto.

const O = 'openshift-kube-apiserver-operator';
const M = 'openshift-config-managed';
const T = 'openshift-kube-apiserver';
const O2 = 'openshift-kube-controller-manager-operator';
const T2 = 'openshift-kube-controller-manager';
const T3 = 'openshift-kube-scheduler';

/** `namespace/name`, validity and refresh in days. */
export const signers: readonly (readonly [object: string, days: number, refreshDays: number])[] = [
  [`${O}/aggregator-client-signer`, 30, 15],
  [`${O}/kube-apiserver-to-kubelet-signer`, 365, 292],
  [`${O}/localhost-serving-signer`, 3650, 2920],
  [`${O}/service-network-serving-signer`, 3650, 2920],
  [`${O}/loadbalancer-serving-signer`, 3650, 2920],
  [`${O}/localhost-recovery-serving-signer`, 3650, 2920],
  [`${O}/kube-control-plane-signer`, 60, 30],
  [`${O}/node-system-admin-signer`, 1095, 876],
  [`${O2}/csr-signer-signer`, 60, 30],
];

/** A bundle that is kept beside its signer. */
export const bundles: readonly (readonly [object: string, signer: string])[] = [
  [`${M}/kube-apiserver-aggregator-client-ca`, `${O}/aggregator-client-signer`],
  [`${O}/kube-apiserver-to-kubelet-client-ca`, `${O}/kube-apiserver-to-kubelet-signer`],
  [`${O}/localhost-serving-ca`, `${O}/localhost-serving-signer`],
  [`${O}/service-network-serving-ca`, `${O}/service-network-serving-signer`],
  [`${O}/loadbalancer-serving-ca`, `${O}/loadbalancer-serving-signer`],
  [`${O}/localhost-recovery-serving-ca`, `${O}/localhost-recovery-serving-signer`],
  [`${O}/kube-control-plane-signer-ca`, `${O}/kube-control-plane-signer`],
  [`${O}/node-system-admin-ca`, `${O}/node-system-admin-signer`],
  [`${O2}/csr-controller-signer-ca`, `${O2}/csr-signer-signer`],
  [`${O2}/csr-signer-ca`, `${O2}/csr-signer`],
];

interface Leaf {
  readonly object: string;
  readonly signer: string;
  readonly days: number;
  readonly refreshDays: number;
  /** As OpenSSL prints it, one RDN a line. */
  readonly subject: string;
  /** Of a server: as OpenSSL prints them. */
  readonly sans?: readonly string[];
}

const client = (object: string, signer: string, subject: string, life: readonly [number, number] = [30, 15]): Leaf => ({
  object,
  signer,
  subject,
  days: life[0],
  refreshDays: life[1],
});
const server = (
  object: string,
  signer: string,
  sans: readonly string[],
  life: readonly [number, number] = [30, 15],
): Leaf => ({
  ...client(object, signer, `CN=${sans.map((san) => san.replace(/^(DNS|IP Address):/, '')).toSorted()[0]}`, life),
  sans,
});

export const openshiftPresets = [
  'openshift-kube-apiserver',
  'openshift-kube-controller-manager',
  'openshift-kube-scheduler',
] as const;

export const externalHost = 'api.cluster.example.com';
export const internalHost = 'api-int.cluster.example.com';
export const serviceNetwork = ['172.30.0.0/16', 'fd02::/112'];

/** As the objects Infrastructure and Network have it. */
export const openshiftStatus = {
  infrastructures: {
    apiServerURL: `https://${externalHost}:6443`,
    apiServerInternalURI: `https://${internalHost}:6443`,
  },
  networks: { serviceNetwork },
} as const;

const service = (name: string): string[] =>
  ['', '.default', '.default.svc', '.default.svc.cluster.local'].map((rest) => `DNS:${name}${rest}`);

export const leaves: readonly Leaf[] = [
  client(`${T}/aggregator-client`, `${O}/aggregator-client-signer`, 'CN=system:openshift-aggregator'),
  client(`${T}/kubelet-client`, `${O}/kube-apiserver-to-kubelet-signer`, 'O=kube-master\nCN=system:kube-apiserver'),
  server(`${T}/localhost-serving-cert-certkey`, `${O}/localhost-serving-signer`, [
    'DNS:localhost',
    'IP Address:127.0.0.1',
  ]),
  server(`${T}/service-network-serving-certkey`, `${O}/service-network-serving-signer`, [
    ...service('kubernetes'),
    ...service('openshift'),
    'IP Address:172.30.0.1',
    'IP Address:FD02:0:0:0:0:0:0:1',
  ]),
  server(`${T}/external-loadbalancer-serving-certkey`, `${O}/loadbalancer-serving-signer`, [`DNS:${externalHost}`]),
  server(`${T}/internal-loadbalancer-serving-certkey`, `${O}/loadbalancer-serving-signer`, [`DNS:${internalHost}`]),
  server(
    `${T}/localhost-recovery-serving-certkey`,
    `${O}/localhost-recovery-serving-signer`,
    ['DNS:localhost-recovery'],
    [3650, 2920],
  ),
  client(
    `${M}/kube-controller-manager-client-cert-key`,
    `${O}/kube-control-plane-signer`,
    'CN=system:kube-controller-manager',
  ),
  client(`${M}/kube-scheduler-client-cert-key`, `${O}/kube-control-plane-signer`, 'CN=system:kube-scheduler'),
  client(
    `${T}/control-plane-node-admin-client-cert-key`,
    `${O}/kube-control-plane-signer`,
    'O=system:masters\nCN=system:control-plane-node-admin',
  ),
  client(
    `${T}/check-endpoints-client-cert-key`,
    `${O}/kube-control-plane-signer`,
    'CN=system:serviceaccount:openshift-kube-apiserver:check-endpoints',
  ),
  client(
    `${O}/node-system-admin-client`,
    `${O}/node-system-admin-signer`,
    'O=system:masters\nCN=system:admin',
    [730, 30],
  ),
];

/** A bundle and the bundles of which it is composed; those of the test's own are given by name. */
export const composed: readonly (readonly [object: string, inputs: readonly string[]])[] = [
  [
    `${T}/client-ca`,
    [
      'openshift-config/admin-kubeconfig-client-ca',
      `${M}/csr-controller-ca`,
      `${O}/kube-apiserver-to-kubelet-client-ca`,
      `${O}/kube-control-plane-signer-ca`,
      `${M}/kubelet-bootstrap-kubeconfig`,
      `${O}/node-system-admin-ca`,
    ],
  ],
  [
    `${T}/kube-apiserver-server-ca`,
    [
      `${O}/loadbalancer-serving-ca`,
      `${O}/localhost-serving-ca`,
      `${O}/service-network-serving-ca`,
      `${O}/localhost-recovery-serving-ca`,
    ],
  ],
  [`${O2}/csr-controller-ca`, [`${O2}/csr-signer-ca`, `${O2}/csr-controller-signer-ca`]],
  [`${T2}/serviceaccount-ca`, [`${M}/kube-apiserver-server-ca`, `${M}/default-ingress-cert`]],
];

/** A bundle that is the same as another one. */
export const copies: readonly (readonly [object: string, of: string])[] = [
  [`${M}/kube-apiserver-client-ca`, `${T}/client-ca`],
  [`${M}/kube-apiserver-server-ca`, `${T}/kube-apiserver-server-ca`],
  [`${T}/aggregator-client-ca`, `${M}/kube-apiserver-aggregator-client-ca`],
  [`${T}/kubelet-serving-ca`, `${M}/csr-controller-ca`],
  [`${M}/kubelet-serving-ca`, `${T}/kubelet-serving-ca`],
  [`${M}/csr-controller-ca`, `${O2}/csr-controller-ca`],
  [`${T2}/client-ca`, `${M}/kube-apiserver-client-ca`],
  [`${T2}/aggregator-client-ca`, `${M}/kube-apiserver-aggregator-client-ca`],
];

/** A pair that is the same as another one. */
export const pairCopies: readonly (readonly [object: string, of: string])[] = [
  [`${T2}/csr-signer`, `${O2}/csr-signer`],
  [`${T2}/kube-controller-manager-client-cert-key`, `${M}/kube-controller-manager-client-cert-key`],
  [`${T3}/kube-scheduler-client-cert-key`, `${M}/kube-scheduler-client-cert-key`],
];

/** Entries of openshift-kube-apiserver/node-kubeconfigs: server, name that is asked for. */
export const nodeKubeconfigs: Readonly<Record<string, readonly [server: string, tlsServerName?: string]>> = {
  'localhost.kubeconfig': ['https://localhost:6443'],
  'localhost-recovery.kubeconfig': ['https://localhost:6443', 'localhost-recovery'],
  'lb-ext.kubeconfig': [`https://${externalHost}:6443`],
  'lb-int.kubeconfig': [`https://${internalHost}:6443`],
};

export const csrSigner = { object: `${O2}/csr-signer`, signer: `${O2}/csr-signer-signer`, days: 30, refreshDays: 15 };
