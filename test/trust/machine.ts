// A control plane as facts, on which every relation of trust is in use and holds: what its components are told, and the
// files that this names, made at a fixed time.
import { generateKey } from '../../lib/pki/key.ts';
import type { LeafRequest } from '../../lib/pki/sign.ts';
import { signLeaf } from '../../lib/pki/sign.ts';
import { readKubeconfigView } from '../../lib/kubeconfig/document.ts';
import type { ComponentName } from '../../lib/components.ts';
import type { FileHere, KubeconfigHere, TrustFacts } from '../../lib/trust/trust-facts.ts';
import { type Authority, authority, day, now, p256 } from '../pki/authority.ts';

export const address = '192.0.2.10';

export type Flags = Readonly<Record<string, string | readonly string[]>>;

/** Changes to that machine. An undefined file is absent, an undefined component does not run there. */
export interface Changes {
  readonly flags?: Readonly<Partial<Record<ComponentName, Flags | undefined>>>;
  readonly files?: Readonly<Record<string, string | undefined>>;
  readonly kubeconfigs?: Readonly<Record<string, string>>;
  readonly doubts?: TrustFacts['doubts'];
  readonly without?: readonly string[];
  readonly servers?: TrustFacts['servers'];
  readonly bundles?: TrustFacts['bundles'];
}

export interface Pair {
  readonly cert: string;
  readonly key: string;
}

export async function pair(
  issuer: Authority,
  usage: LeafRequest['usage'],
  more: Partial<LeafRequest> = {},
): Promise<Pair> {
  const { key, pem } = await generateKey(p256);
  const dates = { notBefore: day(-1), notAfter: day(300), now };
  const hostnames = usage === 'client' ? [] : [address, '127.0.0.1', '10.96.0.1', 'kubernetes.default.svc'];
  const request = { issuer, key, organizations: [], hostnames, usage, commonName: 'it', ...dates, ...more };
  return { cert: (await signLeaf(request)).pem, key: pem };
}

const newCa = async (notAfter = day(3650)): Promise<Authority & { readonly pem: string; readonly keyPem: string }> => {
  const made = await authority({ commonName: 'kubernetes', notAfter });
  return { ...made, pem: made.certificate.pem, keyPem: String(made.key.export({ type: 'sec1', format: 'pem' })) };
};

export const [cluster, etcdCa, frontCa, stranger] = await Promise.all([newCa(), newCa(), newCa(), newCa()]);

const base64 = (text: string): string => Buffer.from(text).toString('base64');

export const kubeconfig = ({
  client,
  ca = cluster.pem,
  server = `https://${address}:6443`,
}: {
  readonly client: Pair;
  readonly ca?: string;
  readonly server?: string;
}): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'it', cluster: { server, 'certificate-authority-data': base64(ca) } }],
    users: [
      {
        name: 'it',
        user: { 'client-certificate-data': base64(client.cert), 'client-key-data': base64(client.key) },
      },
    ],
    contexts: [{ name: 'it', context: { cluster: 'it', user: 'it' } }],
    'current-context': 'it',
  });

const [serving, kubeletClient, etcdClient, proxyClient, etcdServer, etcdPeer, kubelet, holder, accounts] =
  await Promise.all([
    pair(cluster, 'serving', { notAfter: day(200) }),
    pair(cluster, 'client'),
    pair(etcdCa, 'client'),
    pair(frontCa, 'client', { commonName: 'front-proxy-client', notAfter: day(250) }),
    pair(etcdCa, 'peer'),
    pair(etcdCa, 'peer'),
    pair(cluster, 'serving'),
    pair(cluster, 'client'),
    generateKey(p256),
  ]);

export { holder, proxyClient, serving };

const files: Readonly<Record<string, string>> = {
  '/pki/ca.crt': cluster.pem,
  '/pki/ca.key': cluster.keyPem,
  '/pki/etcd-ca.crt': etcdCa.pem,
  '/pki/front-ca.crt': frontCa.pem,
  '/pki/sa.key': accounts.pem,
  // A private key verifies tokens, too.
  '/pki/sa.pub': accounts.pem,
  '/pki/stranger.crt': stranger.pem,
  '/pki/stranger.key': stranger.keyPem,
  ...Object.fromEntries(
    Object.entries({
      apiserver: serving,
      'kubelet-client': kubeletClient,
      'etcd-client': etcdClient,
      'front-client': proxyClient,
      'etcd-server': etcdServer,
      'etcd-peer': etcdPeer,
      kubelet,
    }).flatMap(([name, { cert, key }]) => [
      [`/pki/${name}.crt`, cert],
      [`/pki/${name}.key`, key],
    ]),
  ),
};

const flags: Readonly<Record<ComponentName, Flags>> = {
  'kube-apiserver': {
    'advertise-address': address,
    'client-ca-file': '/pki/ca.crt',
    'requestheader-client-ca-file': '/pki/front-ca.crt',
    'requestheader-allowed-names': 'front-proxy-client',
    'proxy-client-cert-file': '/pki/front-client.crt',
    'proxy-client-key-file': '/pki/front-client.key',
    'tls-cert-file': '/pki/apiserver.crt',
    'tls-private-key-file': '/pki/apiserver.key',
    'kubelet-certificate-authority': '/pki/ca.crt',
    'kubelet-client-certificate': '/pki/kubelet-client.crt',
    'kubelet-client-key': '/pki/kubelet-client.key',
    'etcd-servers': 'https://127.0.0.1:2379,https://192.0.2.11:2379',
    'etcd-cafile': '/pki/etcd-ca.crt',
    'etcd-certfile': '/pki/etcd-client.crt',
    'etcd-keyfile': '/pki/etcd-client.key',
    'service-account-key-file': '/pki/sa.pub',
    'service-account-signing-key-file': '/pki/sa.key',
    'service-cluster-ip-range': '10.96.0.0/12',
  },
  'kube-controller-manager': {
    'cluster-signing-cert-file': '/pki/ca.crt',
    'cluster-signing-key-file': '/pki/ca.key',
    'root-ca-file': '/pki/ca.crt',
    'requestheader-client-ca-file': '/pki/front-ca.crt',
    'service-account-private-key-file': '/pki/sa.key',
  },
  'kube-scheduler': { 'leader-elect': 'true' },
  kubelet: {
    'client-ca-file': '/pki/ca.crt',
    'tls-cert-file': '/pki/kubelet.crt',
    'tls-private-key-file': '/pki/kubelet.key',
    'node-ip': address,
  },
  etcd: {
    'cert-file': '/pki/etcd-server.crt',
    'key-file': '/pki/etcd-server.key',
    'trusted-ca-file': '/pki/etcd-ca.crt',
    'peer-cert-file': '/pki/etcd-peer.crt',
    'peer-key-file': '/pki/etcd-peer.key',
    'peer-trusted-ca-file': '/pki/etcd-ca.crt',
    'advertise-client-urls': `https://${address}:2379`,
    'initial-advertise-peer-urls': `https://${address}:2380`,
  },
};

const settingsOf = (component: ComponentName, changed: Flags | undefined): TrustFacts['settings'][string] => {
  const all = { ...flags[component], ...changed };
  const values = new Map(
    Object.entries(all).flatMap(([flag, value]) => (value === '' ? [] : [[flag, [value].flat()]])),
  );
  return { values, source: 'it', mounts: [] };
};

/** Facts of the machine. */
export function machine({ flags: told = {}, files: changed = {}, ...more }: Changes = {}): TrustFacts {
  const { kubeconfigs = {}, doubts = {}, without = [], servers = [], bundles = [] } = more;
  const texts = Object.entries({ ...files, ...changed });
  const kubeconfigTexts = { '/scheduler.conf': kubeconfig({ client: holder }), ...kubeconfigs };
  const bytes = (text: string | undefined): FileHere =>
    text === undefined ? { unread: 'is absent' } : { bytes: Buffer.from(text) };
  return {
    settings: Object.fromEntries(
      (Object.keys(flags) as ComponentName[]).map((component) => [
        component,
        Object.hasOwn(told, component) && told[component] === undefined
          ? undefined
          : settingsOf(component, told[component]),
      ]),
    ),
    doubts,
    kubeconfigs: Object.entries(kubeconfigTexts).map(([file, text]): KubeconfigHere => ({
      name: file.slice(1),
      file,
      reading: readKubeconfigView(file, Buffer.from(text), {}),
    })),
    files: new Map(texts.map(([file, text]) => [file, bytes(text)])),
    moved: (path) => path,
    own: [],
    without: new Set(without),
    servers,
    bundles,
  };
}
