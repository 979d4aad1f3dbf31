// An extension server on a node: the aggregated API wardle.example.com/v1alpha1, reached by kube-apiserver as a front
// proxy, whose client certificate it demands. It learns what to trust from kube-system/extension-apiserver-authentication.
import { type Admin, create } from '../cluster/openshift.ts';
import { sampleApiObjects } from '../cluster/sample-api.ts';
import type { Cluster } from './cluster.ts';
import { pauseImage } from './component-images.ts';

const directory = '/var/lib/extension-server';
const port = 7443;

/** As a static pod, whose etcd is that of kubeadm. */
export async function startExtensionServer(cluster: Cluster, api: Admin): Promise<void> {
  const { node } = cluster;
  await node.sh(`mkdir ${directory} && cd ${directory}
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=sample -addext subjectAltName=DNS:sample-apiserver.default.svc \\
      -keyout tls.key -out tls.crt 2> /dev/null
    cat > kubeconfig <<'END'\n${cluster.kubeconfig()}\nEND\n`);
  const pki = '/etc/kubernetes/pki';
  const binary = '/usr/bin/sample-apiserver';
  const kubeconfigs = ['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'];
  const mounted = (name: string, path: string) => ({
    volume: { name, hostPath: { path } },
    mount: { name, mountPath: path, readOnly: true },
  });
  const mounts = [mounted('binary', binary), mounted('own', directory), mounted('pki', pki)];
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace: 'default', name: 'extension-server' },
    spec: {
      hostNetwork: true,
      containers: [
        {
          name: 'extension-server',
          image: pauseImage,
          imagePullPolicy: 'Never',
          command: [
            binary,
            `--secure-port=${port}`,
            '--etcd-servers=https://127.0.0.1:2379',
            `--etcd-cafile=${pki}/etcd/ca.crt`,
            `--etcd-certfile=${pki}/apiserver-etcd-client.crt`,
            `--etcd-keyfile=${pki}/apiserver-etcd-client.key`,
            `--tls-cert-file=${directory}/tls.crt`,
            `--tls-private-key-file=${directory}/tls.key`,
            ...kubeconfigs.map((flag) => `--${flag}=${directory}/kubeconfig`),
          ],
          volumeMounts: mounts.map(({ mount }) => mount),
        },
      ],
      volumes: mounts.map(({ volume }) => volume),
    },
  };
  await node.sh(`cat > /etc/kubernetes/manifests/extension-server.yaml <<'END'\n${JSON.stringify(pod)}\nEND`);
  const caBundle = Buffer.from(await node.read(`${directory}/tls.crt`)).toString('base64');
  const [service, apiService] = sampleApiObjects({ caBundle, port });
  await create(api, '/api/v1/namespaces/default/services', service);
  await create(api, '/apis/apiregistration.k8s.io/v1/apiservices', apiService);
}
