// What `kubeadm init` publishes for everybody, and the right to read it (cmd/kubeadm/app/phases/bootstraptoken/clusterinfo).
import { toYaml } from '../../../lib/yaml.ts';

const namespace = 'kube-public';
const name = 'kubeadm:bootstrap-signer-clusterinfo';
const rbac = 'rbac.authorization.k8s.io';

/** The kubeconfig as kubeadm's encoder writes it. */
export const clusterInfoKubeconfig = (server: string, ca: string): string =>
  `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: ${Buffer.from(ca).toString('base64')}
    server: ${server}
  name: ""
contexts: null
current-context: ""
kind: Config
preferences: {}
users: null
`;

/** Of kubectl. */
export const clusterInfoManifests = (server: string, ca: string): readonly string[] =>
  [
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'cluster-info', namespace },
      data: { kubeconfig: clusterInfoKubeconfig(server, ca) },
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'Role',
      metadata: { name, namespace },
      rules: [{ apiGroups: [''], resources: ['configmaps'], resourceNames: ['cluster-info'], verbs: ['get'] }],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'RoleBinding',
      metadata: { name, namespace },
      roleRef: { apiGroup: rbac, kind: 'Role', name },
      subjects: [{ kind: 'User', name: 'system:anonymous' }],
    },
  ].map((manifest) => toYaml(manifest));
