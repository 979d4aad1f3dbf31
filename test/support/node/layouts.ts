// Control planes as other installers than plain kubeadm lay them out, made by the real kubeadm with the configuration that they
// give it, and with what they do around it.
import { join } from 'node:path';
import { mkdir, writeFile } from 'node:fs/promises';
import type { CreateOptions } from './cluster.ts';
import { etcdServiceFile, etcdServiceLeaves, installEtcd, kubesprayEtcd } from './kubespray-etcd.ts';
import { type Leaf, leaves, leavesIn, superAdmin } from './leaves.ts';
import { type Node, withScratch } from './node.ts';

export interface Layout {
  readonly options: CreateOptions;
  /** What its components read, and people's kubeconfigs. */
  readonly leaves: readonly Leaf[];
  /** Port of each server, with the certificate file that it is to show. */
  readonly served: Readonly<Record<number, string>>;
  /** After kubeadm init, while the machine runs: what the installer changes. */
  readonly after?: (node: Node) => Promise<void>;
  /** Before the power comes back. */
  readonly whileOff?: (node: Node) => Promise<void>;
}

/** Texts of files, by path. */
async function putFiles(node: Node, files: Readonly<Record<string, string>>): Promise<void> {
  await withScratch(async (scratch) => {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(join(scratch, path, '..'), { recursive: true });
      await writeFile(join(scratch, path), text);
    }
    await node.copyIn(scratch, '/');
  });
}

const kubeletFlags =
  '--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf';

const every = [...leaves, superAdmin];

const proxyService = `[Unit]
Requires=load-balancer.socket
[Service]
ExecStart=/lib/systemd/systemd-socket-proxyd 127.0.0.1:6443
`;
const proxySocket = `[Socket]
ListenStream=127.0.0.1:8443
[Install]
WantedBy=sockets.target
`;

/**
 * Each component of a machine asks a load balancer on that machine, by a kubeconfig whose cluster, user and context have other
 * names than kubeadm's.
 */
export const localLoadBalancer: Layout = {
  options: { systemd: true, more: { apiServer: { certSANs: ['127.0.0.1', 'lb.local'] } } },
  leaves: every,
  served: { 6443: '/etc/kubernetes/pki/apiserver.crt', 2379: '/etc/kubernetes/pki/etcd/server.crt' },
  after: async (node) => {
    const units = '/etc/systemd/system/load-balancer';
    await putFiles(node, { [`${units}.service`]: proxyService, [`${units}.socket`]: proxySocket });
    await node.sh('systemctl daemon-reload && systemctl enable --now load-balancer.socket');
    const names = [
      's#server: .*#server: https://127.0.0.1:8443#',
      's#^current-context: .*#current-context: own#',
      's#^  name: kubernetes$#  name: local#',
      's#^    cluster: kubernetes$#    cluster: local#',
      's#^  name: .*@kubernetes$#  name: own#',
      's#^    user: .*#    user: component#',
      's#^- name: .*#- name: component#',
    ];
    const files = ['controller-manager', 'scheduler', 'kubelet'].map((name) => `/etc/kubernetes/${name}.conf`);
    await node.sh(`sed -i ${names.map((one) => `-e '${one}'`).join(' ')} ${files.join(' ')}`);
  },
};

const minikubeDirectory = 'var/lib/minikube/certs';
const controlPlane = 'control-plane.minikube.internal';

/** pkg/minikube/bootstrapper/certs.go: a CA for all clusters of a person, and a serving certificate that minikube itself signs. */
const minikubeCertificates = (address: string): string => `
  mkdir -p /${minikubeDirectory} /tmp/made && cd /${minikubeDirectory}
  new_ca() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -keyout "$1.key" -out "$1.crt" -subj "/CN=$2" \\
      -addext keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign -addext extendedKeyUsage=clientAuth,serverAuth
  }
  leaf() {
    openssl req -new -newkey rsa:2048 -nodes -keyout "$1.key" -out /tmp/made/csr -subj "$2"
    printf '%s\\n' keyUsage=critical,digitalSignature,keyEncipherment extendedKeyUsage=serverAuth,clientAuth \\
      basicConstraints=critical,CA:FALSE "$4" > /tmp/made/extensions
    openssl x509 -req -in /tmp/made/csr -CA "$3.crt" -CAkey "$3.key" -CAcreateserial -CAserial /tmp/made/serial -days 1095 \\
      -extfile /tmp/made/extensions -out "$1.crt"
  }
  new_ca ca minikubeCA && new_ca proxy-client-ca proxyClientCA
  names=DNS:minikubeCA,DNS:${controlPlane},DNS:node1,DNS:kubernetes.default.svc.cluster.local,DNS:kubernetes.default.svc
  names=$names,DNS:kubernetes.default,DNS:kubernetes,DNS:localhost,IP:10.96.0.1,IP:127.0.0.1,IP:10.0.0.1,IP:${address}
  leaf apiserver /O=system:masters/CN=minikube ca subjectAltName=$names
  leaf proxy-client /O=system:masters/CN=aggregator proxy-client-ca
  chmod 600 *.key`;

const minikubeKubeconfig = `apiVersion: v1
clusters:
- cluster:
    certificate-authority: /${minikubeDirectory}/ca.crt
    server: https://localhost:8443
  name: node1
contexts:
- context:
    cluster: node1
    user: node1
  name: node1
current-context: node1
kind: Config
users:
- name: node1
  user:
    client-certificate: /${minikubeDirectory}/apiserver.crt
    client-key: /${minikubeDirectory}/apiserver.key
`;

/** As minikube writes it again at each of its starts. */
const minikubeHosts = `echo '127.0.0.1 ${controlPlane}' >> /etc/hosts`;
const off = { extraArgs: [{ name: 'leader-elect', value: 'false' }] };

export const minikube = (etcdTag: string): Layout => ({
  options: {
    systemd: true,
    port: 8443,
    certificatesDir: `/${minikubeDirectory}`,
    more: {
      clusterName: 'mk',
      controlPlaneEndpoint: `${controlPlane}:8443`,
      etcd: { local: { dataDir: '/var/lib/minikube/etcd', imageTag: etcdTag } },
      apiServer: { certSANs: ['127.0.0.1', 'localhost'] },
      controllerManager: off,
      scheduler: off,
    },
    before: async (node) => {
      const { address } = node;
      await node.sh(`${minikubeHosts}\n${minikubeCertificates(address)}`);
      await putFiles(node, {
        '/var/lib/minikube/kubeconfig': minikubeKubeconfig,
        '/etc/systemd/system/kubelet.service.d/10-kubeadm.conf': `[Unit]
Wants=containerd.service

[Service]
ExecStart=
ExecStart=/usr/bin/kubelet ${kubeletFlags} --config=/var/lib/kubelet/config.yaml --hostname-override=node1 --node-ip=${address}

[Install]
`,
      });
      await node.sh('systemctl daemon-reload');
    },
  },
  leaves: leavesIn(minikubeDirectory),
  served: { 8443: `/${minikubeDirectory}/apiserver.crt`, 2379: `/${minikubeDirectory}/etcd/server.crt` },
  whileOff: (node) => node.atBoot(minikubeHosts),
});

/** images/base/files/usr/local/bin/entrypoint: enable_network_magic and fix_certificate, as far as files are concerned. */
const kindEntrypoint = `
  old=$(cat /kind/old-ipv4) new=$(getent ahostsv4 "$(hostname)" | head -n1 | cut -d' ' -f1)
  for file in /etc/kubernetes/manifests/etcd.yaml /etc/kubernetes/manifests/kube-apiserver.yaml \\
    /etc/kubernetes/manifests/kube-controller-manager.yaml /etc/kubernetes/manifests/kube-scheduler.yaml \\
    /etc/kubernetes/controller-manager.conf /etc/kubernetes/scheduler.conf /etc/kubernetes/kubelet.conf \\
    /kind/kubeadm.conf /var/lib/kubelet/kubeadm-flags.env; do
    [ ! -f $file ] || sed -i "s#\\b$(echo "$old" | sed 's/\\./\\\\./g')\\b#$new#g" $file
  done
  printf %s "$new" > /kind/old-ipv4
  rm -f /etc/kubernetes/pki/apiserver.crt /etc/kubernetes/pki/apiserver.key
  kubeadm init phase certs apiserver --config /kind/kubeadm.conf > /var/log/kind.log 2>&1`;

/** Its container gets another address; its entrypoint writes that where the former one stands. */
export const kind: Layout = {
  options: {
    systemd: true,
    more: {
      clusterName: 'kind',
      controlPlaneEndpoint: 'node1:6443',
      apiServer: { certSANs: ['localhost', '127.0.0.1'] },
      controllerManager: { extraArgs: [{ name: 'enable-hostpath-provisioner', value: 'true' }] },
      networking: { podSubnet: '10.244.0.0/16', serviceSubnet: '10.96.0.0/16' },
    },
  },
  leaves: every,
  served: { 6443: '/etc/kubernetes/pki/apiserver.crt', 2379: '/etc/kubernetes/pki/etcd/server.crt' },
  after: async (node) => {
    await node.sh(`mkdir /kind && cp /var/lib/machine/kubeadm.yaml /kind/kubeadm.conf
      printf %s '${node.address}' > /kind/old-ipv4`);
  },
  whileOff: async (node) => {
    await node.moveTo(node.address.replace(/\d+$/, '77'));
    await node.atBoot(kindEntrypoint);
  },
};

/** Those of an etcd that kubeadm makes. */
const etcdLeaves = ['etcd-server', 'etcd-peer', 'etcd-healthcheck-client', 'apiserver-etcd-client'];
const kubesprayDirectory = '/etc/kubernetes/ssl';

const kubesprayUnit = `[Unit]
Description=Kubernetes Kubelet Server
After=containerd.service
Wants=containerd.service

[Service]
EnvironmentFile=-/etc/kubernetes/kubelet.env
ExecStart=/usr/bin/kubelet \\
		$KUBE_LOG_LEVEL \\
		$KUBELET_ADDRESS \\
		$KUBELET_HOSTNAME \\
		$KUBELET_ARGS
Restart=always
RestartSec=10s

[Install]
WantedBy=multi-user.target
`;
const kubesprayKubelet = (address: string): string => `KUBE_LOG_LEVEL="--v=2"
KUBELET_ADDRESS="--node-ip=${address}"
KUBELET_HOSTNAME="--hostname-override=node1"
KUBELET_ARGS="--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \\
--config=/etc/kubernetes/kubelet-config.yaml \\
--kubeconfig=/etc/kubernetes/kubelet.conf \\
"
`;

/** roles/kubernetes: another directory of certificates, which kubeadm's usual one may lead to, and a unit of the kubelet's own. */
export const kubespray = ({
  link,
  etcdService = false,
}: {
  readonly link: boolean;
  readonly etcdService?: boolean;
}): Layout => ({
  options: {
    systemd: true,
    certificatesDir: kubesprayDirectory,
    more: { clusterName: 'cluster.local', ...(etcdService && { etcd: kubesprayEtcd }) },
    before: async (node) => {
      await node.sh(`mkdir -p ${kubesprayDirectory} ${link ? '&& ln -s ssl /etc/kubernetes/pki' : ''}`);
      await putFiles(node, {
        '/etc/systemd/system/kubelet.service': kubesprayUnit,
        // kubeadm's package brings one, and this machine is not made of packages.
        '/etc/systemd/system/kubelet.service.d/10-kubeadm.conf': '[Service]\n',
        '/etc/kubernetes/kubelet.env': kubesprayKubelet(node.address),
      });
      if (etcdService) await installEtcd(node);
      // kubespray writes it before kubeadm init; its contents are those of the file that kubeadm writes.
      await node.sh(
        'ln -s /var/lib/kubelet/config.yaml /etc/kubernetes/kubelet-config.yaml && systemctl daemon-reload',
      );
    },
  },
  leaves: etcdService
    ? [...leavesIn(kubesprayDirectory.slice(1), etcdLeaves), ...etcdServiceLeaves]
    : leavesIn(kubesprayDirectory.slice(1)),
  served: {
    6443: `${kubesprayDirectory}/apiserver.crt`,
    2379: etcdService ? etcdServiceFile : `${kubesprayDirectory}/etcd/server.crt`,
  },
  // Where pki leads nowhere, what is lost has to be made where the flags say.
  ...(!link && {
    whileOff: (node) =>
      node.atBoot(`cd ${kubesprayDirectory} && rm apiserver.crt apiserver.key etcd/healthcheck-client.key`),
  }),
});
