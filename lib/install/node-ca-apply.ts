// `init node-ca`: CA bundles on every node. The ConfigMap is made once, from what the cluster publishes: its later content
// belongs to the administrator who rotates CAs. Everything else is applied.
import { RecoveryError } from '../errors.ts';
import { clusterInfoPath, clusterInfoText, type ClusterInfo, publishedServer } from '../kube/cluster-info.ts';
import type { ConfigMap } from '../kube/kube.ts';
import { getIfPresent, objectPath } from '../kube/objects.ts';
import { collectionPath, typeMeta } from '../kube/resources.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { toYaml } from '../yaml.ts';
import { type Api, applyManifests, manifestText, pathInApi } from './apply.ts';
import {
  nodeCaDaemonSet,
  nodeCaKeys,
  nodeCaKubelets,
  nodeCaName,
  nodeCaNamespace,
  nodeCaStaticPod,
} from './node-ca-pod.ts';

export interface InstallNodeCa {
  /** Administrator's connection. */
  readonly api: Api;
  /** Undefined: no pods are made. Machines with the units of `init host` follow the ConfigMap by themselves. */
  readonly image: string | undefined;
  readonly namespace: string;
  /** Address of the API server for the nodes; undefined: as in cluster-info. */
  readonly server: string | undefined;
  /** Prints a static pod in place of the DaemonSet. */
  readonly staticPod: boolean;
  readonly dryRun: boolean;
  readonly print: (line: string) => void;
}

/** Where a cluster publishes CAs: of the API server's clients (its --client-ca-file), and of the API server. */
const published = [
  [nodeCaKeys.clients, 'extension-apiserver-authentication', 'client-ca-file'],
  [nodeCaKeys.servers, 'kube-root-ca.crt', 'ca.crt'],
] as const;

/** Throws KubeNotFound for what the cluster does not publish, MaterialInvalid, and the API's refusals. */
export async function installNodeCa(options: InstallNodeCa): Promise<void> {
  const { api, namespace, image, staticPod, dryRun } = options;
  let changes = 0;
  const print = (line: string): void => {
    changes += 1;
    // Standard output is the manifest of the static pod.
    options.print(staticPod && !dryRun ? `# ${line}` : line);
  };
  const objects =
    staticPod || image === undefined
      ? nodeCaKubelets(namespace)
      : nodeCaDaemonSet({ image, namespace, server: options.server ?? (await serverOf(api)) });
  const { isThere, manifest, data } = await bundlesOfNodes(api, namespace);
  const bundles = isThere ? [] : [{ ...manifest, data }];
  const pod = staticPod && image !== undefined ? [toYaml(nodeCaStaticPod({ image, namespace }))] : [];
  if (dryRun) {
    const texts = [nodeCaNamespace(namespace), ...bundles, ...objects].map((each) => toYaml(each));
    for (const text of [...texts, ...pod]) print(`---\n${text}`.trimEnd());
    return;
  }
  await applyManifests(api, [nodeCaNamespace(namespace)], print);
  for (const each of bundles) {
    // Not applied: what another client has just created stays.
    const path = collectionPath('ConfigMap', namespace);
    await api.connection.request({ method: 'POST', path, body: each, signal: api.signal });
    print(`Created ${manifestText(each)}`);
  }
  await applyManifests(api, objects, print);
  if (changes === 0) print('Unchanged: all of it was there');
  for (const text of pod) options.print(text.trimEnd());
  if (image === undefined)
    options.print(`Nodes with the units of init host follow ConfigMap "${namespace}/${nodeCaName}" within an hour.`);
}

/** Throws KubeNotFound where the cluster publishes none. */
export async function serverOf(api: Api): Promise<string> {
  const info = await getIfPresent<ClusterInfo>(api, clusterInfoPath);
  const server = info && publishedServer(info);
  if (server !== undefined) return server;
  const message = `Cannot install node-ca: ${clusterInfoText} names no server; give --server, the address at which every node reaches the API server`;
  throw new RecoveryError('KubeNotFound', message);
}

/** Content of the ConfigMap, or what it would begin with. Throws KubeNotFound, MaterialInvalid. */
export async function bundlesOfNodes(api: Api, namespace: string) {
  const manifest = { ...typeMeta('ConfigMap'), metadata: { name: nodeCaName, namespace } };
  const present = await getIfPresent<ConfigMap>(api, pathInApi(manifest));
  if (present !== undefined) return { isThere: true, manifest, data: { ...present.data } };
  const data: Record<string, string> = {};
  for (const [key, name, from] of published) {
    const path = objectPath({ kind: 'configMap', namespace: 'kube-system', name });
    const text = (await getIfPresent<ConfigMap>(api, path))?.data?.[from];
    const what = `ConfigMap "kube-system/${name}"`;
    if (text === undefined) {
      const message = `Cannot create ${manifestText(manifest)}: ${what} has no "${from}"; create it with ${key}, then run this again`;
      throw new RecoveryError('KubeNotFound', message);
    }
    const certificates = parseCertificates(Buffer.from(text), what);
    data[key] = certificates.map(({ pem }) => pem).join('');
  }
  return { isThere: false, manifest, data };
}
