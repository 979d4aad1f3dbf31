// etcd as kubespray installs it: a service with an environment file, its CA on the first of its hosts, and pairs named for the host:
// member- for the server, admin- for people, node- for the API server.
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findBinaries } from '../cluster/binaries.ts';
import { type Leaf, pair } from './leaves.ts';
import { type Node, withScratch } from './node.ts';

const directory = '/etc/ssl/etcd/ssl';
const named = (name: string): Leaf => pair(name, 'ca.pem', directory.slice(1));

/** Those that a host of etcd has which is a control plane, too. */
export const etcdServiceLeaves: readonly Leaf[] = [named('member-node1'), named('admin-node1'), named('node-node1')];

export const etcdServiceFile = `${directory}/member-node1.pem`;

/** `etcd` of a ClusterConfiguration (roles/kubernetes/control-plane/templates/kubeadm-config.v1beta4.yaml.j2). */
export const kubesprayEtcd = {
  external: {
    endpoints: ['https://127.0.0.1:2379'],
    caFile: `${directory}/ca.pem`,
    certFile: `${directory}/node-node1.pem`,
    keyFile: `${directory}/node-node1-key.pem`,
  },
};

/** roles/etcd/templates/etcd-host.service.j2 */
const unit = `[Unit]
Description=etcd
After=network.target

[Service]
Type=notify
User=root
EnvironmentFile=/etc/etcd.env
ExecStart=/usr/local/bin/etcd
NotifyAccess=all
Restart=always
RestartSec=10s
LimitNOFILE=40000

[Install]
WantedBy=multi-user.target
`;

/** roles/etcd/templates/etcd.env.j2 */
const environment = (address: string): string => `# Environment file for etcd
ETCD_DATA_DIR=/var/lib/etcd
ETCD_ADVERTISE_CLIENT_URLS=https://${address}:2379
ETCD_INITIAL_ADVERTISE_PEER_URLS=https://${address}:2380
ETCD_INITIAL_CLUSTER_STATE=new

ETCD_METRICS=basic
ETCD_LISTEN_CLIENT_URLS=https://${address}:2379,https://127.0.0.1:2379
ETCD_ELECTION_TIMEOUT=5000
ETCD_HEARTBEAT_INTERVAL=250
ETCD_INITIAL_CLUSTER_TOKEN=k8s_etcd
ETCD_LISTEN_PEER_URLS=https://${address}:2380
ETCD_NAME=etcd1
ETCD_INITIAL_CLUSTER=etcd1=https://${address}:2380
ETCD_AUTO_COMPACTION_RETENTION=8
ETCD_SNAPSHOT_COUNT=100000

# TLS settings
ETCD_TRUSTED_CA_FILE=${directory}/ca.pem
ETCD_CERT_FILE=${directory}/member-node1.pem
ETCD_KEY_FILE=${directory}/member-node1-key.pem
ETCD_CLIENT_CERT_AUTH=true

ETCD_PEER_TRUSTED_CA_FILE=${directory}/ca.pem
ETCD_PEER_CERT_FILE=${directory}/member-node1.pem
ETCD_PEER_KEY_FILE=${directory}/member-node1-key.pem
ETCD_PEER_CLIENT_CERT_AUTH=True

# CLI settings
ETCDCTL_ENDPOINTS=https://127.0.0.1:2379
ETCDCTL_CACERT=${directory}/ca.pem
ETCDCTL_KEY=${directory}/admin-node1-key.pem
ETCDCTL_CERT=${directory}/admin-node1.pem
`;

/** roles/etcd/templates/make-ssl-etcd.sh.j2, openssl.conf.j2 */
const certificates = (address: string): string => `
  mkdir -p ${directory} /tmp/etcd && cd ${directory}
  printf '%s\\n' extendedKeyUsage=clientAuth,serverAuth basicConstraints=CA:FALSE subjectKeyIdentifier=hash \\
    authorityKeyIdentifier=keyid,issuer subjectAltName=DNS:localhost,DNS:node1,IP:${address},IP:127.0.0.1,IP:::1 > /tmp/etcd/ext
  openssl genrsa -out ca-key.pem 2048
  openssl req -x509 -new -nodes -key ca-key.pem -days 36500 -out ca.pem -subj /CN=etcd-ca
  for kind in member admin node; do
    openssl genrsa -out $kind-node1-key.pem 2048
    openssl req -new -key $kind-node1-key.pem -out /tmp/etcd/$kind.csr -subj "/CN=etcd-$kind-node1"
    openssl x509 -req -in /tmp/etcd/$kind.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -CAserial /tmp/etcd/serial \\
      -out $kind-node1.pem -days 365 -extfile /tmp/etcd/ext
  done
  chmod 600 *-key.pem`;

export async function installEtcd(node: Node): Promise<void> {
  await withScratch(async (scratch) => {
    const put = async (path: string, text: string): Promise<void> => {
      await mkdir(join(scratch, path, '..'), { recursive: true });
      await writeFile(join(scratch, path), text);
    };
    await put('etc/etcd.env', environment(node.address));
    await put('etc/systemd/system/etcd.service', unit);
    await mkdir(join(scratch, 'usr/local/bin'), { recursive: true });
    await copyFile((await findBinaries(['etcd'])).get('etcd') ?? '', join(scratch, 'usr/local/bin/etcd'));
    await node.copyIn(scratch, '/');
  });
  await node.sh(`${certificates(node.address)}\nsystemctl daemon-reload && systemctl enable --now etcd.service`);
}
