// What people and other programs have left in the places of certificates, keys and kubeconfigs: 200 kinds of content that are
// none of a damaged file of ours. Each is named; the text is the whole of it, or half of it, which is nobody's kubeconfig either.
import { gzipSync, deflateRawSync, brotliCompressSync } from 'node:zlib';
import { parseYaml } from '../../../lib/yaml.ts';
import { Dice } from './damage.ts';

export type Role = 'certificate' | 'key' | 'kubeconfig';

export interface StrangeContent {
  readonly name: string;
  readonly content: Buffer;
  /** In the place of these it would be a file of its kind. */
  readonly of?: readonly Role[];
  /** A kubeconfig of another cluster. */
  readonly isOfAnother?: true;
  /** One that works, so nobody has to do anything: only `status` says whose it is. */
  readonly works?: true;
}

/** Of another cluster: texts of its kubeconfig, and of a certificate and a key in PEM. */
export interface OtherCluster {
  readonly kubeconfig: string;
  /** The same, expired. */
  readonly expired: string;
  readonly certificate: string;
  readonly key: string;
}

const documents: Readonly<Record<string, string>> = {
  KubeletConfiguration:
    'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nauthentication:\n  x509:\n    clientCAFile: /etc/kubernetes/pki/ca.crt\nclusterDNS:\n- 10.96.0.10\nclusterDomain: cluster.local\nstaticPodPath: /etc/kubernetes/manifests\n',
  KubeSchedulerConfiguration:
    'apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection:\n  kubeconfig: /etc/kubernetes/scheduler.conf\nleaderElection:\n  leaderElect: true\nprofiles:\n- schedulerName: default-scheduler\n',
  KubeProxyConfiguration:
    'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclientConnection:\n  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf\nclusterCIDR: 10.244.0.0/16\nmode: ipvs\n',
  ClusterConfiguration:
    'apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: kubernetes\ncertificatesDir: /etc/kubernetes/pki\ncontrolPlaneEndpoint: api.example.com:6443\n',
  InitConfiguration:
    'apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration:\n  name: node1\n  kubeletExtraArgs: []\n',
  EncryptionConfiguration:
    'apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - aescbc:\n      keys:\n      - name: key1\n        secret: c2VjcmV0IGlzIHNlY3VyZQ==\n  - identity: {}\n',
  'audit Policy':
    'apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n  users: ["system:kube-proxy"]\n  verbs: ["watch"]\n- level: Metadata\n',
  AdmissionConfiguration:
    'apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: PodSecurity\n  configuration:\n    apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: PodSecurityConfiguration\n',
  AuthenticationConfiguration:
    'apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: https://example.com\n    audiences: [my-app]\n',
  EgressSelectorConfiguration:
    'apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: cluster\n  connection:\n    proxyProtocol: GRPC\n',
  CredentialProviderConfig:
    'apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: ecr-credential-provider\n  matchImages: ["*.dkr.ecr.*.amazonaws.com"]\n',
  Pod: 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: kube-scheduler\n  namespace: kube-system\nspec:\n  containers:\n  - name: kube-scheduler\n    command: [kube-scheduler, --kubeconfig=/etc/kubernetes/scheduler.conf]\n',
  Secret:
    'apiVersion: v1\nkind: Secret\nmetadata:\n  name: kubeconfig\ntype: Opaque\ndata:\n  client-certificate-data: QUFBQQ==\n',
  Namespace: 'kind: Namespace\napiVersion: v1\nmetadata:\n  name: users\n',
  RoleBinding:
    'apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: users}\nsubjects:\n- kind: User\n  name: contexts\nroleRef: {kind: Role, name: users, apiGroup: rbac.authorization.k8s.io}\n',
  'Cluster of Cluster API':
    'apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata:\n  name: clusters\nspec:\n  controlPlaneEndpoint: {host: 10.0.0.1, port: 6443}\n',
  'a configuration of kind':
    'kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n- role: worker\n',
  'a configuration of k3s':
    'write-kubeconfig-mode: "0644"\ntls-san:\n- foo.local\nserver: https://10.0.0.1:6443\ntoken: abc\n',
  'a configuration of RKE':
    'cluster_name: prod\nnodes:\n- address: 10.0.0.1\n  user: rancher\n  role: [controlplane, etcd]\nservices:\n  etcd:\n    snapshot: true\n',
  'a talosconfig':
    'context: prod\ncontexts:\n  prod:\n    endpoints: [10.0.0.1]\n    ca: QUFB\n    crt: QUFB\n    key: QUFB\n',
  'data of cloud-init': '#cloud-config\nusers:\n- name: bob\n  groups: sudo\n  shell: /bin/bash\npackages:\n- curl\n',
  'an inventory of Ansible': 'all:\n  hosts:\n    node1:\n      ansible_host: 10.0.0.1\n  children:\n    users: {}\n',
  'a playbook of Ansible':
    '- hosts: all\n  become: true\n  tasks:\n  - name: users\n    user: {name: bob, state: present}\n',
  'a file of Compose': 'services:\n  web:\n    image: nginx\n    ports: ["80:80"]\nvolumes: {}\n',
  'a configuration of Prometheus':
    'global:\n  scrape_interval: 15s\nscrape_configs:\n- job_name: kubernetes\n  tls_config:\n    ca_file: /ca.crt\n    cert_file: /client.crt\n',
  'values of Helm':
    'replicaCount: 1\nimage:\n  repository: nginx\nserviceAccount:\n  create: true\nclusters: []\nusers_enabled: true\n',
  'a configuration of Envoy':
    'static_resources:\n  listeners: []\n  clusters:\n  - name: some_service\n    connect_timeout: 0.25s\nadmin:\n  address: {}\n',
  TracingConfiguration:
    'apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: localhost:4317\nsamplingRatePerMillion: 100\n',
  Kustomization:
    'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- clusters.yaml\n- users.yaml\n',
  'a Config of another group':
    'apiVersion: skaffold/v4beta1\nkind: Config\nmetadata:\n  name: users\nbuild:\n  artifacts: []\ndeploy: {}\n',
  'a workflow': 'on: push\njobs:\n  build:\n    runs-on: ubuntu-latest\n    steps:\n    - run: npm test\n',
  'a configuration of netplan': 'network:\n  version: 2\n  ethernets:\n    eth0:\n      dhcp4: true\n',
};

const texts: Readonly<Record<string, string>> = {
  'an EnvironmentFile':
    '# arguments\nKUBE_SCHEDULER_ARGS="--leader-elect=true --kubeconfig=/etc/kubernetes/kubeconfig"\n',
  'an EnvironmentFile of several lines':
    'ETCD_NAME=node1\nETCD_CERT_FILE=/etc/ssl/etcd/node.pem\nexport ETCD_KEY_FILE=/etc/ssl/key.pem\n',
  'an EnvironmentFile that continues its lines':
    'KUBELET_ARGS="--v=2 \\\n  --config=/var/lib/kubelet/config.yaml \\\n  --kubeconfig=/x"\n',
  'a unit file':
    '[Unit]\nDescription=Kubernetes Scheduler\n\n[Service]\nExecStart=/usr/bin/kube-scheduler --kubeconfig=/x\n\n[Install]\nWantedBy=multi-user.target\n',
  'a file of TOML':
    'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "registry.k8s.io/pause:3.9"\n',
  'a configuration of HAProxy':
    'global\n  log /dev/log local0\nfrontend api\n  bind *:6443\n  default_backend servers\nbackend servers\n  server one 10.0.0.1:6443 check\n',
  'a configuration of nginx':
    'upstream api {\n  server 10.0.0.1:6443;\n}\nserver {\n  listen 6443;\n  proxy_pass api;\n}\n',
  'a configuration of keepalived': 'vrrp_instance VI_1 {\n  state MASTER\n  interface eth0\n  priority 101\n}\n',
  'a crontab': '# m h dom mon dow command\n0 3 * * * /usr/local/bin/backup --all\n',
  'a list of hosts': '127.0.0.1 localhost\n10.0.0.1 node1 node1.example.com\n',
  'a table of accounts': 'root:x:0:0:root:/root:/bin/bash\nbob:x:1000:1000::/home/bob:/bin/sh\n',
  'a table with commas': 'token,user,uid,"group1,group2"\nabc,bob,1,admins\n',
  'known hosts of SSH': 'node1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBub3RoaW5nIHRvIHNlZSBoZXJlIGF0IGFsbA\n',
  'a public key of SSH': 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBub3RoaW5nIHRvIHNlZSBoZXJlIGF0IGFsbA bob@node1\n',
  'an XML document': '<?xml version="1.0"?>\n<clusters><cluster name="a"/></clusters>\n',
  'an HTML document': '<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head></html>\n',
  'a page of Markdown': '# Runbook\n\n1. Renew the certificates of all clusters\n2. Restart kube-scheduler\n',
  'lines of a log':
    'I1126 10:00:00.000000 1 serving.go:386] Generated self-signed cert in-memory\nE1126 10:00:01 users: not found\n',
  'statements of SQL':
    "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT);\nINSERT INTO users VALUES (1, 'bob');\n",
  'a file of properties': 'server.port=8080\nserver.ssl.key-store=/etc/keystore.p12\n',
  'a patch':
    '--- a/scheduler.conf\n+++ b/scheduler.conf\n@@ -1,2 +1,2 @@\n-  server: https://a\n+  server: https://b\n',
  'a shell script': '#!/bin/sh\nset -e\nexec kube-scheduler --kubeconfig=/etc/kubernetes/scheduler.conf\n',
  'a script of Python': '#!/usr/bin/env python3\nimport sys\nprint(sys.argv)\n',
  'a secret of Ansible':
    '$ANSIBLE_VAULT;1.1;AES256\n62313365396662343061393464336163383764373764613633653634306231386433626436623361\n',
  'an encrypted file of age': 'age-encryption.org/v1\n-> X25519 abc\nabc\n--- abc\n',
  'a key of PuTTY': 'PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nComment: bob\nPublic-Lines: 6\n',
  'a token': 'eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl\n',
  'a number': '42\n',
  'a word': 'garbage\n',
  'a path': '/etc/kubernetes/pki/ca.crt\n',
  'lines of base64 as base64(1) writes them':
    'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0NTY3\n'.repeat(4),
  'lines of base64 as OpenSSL writes them': 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2\n'.repeat(
    4,
  ),
  'a list in JSON': '["clusters", "users", "contexts"]\n',
  'a configuration in JSON': '{"signing": {"default": {"expiry": "8760h", "usages": ["signing", "client auth"]}}}\n',
  'the end of a conflict': '<<<<<<< HEAD\nclusters: a\n=======\nclusters: b\n>>>>>>> other\n',
};

/** Labels of PEM blocks that are neither certificates nor keys as components read them. */
const labels = [
  'OPENSSH PRIVATE KEY',
  'DSA PRIVATE KEY',
  'PGP MESSAGE',
  'PGP PUBLIC KEY BLOCK',
  'PGP PRIVATE KEY BLOCK',
  'CERTIFICATE REQUEST',
  'NEW CERTIFICATE REQUEST',
  'PUBLIC KEY',
  'RSA PUBLIC KEY',
  'DH PARAMETERS',
  'X509 CRL',
  'PKCS7',
  'CMS',
  'ATTRIBUTE CERTIFICATE',
  'AGE ENCRYPTED FILE',
];

const hex = (text: string): Buffer => Buffer.from(text, 'hex');
const noise = (seed: number, length: number): Buffer => new Dice(seed).bytes(length);

/** As tar(1) has a member: a header of 512 bytes, and its text. */
function tar(name: string, text: string): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write('0000644\0', 100);
  header.write('ustar\u000000root', 257);
  return Buffer.concat([header, Buffer.from(text), Buffer.alloc(512)]);
}

function binaries({ kubeconfig, certificate, key }: OtherCluster): Readonly<Record<string, Buffer>> {
  const der = (pem: string): Buffer => Buffer.from(pem.replaceAll(/-.*-|\s/g, ''), 'base64');
  return {
    'gzip of a kubeconfig': gzipSync(kubeconfig),
    'raw deflate': deflateRawSync(kubeconfig),
    brotli: brotliCompressSync(kubeconfig),
    'a tar of a kubeconfig': tar('scheduler.conf', kubeconfig),
    'a tar of a certificate': tar('ca.crt', certificate),
    'a tar of a key': tar('ca.key', key),
    zip: Buffer.concat([hex('504b0304140000000800'), noise(1, 300)]),
    xz: Buffer.concat([hex('fd377a585a000004'), noise(2, 300)]),
    bzip2: Buffer.concat([Buffer.from('BZh91AY&SY'), noise(3, 300)]),
    zstd: Buffer.concat([hex('28b52ffd'), noise(4, 300)]),
    'a program': Buffer.concat([hex('7f454c460201010000'), noise(5, 300)]),
    'a Java keystore': Buffer.concat([hex('feedfeed00000002'), noise(6, 300)]),
    'a database': Buffer.concat([Buffer.from('SQLite format 3\0'), noise(7, 300)]),
    'an image': Buffer.concat([hex('89504e470d0a1a0a'), noise(8, 300)]),
    'a PDF document': Buffer.concat([Buffer.from('%PDF-1.7\n'), noise(9, 300)]),
    'a certificate in DER': der(certificate),
    'a key in DER': der(key),
    'text in UTF-16': Buffer.concat([hex('fffe'), Buffer.from('nothing to see\n', 'utf16le')]),
    'text in Latin-1': Buffer.from('Schl\u00fcssel f\u00fcr Pr\u00fcfung\n', 'latin1'),
    'text behind a byte order mark': Buffer.from('\ufeffnothing to see\n'),
    'text before zeros': Buffer.from(`nothing to see\n${'\0'.repeat(500)}`),
    'text behind zeros': Buffer.from(`${'\0'.repeat(500)}nothing to see\n`),
    'a document before zeros': Buffer.from(`${documents['KubeletConfiguration'] ?? ''}${'\0'.repeat(500)}`),
    ...Object.fromEntries([16, 512, 4096].map((length) => [`${length} bytes of noise`, noise(length, length)])),
  };
}

/** Kubeconfigs that are sound and none of this machine's. */
function tornKubeconfigs({ kubeconfig, expired }: OtherCluster): Readonly<Record<string, string>> {
  const renamed = renamedOf(kubeconfig);
  return {
    "another kubeadm's kubeconfig that has expired": expired,
    "another cluster's kubeconfig that has expired": renamedOf(expired),
    "another kubeadm's kubeconfig, cut off within its contexts": kubeconfig.slice(
      0,
      kubeconfig.indexOf('current-context'),
    ),
    "another kubeadm's kubeconfig, cut off within its key": kubeconfig.slice(0, -200),
    "another cluster's kubeconfig, cut off within its certificate": renamed.slice(
      0,
      renamed.indexOf('client-certificate-data') + 500,
    ),
    "another cluster's kubeconfig with damaged contexts": renamed.replace('contexts:\n', 'contexts: [\n'),
  };
}

const renamedOf = (text: string): string =>
  text.replaceAll(/\bkubernetes\b/g, 'prod').replaceAll('kubernetes-admin', 'bob');

function kubeconfigs({ kubeconfig }: OtherCluster): Readonly<Record<string, string>> {
  const renamed = renamedOf(kubeconfig);
  const withUser = (user: string): string =>
    renamed.replace(/ {4}client-certificate-data: .*\n {4}client-key-data: .*\n/, `    ${user}\n`);
  return {
    "another kubeadm's kubeconfig": kubeconfig,
    "another kubeadm's kubeconfig in JSON": JSON.stringify(parseYaml(kubeconfig)),
    "another kubeadm's kubeconfig with line ends of Windows": kubeconfig.replaceAll('\n', '\r\n'),
    "another cluster's kubeconfig": renamed,
    "another cluster's kubeconfig, by a token": withUser('token: abc'),
    "another cluster's kubeconfig, by a plugin": withUser(
      'exec: {apiVersion: client.authentication.k8s.io/v1, command: aws}',
    ),
    "another cluster's kubeconfig, by a password": withUser('username: bob'),
    "another cluster's kubeconfig, by a provider": withUser('auth-provider: {name: gcp}'),
  };
}

const half = (text: string): string => text.slice(0, Math.ceil(text.length / 2));

export function contentsOfOthers(other: OtherCluster): readonly StrangeContent[] {
  const { kubeconfig, certificate, key } = other;
  const of = (name: string, content: string | Buffer, ...roles: readonly Role[]): StrangeContent => ({
    name,
    content: Buffer.from(content as string),
    ...(roles.length > 0 && { of: roles }),
  });
  const pem = (label: string): string =>
    `-----BEGIN ${label}-----\n${'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2\n'.repeat(5)}-----END ${label}-----\n`;
  const holding = (text: string): string =>
    `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: files\ndata:\n  file: |\n${text.replaceAll(/^(?=.)/gm, '    ')}`;
  const quoted = (name: string, pemText: string): readonly StrangeContent[] => [
    of(`a ConfigMap that holds ${name}`, holding(pemText)),
    of(`half of a ConfigMap that holds ${name}`, holding(pemText).slice(0, -pemText.length / 2)),
    of(`JSON that holds ${name}`, JSON.stringify({ file: pemText })),
    of(`a configuration of OpenVPN with half of ${name}`, `client\nremote vpn 1194\n<ca>\n${half(pemText)}`),
    of(`a page that mentions the first line of ${name}`, `Paste the line ${pemText.split('\n')[0] ?? ''} here\n`),
  ];
  return [
    ...quoted('a certificate', certificate),
    ...quoted('a private key', key),
    of('a heading over dashes', 'Runbook\n-----\n'),
    of('lists of clusters and users with items of others', 'clusters:\n- name: a\n  nodes: 3\nusers:\n- name: bob\n'),
    of('a kubeconfig in comments', kubeconfig.replaceAll(/^(?=.)/gm, '# ')),
    ...Object.entries(documents).flatMap(([name, text]) => [
      of(name, text),
      of(`half of ${name}`, half(text)),
      of(`${name} in JSON`, JSON.stringify(parseYaml(text), null, 2)),
    ]),
    ...Object.entries(texts).map(([name, text]) => of(name, text)),
    ...['a unit file', 'a configuration of HAProxy', 'a shell script', 'an EnvironmentFile'].map((name) =>
      of(`half of ${name}`, half(texts[name] ?? '')),
    ),
    ...Object.entries(binaries(other)).map(([name, content]) => of(name, content)),
    ...labels.map((label) => of(`a PEM block "${label}"`, pem(label))),
    ...labels.slice(0, 6).map((label) => of(`half of a PEM block "${label}"`, half(pem(label)))),
    of('a certificate', certificate, 'certificate'),
    of('a private key', key, 'key'),
    of('half a certificate', half(certificate), 'certificate'),
    of('half a private key', half(key), 'key'),
    of('certificate and key', `${certificate}${key}`, 'certificate', 'key'),
    of('a ConfigMap that holds a kubeconfig', holding(kubeconfig)),
    of('a script that writes a kubeconfig', `#!/bin/sh\ncat > x <<EOF\n${kubeconfig}EOF\n`),
    of('a script that writes a certificate', `#!/bin/sh\ncat > x <<EOF\n${certificate}EOF\n`),
    ...Object.entries(tornKubeconfigs(other)).map(([name, text]) => ({
      ...of(name, text),
      isOfAnother: true as const,
    })),
    ...Object.entries(kubeconfigs(other)).map(([name, text]) => ({
      ...of(name, text),
      isOfAnother: true as const,
      works: true as const,
    })),
  ];
}
