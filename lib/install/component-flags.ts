// Command-line flags and kubeconfigs with which the components of an upstream control plane read the syncer's files.
// Pure. A flag whose artefact is not in the inventory is left out, so an inventory may cover a part of the control
// plane.
import { isDeepStrictEqual } from 'node:util';
import { caBundleKey, certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { Resolved } from '../inventory/model.ts';
import { fileOf, parametersIn, withParameters } from '../inventory/places.ts';
import { kubeconfigPlaceholder } from '../inventory/reader.ts';
import { unlessInvalid } from '../pki/pem.ts';
import { isMapping, parseYaml, toYaml } from '../yaml.ts';
import { type HostLayout, kubeconfigFile } from './layout.ts';

/** Flag without dashes -> value; a list repeats the flag. */
export type FlagValues = Readonly<Record<string, string | readonly string[]>>;
export type ComponentFlags = Readonly<Record<string, FlagValues>>;

/**
 * Flags that the inventory declares. An artefact without files in this layout sets none of its flags, including those
 * that only accompany a file.
 */
export function componentFlags({ artefacts }: Resolved, layout: HostLayout): ComponentFlags {
  const flags: Record<string, Record<string, string | readonly string[]>> = {};
  for (const artefact of artefacts) {
    for (const [component, declared] of Object.entries(artefact.flags ?? {})) {
      const file = (key: string): string | undefined =>
        key === kubeconfigPlaceholder ? kubeconfigFile(layout, component) : fileOf(artefact, key, layout.certs);
      if (Object.values(declared).some((text) => parametersIn(text).some((key) => file(key) === undefined))) continue;
      const own = (flags[component] ??= {});
      for (const [flag, text] of Object.entries(declared)) {
        const value = withParameters(text, (key) => file(key) ?? '');
        own[flag] = own[flag] === undefined ? value : [own[flag], value].flat();
      }
    }
  }
  return flags;
}

/** `--flag=value` arguments of one component. */
export function flagArguments(flags: FlagValues): string[] {
  return Object.entries(flags).flatMap(([flag, value]) => [value].flat().map((one) => `--${flag}=${one}`));
}

/** Kubeconfigs of all clients whose certificate and CA bundle are published below this layout. */
export function componentKubeconfigs(
  { artefacts }: Resolved,
  layout: HostLayout,
  server: string,
  /** Address of the cluster's API server, for administrators. */
  clusterServer = server,
) {
  return artefacts.flatMap((artefact) => {
    const [certFile, keyFile] = [certificateKey, privateKeyKey].map((key) => fileOf(artefact, key, layout.certs));
    return artefact.readers.flatMap(({ component, kubeconfig }) => {
      const bundle = artefacts.find(({ name }) => name === kubeconfig?.authority);
      const certificateAuthority = bundle && fileOf(bundle, caBundleKey, layout.certs);
      if (kubeconfig === undefined || !certFile || !keyFile || !certificateAuthority) return [];
      const { endpoint, tlsServerName } = kubeconfig;
      const user = { name: component, certFile, keyFile };
      const address = endpoint === 'local' ? server : clusterServer;
      const content = kubeconfigYaml({ server: address, certificateAuthority, tlsServerName, user });
      return [{ component, path: kubeconfigFile(layout, component), content }];
    });
  });
}

/** Path of the bundle by which kubeconfigs verify the API server, if `seen` publishes one in this layout. */
export function kubeconfigAuthority(
  { artefacts }: Resolved,
  seen: Pick<Resolved, 'artefacts'>,
  layout: HostLayout,
): string | undefined {
  const named = new Set(artefacts.flatMap(({ readers }) => readers.map(({ kubeconfig }) => kubeconfig?.authority)));
  const bundle = seen.artefacts.find(({ name }) => named.has(name));
  return bundle && fileOf(bundle, caBundleKey, layout.certs);
}

/**
 * Names files and embeds nothing: a renewed certificate or token is picked up without a restart, and the kubeconfig
 * holds no secret. Only the kubelet's bootstrap kubeconfig embeds its token, as kubeadm's does.
 */
interface KubeconfigContent {
  readonly server: string;
  /** Whether the administrator gave the server: another run keeps it then. Default: it was found. */
  readonly isServerGiven?: boolean;
  /** Absolute path. */
  readonly certificateAuthority: string;
  readonly tlsServerName?: string | undefined;
  readonly user:
    | { readonly name: string; readonly certFile: string; readonly keyFile: string }
    | { readonly name: string; readonly tokenFile: string }
    | { readonly name: string; readonly token: string };
}

/** Says of the cluster that its server was given. Other readers of a kubeconfig pass over extensions. */
const givenExtension = { name: 'kube-cert-recovery', extension: { server: 'given' } };

export function kubeconfigYaml(content: KubeconfigContent): string {
  const { server, isServerGiven = false, certificateAuthority, tlsServerName, user } = content;
  const { name: _name, ...credential } = user;
  const identity =
    'certFile' in credential
      ? { 'client-certificate': credential.certFile, 'client-key': credential.keyFile }
      : credential;
  return toYaml({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'cluster',
        cluster: {
          server,
          'certificate-authority': certificateAuthority,
          'tls-server-name': tlsServerName,
          extensions: isServerGiven ? [givenExtension] : undefined,
        },
      },
    ],
    users: [{ name: user.name, user: identity }],
    contexts: [{ name: user.name, context: { cluster: 'cluster', user: user.name } }],
    'current-context': user.name,
  });
}

/** Server that was given for a kubeconfig of ours; undefined where it was found, or the text is none of ours. */
export function givenServerIn(kubeconfig: string): string | undefined {
  const document = unlessInvalid(() => parseYaml(kubeconfig));
  const clusters = isMapping(document) ? document['clusters'] : undefined;
  const first: unknown = Array.isArray(clusters) ? clusters[0] : undefined;
  const cluster = isMapping(first) ? first['cluster'] : undefined;
  if (!isMapping(cluster) || !Array.isArray(cluster['extensions'])) return undefined;
  const isGiven = cluster['extensions'].some((one) => isDeepStrictEqual(one, givenExtension));
  return isGiven && typeof cluster['server'] === 'string' ? cluster['server'] : undefined;
}
