// What lies on the disk of an OpenShift control-plane machine, as its operators leave it: below <component>-certs the plain
// files of the original cert-syncer, below <component>-pod-<revision> what an installer pod has copied there.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import type { Cluster } from './cluster.ts';
import { withScratch } from './node.ts';
import { certsOf, type Component, components, resources, revisionOf } from './openshift-pods.ts';

/** Path to content and mode. */
export type Files = ReadonlyMap<string, { readonly content: string | Buffer; readonly mode: number }>;

/** Puts files on the machine, which may be off; directories on the way are made. */
export async function putFiles({ node }: Pick<Cluster, 'node'>, files: Files): Promise<void> {
  await withScratch(async (scratch) => {
    for (const [path, { content, mode }] of files) {
      await mkdir(dirname(join(scratch, path)), { recursive: true });
      await writeFile(join(scratch, path), content, { mode });
    }
    await node.copyIn(scratch, '/');
  });
}

interface Stored {
  readonly data?: Readonly<Record<string, string>>;
}

/** The entries of an object; undefined: it is not there. */
async function entriesOf(
  cluster: Cluster,
  kind: 'secret' | 'configMap',
  object: string,
): Promise<Readonly<Record<string, Buffer>> | undefined> {
  const [namespace, name] = object.split('/');
  const resource = kind === 'secret' ? 'secrets' : 'configmaps';
  const { status, body } = await cluster.api(`/api/v1/namespaces/${namespace}/${resource}/${name}`);
  if (status === 404) return undefined;
  if (status !== 200) throw new Error(`${object}: ${status} ${JSON.stringify(body)}`);
  const encoding = kind === 'secret' ? 'base64' : 'utf8';
  const data = Object.entries((body as Stored).data ?? {});
  return Object.fromEntries(data.map(([key, value]) => [key, Buffer.from(value, encoding)]));
}

const folders = { secret: ['secrets', 0o600], configMap: ['configmaps', 0o644] } as const;

/** What the syncer of a component is to have written, as the API has it now. */
async function published(cluster: Cluster, component: Component, files: Map<string, FileContent>): Promise<void> {
  for (const { truth, published: wanted } of resolve(loadPreset(component.preset), {}).artefacts) {
    if (wanted === undefined || (truth.kind !== 'secret' && truth.kind !== 'configMap')) continue;
    const entries = await entriesOf(cluster, truth.kind, `${truth.namespace}/${truth.name}`);
    if (entries === undefined && wanted === 'required') throw new Error(`${truth.name} is not there`);
    const [folder, mode] = folders[truth.kind];
    for (const [key, content] of Object.entries(entries ?? {})) {
      files.set(join(certsOf(component), folder, truth.name, key), { content, mode });
    }
  }
}

/** Paths on the machine, on or off, whose files are not what the API has. */
export async function differOnDisk(cluster: Cluster): Promise<string[]> {
  const wanted = new Map<string, FileContent>();
  for (const component of components) await published(cluster, component, wanted);
  const copy = await cluster.node.copyOut(resources);
  try {
    const different = await Promise.all(
      [...wanted].map(async ([path, { content }]) => {
        const found = await readFile(join(copy, path.slice(resources.length))).catch(() => undefined);
        return found?.equals(Buffer.from(content)) === true ? [] : [path];
      }),
    );
    return different.flat();
  } finally {
    await rm(dirname(copy), { recursive: true, force: true });
  }
}

type FileContent = Files extends ReadonlyMap<string, infer T> ? T : never;

export interface Names {
  readonly internalHost: string;
}

/** The API and kubeadm's files are as the conversion has made them. */
export async function openshiftFiles(cluster: Cluster, { internalHost }: Names): Promise<Files> {
  const files = new Map<string, FileContent>();
  const { node } = cluster;
  const kubeadm = (name: string): Promise<string> => node.read(`/etc/kubernetes/pki/${name}`);
  const from = async (kind: 'secret' | 'configMap', object: string): Promise<Readonly<Record<string, Buffer>>> => {
    const entries = await entriesOf(cluster, kind, object);
    if (entries === undefined) throw new Error(`${object} is not there`);
    return entries;
  };
  const T = 'openshift-kube-apiserver';
  const serverCa = await from('configMap', `${T}/kube-apiserver-server-ca`);
  const serviceAccountCa = await from('configMap', 'openshift-kube-controller-manager/serviceaccount-ca');
  const publicKey = { 'service-account-001.pub': await kubeadm('sa.pub') };
  for (const component of components) {
    await published(cluster, component, files);
    // What an exchange of directories that was cut short has left.
    files.set(join(certsOf(component), 'staging/cert-sync/tls.crt'), { content: 'left behind', mode: 0o600 });
    const put = (
      kind: 'secret' | 'configMap',
      name: string,
      entries: Readonly<Record<string, string | Buffer>>,
    ): void => {
      const [folder, mode] = folders[kind];
      for (const [key, content] of Object.entries(entries)) {
        files.set(join(revisionOf(component), folder, name, key), { content, mode });
      }
    };
    const token = await from('secret', `${component.namespace}/localhost-recovery-client-token`);
    // What kube-controller-manager writes there once its root-ca-file is OpenShift's.
    put('secret', 'localhost-recovery-client-token', { ...token, 'ca.crt': serviceAccountCa['ca-bundle.crt'] ?? '' });
    const ofApiServer = component.name === 'kube-apiserver';
    const authority = ofApiServer
      ? `${resources}/configmaps/kube-apiserver-server-ca/ca-bundle.crt`
      : `${resources}/secrets/localhost-recovery-client-token/ca.crt`;
    put('configMap', component.recoveryKubeconfig, { kubeconfig: recoveryKubeconfig(authority) });
    if (ofApiServer) {
      put('configMap', 'kube-apiserver-server-ca', serverCa);
      put('configMap', 'kubelet-serving-ca', await from('configMap', `${T}/kubelet-serving-ca`));
      put('configMap', 'etcd-serving-ca', { 'ca-bundle.crt': await kubeadm('etcd/ca.crt') });
      const [crt, key] = [await kubeadm('apiserver-etcd-client.crt'), await kubeadm('apiserver-etcd-client.key')];
      put('secret', 'etcd-client', { 'tls.crt': crt, 'tls.key': key });
      put(
        'secret',
        'localhost-recovery-serving-certkey',
        await from('secret', `${T}/localhost-recovery-serving-certkey`),
      );
      put('configMap', 'sa-token-signing-certs', publicKey);
      put('configMap', 'bound-sa-token-signing-certs', publicKey);
      continue;
    }
    put('configMap', 'serviceaccount-ca', serviceAccountCa);
    const [own, client] =
      component.name === 'kube-scheduler'
        ? ['scheduler-kubeconfig', 'kube-scheduler-client-cert-key']
        : ['controller-manager-kubeconfig', 'kube-controller-manager-client-cert-key'];
    put('configMap', own, { kubeconfig: componentKubeconfig(internalHost, client) });
    if (component.name === 'kube-scheduler') continue;
    put('secret', 'service-account-private-key', { 'service-account.key': await kubeadm('sa.key') });
  }
  const ca = (await from('configMap', `${T}/client-ca`))['ca-bundle.crt'] ?? '';
  files.set(kubeletClientCa, { content: ca, mode: 0o644 });
  const kubelet = {
    'client-certificate': '/var/lib/kubelet/pki/kubelet-client-current.pem',
    'client-key': '/var/lib/kubelet/pki/kubelet-client-current.pem',
  };
  const cluster_ = {
    server: `https://${node.address}:6443`,
    'tls-server-name': internalHost, // the machine knows no such name
    'certificate-authority-data': (serverCa['ca-bundle.crt'] ?? Buffer.of()).toString('base64'),
  };
  files.set('/etc/kubernetes/kubelet.conf', { content: kubeconfig(cluster_, kubelet), mode: 0o600 });
  return files;
}

export const kubeletClientCa = '/etc/kubernetes/kubelet-ca.crt';

const kubeconfig = (cluster: object, user: object): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  });

const recoveryKubeconfig = (authority: string): string =>
  kubeconfig(
    { 'certificate-authority': authority, server: 'https://localhost:6443', 'tls-server-name': 'localhost-recovery' },
    { tokenFile: `${resources}/secrets/localhost-recovery-client-token/token` },
  );

function componentKubeconfig(internalHost: string, client: string): string {
  const directory = `/etc/kubernetes/static-pod-certs/secrets/${client}`;
  return kubeconfig(
    {
      'certificate-authority': `${resources}/configmaps/serviceaccount-ca/ca-bundle.crt`,
      server: `https://${internalHost}:6443`,
    },
    { 'client-certificate': `${directory}/tls.crt`, 'client-key': `${directory}/tls.key` },
  );
}
