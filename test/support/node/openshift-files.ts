// What lies on the disk of an OpenShift control-plane machine, as its operators leave it: below <component>-certs the plain
// files of the original cert-syncer, below <component>-pod-<revision> what an installer pod has copied there.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { kubeconfigOf } from '../certificates/kubeconfig.ts';
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
export async function entriesOf(
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
  for (const { location, published: wanted } of resolve(loadPreset(component.preset), {}).artefacts) {
    if (wanted === undefined || (location.kind !== 'secret' && location.kind !== 'configMap')) continue;
    const entries = await entriesOf(cluster, location.kind, `${location.namespace}/${location.name}`);
    if (entries === undefined && wanted === 'required') throw new Error(`${location.name} is not there`);
    const [folder, mode] = folders[location.kind];
    for (const [key, content] of Object.entries(entries ?? {})) {
      files.set(join(certsOf(component), folder, location.name, key), { content, mode });
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
type Entries = Readonly<Record<string, string | Buffer>>;

/** What an installer pod has copied, by name of the object. */
interface Revision {
  readonly configMaps: Readonly<Record<string, Entries>>;
  readonly secrets: Readonly<Record<string, Entries>>;
}

const T = 'openshift-kube-apiserver';
const bundleKey = 'ca-bundle.crt';

/** Reads what is there after the conversion: objects, and kubeadm's files. */
class Sources {
  readonly #cluster: Cluster;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  secret(object: string): Promise<Entries> {
    return this.#required('secret', object);
  }

  configMap(object: string): Promise<Entries> {
    return this.#required('configMap', object);
  }

  kubeadm(name: string): Promise<string> {
    return this.#cluster.node.read(`/etc/kubernetes/pki/${name}`);
  }

  async #required(kind: 'secret' | 'configMap', object: string): Promise<Entries> {
    const entries = await entriesOf(this.#cluster, kind, object);
    if (entries === undefined) throw new Error(`${object} is not there`);
    return entries;
  }
}

async function revisionOfApiServer(sources: Sources): Promise<Revision> {
  const publicKey = { 'service-account-001.pub': await sources.kubeadm('sa.pub') };
  const localhostRecovery = 'localhost-recovery-serving-certkey';
  return {
    configMaps: {
      'kube-apiserver-server-ca': await sources.configMap(`${T}/kube-apiserver-server-ca`),
      'kubelet-serving-ca': await sources.configMap(`${T}/kubelet-serving-ca`),
      'etcd-serving-ca': { [bundleKey]: await sources.kubeadm('etcd/ca.crt') },
      'sa-token-signing-certs': publicKey,
      'bound-sa-token-signing-certs': publicKey,
    },
    secrets: {
      'etcd-client': {
        'tls.crt': await sources.kubeadm('apiserver-etcd-client.crt'),
        'tls.key': await sources.kubeadm('apiserver-etcd-client.key'),
      },
      [localhostRecovery]: await sources.secret(`${T}/${localhostRecovery}`),
    },
  };
}

/** Of a component that is a client of the API server. */
async function revisionOfClient({ name }: Component, sources: Sources, { internalHost }: Names): Promise<Revision> {
  const own = `${name.replace('kube-', '')}-kubeconfig`;
  const kubeconfig = componentKubeconfig(internalHost, `${name}-client-cert-key`);
  const signsTokens = name === 'kube-controller-manager';
  return {
    configMaps: { 'serviceaccount-ca': await sources.configMap(serviceAccountCa), [own]: { kubeconfig } },
    secrets: signsTokens
      ? { 'service-account-private-key': { 'service-account.key': await sources.kubeadm('sa.key') } }
      : {},
  };
}
const serviceAccountCa = 'openshift-kube-controller-manager/serviceaccount-ca';

/** By what the containers beside every component reach the API server. */
async function identityOf(component: Component, sources: Sources): Promise<Revision> {
  const name = 'localhost-recovery-client-token';
  const token = await sources.secret(`${component.namespace}/${name}`);
  // What kube-controller-manager writes there once its root-ca-file is OpenShift's.
  const ca = (await sources.configMap(serviceAccountCa))[bundleKey] ?? '';
  const authority =
    component.name === 'kube-apiserver' ? `configmaps/kube-apiserver-server-ca/${bundleKey}` : `secrets/${name}/ca.crt`;
  const kubeconfig = recoveryKubeconfig(`${resources}/${authority}`, `${resources}/secrets/${name}/token`);
  return {
    configMaps: { [component.recoveryKubeconfig]: { kubeconfig } },
    secrets: { [name]: { ...token, 'ca.crt': ca } },
  };
}

export interface Names {
  /** Of the internal load balancer. */
  readonly internalHost: string;
}

/** Of the three components and of the kubelet. */
export async function openshiftFiles(cluster: Cluster, names: Names): Promise<Files> {
  const files = new Map<string, FileContent>();
  const sources = new Sources(cluster);
  for (const component of components) {
    await published(cluster, component, files);
    // What an exchange of directories that was cut short has left.
    files.set(join(certsOf(component), 'staging/cert-sync/tls.crt'), { content: 'left behind', mode: 0o600 });
    const own =
      component.name === 'kube-apiserver'
        ? await revisionOfApiServer(sources)
        : await revisionOfClient(component, sources, names);
    for (const { configMaps, secrets } of [own, await identityOf(component, sources)]) {
      for (const [kind, objects] of [['configMap', configMaps] as const, ['secret', secrets] as const]) {
        const [folder, mode] = folders[kind];
        for (const [name, entries] of Object.entries(objects)) {
          for (const [key, content] of Object.entries(entries)) {
            files.set(join(revisionOf(component), folder, name, key), { content, mode });
          }
        }
      }
    }
  }
  const { [bundleKey]: clientCa = '' } = await sources.configMap(`${T}/client-ca`);
  files.set(kubeletClientCa, { content: clientCa, mode: 0o644 });
  const { [bundleKey]: serverCa = '' } = await sources.configMap(`${T}/kube-apiserver-server-ca`);
  const content = kubeletKubeconfig(cluster.node.address, names, serverCa);
  files.set('/etc/kubernetes/kubelet.conf', { content, mode: 0o600 });
  return files;
}

export const kubeletClientCa = '/etc/kubernetes/kubelet-ca.crt';

const recoveryKubeconfig = (authority: string, tokenFile: string): string =>
  kubeconfigOf(
    { 'certificate-authority': authority, server: 'https://localhost:6443', 'tls-server-name': 'localhost-recovery' },
    { tokenFile },
  );

function kubeletKubeconfig(address: string, { internalHost }: Names, serverCa: string | Buffer): string {
  const own = '/var/lib/kubelet/pki/kubelet-client-current.pem';
  return kubeconfigOf(
    {
      server: `https://${address}:6443`,
      'tls-server-name': internalHost, // the machine itself knows no such name
      'certificate-authority-data': Buffer.from(serverCa).toString('base64'),
    },
    { 'client-certificate': own, 'client-key': own },
  );
}

function componentKubeconfig(internalHost: string, client: string): string {
  const directory = `/etc/kubernetes/static-pod-certs/secrets/${client}`;
  return kubeconfigOf(
    {
      'certificate-authority': `${resources}/configmaps/serviceaccount-ca/ca-bundle.crt`,
      server: `https://${internalHost}:6443`,
    },
    { 'client-certificate': `${directory}/tls.crt`, 'client-key': `${directory}/tls.key` },
  );
}
