// Files as kubeadm and the kubelet lay them out, for the tests of the disk store: a pair, a kubeconfig with everything
// embedded, one that names the kubelet's file, and the kubelet's links to dated files.
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LocationOf } from '../../lib/inventory/model.ts';
import { authorityKey, type Entries, type Material } from '../../lib/store/store.ts';
import { certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';
import { createAuthority, createLeaf, type LeafOptions } from '../support/certificates/certificates.ts';

export interface HostFiles {
  readonly pair: LocationOf<'pemPair'>;
  readonly admin: LocationOf<'kubeconfig'>;
  readonly kubelet: LocationOf<'kubeconfig'>;
  readonly server: LocationOf<'combinedPem'>;
  /** The kubelet's own: the link that its kubeconfig names. */
  readonly client: LocationOf<'combinedPem'>;
  readonly kubeletPki: string;
}

export function hostFiles(directory: string): HostFiles {
  const kubeletPki = join(directory, 'kubelet', 'pki');
  const credentials = join(kubeletPki, 'kubelet-client-current.pem');
  return {
    pair: { kind: 'pemPair', certFile: join(directory, 'apiserver.crt'), keyFile: join(directory, 'apiserver.key') },
    admin: { kind: 'kubeconfig', file: join(directory, 'admin.conf'), endpoint: 'controlPlane' },
    kubelet: { kind: 'kubeconfig', file: join(directory, 'kubelet.conf'), endpoint: 'controlPlane', credentials },
    server: { kind: 'combinedPem', file: join(kubeletPki, 'kubelet-server-current.pem') },
    client: { kind: 'combinedPem', file: credentials },
    kubeletPki,
  };
}

const text = (entries: Entries, key: string): string => Buffer.from(entries[key] ?? '').toString();
export const base64 = (entries: Entries, key: string): string => Buffer.from(entries[key] ?? '').toString('base64');
export const combined = ({ entries }: Material): string => text(entries, certificateKey) + text(entries, privateKeyKey);

/** As kubeadm writes it, with what an administrator may have added. `user`: the fields of its user, indented. */
export function kubeconfigText(authority: string, user: string): string {
  return `# made by kubeadm
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: ${authority}
    server: https://10.0.0.1:6443 # through the load balancer
  name: kubernetes
- cluster:
    server: https://other:6443
  name: other
contexts:
- context:
    cluster: other
    user: somebody
  name: somebody@other
- context:
    cluster: kubernetes
    namespace: kube-system
    user: kubernetes-admin
  name: kubernetes-admin@kubernetes
current-context: kubernetes-admin@kubernetes
kind: Config
preferences: {}
users:
- name: somebody
  user:
    token: not-ours
- name: kubernetes-admin
  user:
${user}
`;
}

export const embedded = ({ entries }: Material): string =>
  `    client-certificate-data: ${base64(entries, certificateKey)}\n    client-key-data: ${base64(entries, privateKeyKey)}`;

export const referenced = (certificate: string, key = certificate): string =>
  `    client-certificate: ${certificate}\n    client-key: ${key}`;

/** All of it, with `material` as every credential and `authority` as the CA of the kubeconfigs. */
export async function layOut(directory: string, material: Material, authority: Uint8Array): Promise<HostFiles> {
  const files = hostFiles(directory);
  const { pair, admin, kubelet, kubeletPki } = files;
  const ca = Buffer.from(authority).toString('base64');
  const secret = { mode: 0o600 };
  await mkdir(kubeletPki, { recursive: true });
  await writeFile(pair.keyFile, text(material.entries, privateKeyKey), secret);
  await writeFile(pair.certFile, text(material.entries, certificateKey));
  await writeFile(admin.file, kubeconfigText(ca, embedded(material)), secret);
  await writeFile(kubelet.file, kubeconfigText(ca, referenced(kubelet.credentials ?? '')), secret);
  for (const name of ['client', 'server']) {
    const dated = join(kubeletPki, `kubelet-${name}-2025-11-20-10-00-00.pem`);
    await writeFile(dated, combined(material), secret);
    await symlink(dated, join(kubeletPki, `kubelet-${name}-current.pem`));
  }
  return files;
}

/** Two pairs of one subject below `root`, and the CA that has signed them, PEM. */
export async function twoPairsIn(root: string, subject: LeafOptions) {
  const signer = await createAuthority(join(root, 'ca'), { commonName: 'kubernetes' });
  for (const name of ['first', 'second']) await createLeaf(join(root, name), signer, subject);
  const [first, second] = await Promise.all([materialIn(root, 'first'), materialIn(root, 'second')]);
  return { first, second, authority: await readFile(signer.cert) };
}

/** Two generations of one credential, from files that openssl made: `<directory>/<name>/tls.{crt,key}`. */
export async function materialIn(directory: string, name: string): Promise<Material> {
  const [certificate, key] = await Promise.all(
    ['tls.crt', 'tls.key'].map((file) => readFile(join(directory, name, file))),
  );
  return {
    entries: { [certificateKey]: certificate ?? Buffer.of(), [privateKeyKey]: key ?? Buffer.of() },
    annotations: {},
  };
}

export const withAuthority = ({ entries }: Material, authority: Uint8Array): Material => ({
  entries: { ...entries, [authorityKey]: authority },
  annotations: {},
});
