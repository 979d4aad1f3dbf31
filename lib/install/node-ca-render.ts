// The files with which a new node begins, for golden images and cloud-init: the CAs that it trusts, and the kubeconfig with
// which its kubelet requests its first certificate. A node that begins with an older rendering catches up by itself: its
// files follow the ConfigMap like those of any other node.
import { join } from 'node:path';
import { replaceFile } from '../disk/files.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { toYaml } from '../yaml.ts';
import type { Api } from './apply.ts';
import { kubeconfigYaml } from './component-flags.ts';
import { bundlesOfNodes, serverOf } from './node-ca-apply.ts';
import { nodeCaKeys, nodeCaName } from './node-ca-pod.ts';

/** Paths on the node: of the kubelet's configuration (authentication.x509.clientCAFile), and of its kubeconfigs. */
const paths = {
  clients: '/etc/kubernetes/pki/ca.crt',
  servers: '/etc/kubernetes/pki/server-ca.crt',
  kubeconfig: '/etc/kubernetes/bootstrap-kubelet.conf',
  /** Not rendered: the token is put there when the node is made. */
  token: '/etc/kubernetes/bootstrap-token',
} as const;

interface NodeFile {
  readonly path: string;
  readonly content: string;
  readonly mode: number;
}

/** `data`: of the ConfigMap. Pure. */
export function filesOfNewNode(data: Readonly<Record<string, string>>, server: string): readonly NodeFile[] {
  const user = { name: 'tls-bootstrap-token-user', tokenFile: paths.token };
  return [
    { path: paths.clients, content: data[nodeCaKeys.clients] ?? '', mode: 0o644 },
    { path: paths.servers, content: data[nodeCaKeys.servers] ?? '', mode: 0o644 },
    {
      path: paths.kubeconfig,
      content: kubeconfigYaml({ server, certificateAuthority: paths.servers, user }),
      mode: 0o600,
    },
  ];
}

/** `write_files` of cloud-init. Pure. */
export const cloudConfig = (files: readonly NodeFile[]): string =>
  `#cloud-config\n${toYaml({
    write_files: files.map(({ path, content, mode }) => ({ path, content, permissions: `0${mode.toString(8)}` })),
  })}`;

interface Rendering {
  /** Administrator's connection. */
  readonly api: Api;
  readonly namespace: string;
  /** Address of the API server for the nodes; undefined: as in cluster-info. */
  readonly server: string | undefined;
  /** The files get their paths below it. */
  readonly directory: string;
  readonly dryRun: boolean;
  readonly print: (line: string) => void;
}

/** Throws KubeNotFound for what the cluster does not publish, MaterialInvalid, the API's refusals, and WriteFailed. */
export async function renderNewNode({ api, namespace, directory, dryRun, print, ...told }: Rendering): Promise<void> {
  const { data } = await bundlesOfNodes(api, namespace);
  for (const key of Object.values(nodeCaKeys))
    parseCertificates(Buffer.from(data[key] ?? ''), `ConfigMap "${namespace}/${nodeCaName}" ${key}`);
  const files = filesOfNewNode(data, told.server ?? (await serverOf(api)));
  const all = [
    ...files.map((file) => ({ ...file, path: join(directory, file.path) })),
    { path: join(directory, 'cloud-config.yaml'), content: cloudConfig(files), mode: 0o600 },
  ];
  for (const { path, content, mode } of all) {
    if (dryRun) print(`--- # ${path}\n${content}`.trimEnd());
    else {
      const outcome = await replaceFile({ path, content, mode, what: 'file' });
      print(`${outcome === 'written' ? 'Wrote' : 'Unchanged:'} ${path}`);
    }
  }
  if (!dryRun) print(`A bootstrap token belongs into ${paths.token} of each node: "kubeadm token create" prints one.`);
}
