// What the files of a kubeadm machine say, as far as discovery asks: flags of a static pod, servers and users of a
// kubeconfig, one field of the kubelet's configuration. Pure. A text that is not what it should be gives undefined.
import { isTornOfOthers, type KnownServers, ownContext } from '../../kubeconfig/document.ts';
import { wholeCertificates } from '../../pki/certificate.ts';
import { isMapping, yamlMapping } from '../../yaml.ts';
import { argumentsOf, type ComponentCommand, type ValuesByFlag, type Mount, valuesIn } from './component-settings.ts';

type Mapping = Readonly<Record<string, unknown>>;

const mapping = (value: unknown): Mapping => (isMapping(value) ? value : {});
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/**
 * Flags of a container of a static-pod manifest, by name without dashes; of one that is given several times the last
 * value, which counts. Without a name the first container's. Undefined where there are none.
 */
export function flagsOf(manifest: string, wanted?: string): ReadonlyMap<string, string> | undefined {
  const flags = new Map([...flagValuesOf(manifest, wanted)].map(([name, values]) => [name, values.at(-1) ?? '']));
  return flags.size === 0 ? undefined : flags;
}

/** The same with all values of each flag, in their order. */
export const flagValuesOf = (manifest: string, wanted?: string): ValuesByFlag => {
  const words = wordsOf(containerOf(manifest, wanted));
  return valuesIn((wanted === undefined ? undefined : argumentsOf(wanted, words)) ?? words);
};

const wordsOf = (container: Mapping | undefined): readonly string[] =>
  [...list(container?.['command']), ...list(container?.['args'])].flatMap((word) => text(word) ?? []);

/** The words that `init adopt` has appended (lib/adopt/static-pods.ts): they name files of ours. */
function flagsOfOurs(manifest: string): ReadonlySet<string> {
  if (!manifest.includes(adoptedFlags)) return new Set();
  const annotations = mapping(mapping(yamlMapping(manifest)?.['metadata'])['annotations']);
  const words = yamlMapping(`words: ${text(annotations[adoptedFlags]) ?? '[]'}`)?.['words'];
  return new Set(list(words).flatMap((word) => text(word) ?? []));
}

const adoptedFlags = 'kube-cert-recovery/flags';

/** Of the container of that name; undefined where the manifest has none. */
export function commandLineOf(manifest: string, component: string): ComponentCommand | undefined {
  const container = containerOf(manifest, component);
  if (container === undefined) return undefined;
  const variables = list(container['env'])
    .map(mapping)
    .flatMap(({ name, value }): [string, string][] => [[text(name) ?? '', text(value) ?? '']]);
  const added = flagsOfOurs(manifest);
  return {
    words: wordsOf(container).filter((word) => !added.has(word)),
    variables: new Map(variables),
    mounts: mountsOf(manifest, component),
  };
}

/**
 * Whether a component holds a Lease while it works: a single control plane, minikube's for one, may run without (--leader-elect
 * of k8s.io/component-base, true by default; the values are those of Go's strconv.ParseBool).
 */
export function electsLeader(manifest: string, component: string): boolean {
  const value = flagsOf(manifest, component)?.get('leader-elect');
  return value === undefined || !/^(0|f|false)$/i.test(value);
}

/** Directories and files of the host that a container of a static pod has, by where it has them. */
function mountsOf(manifest: string, wanted: string): readonly Mount[] {
  const volumes = list(mapping(yamlMapping(manifest)?.['spec'])['volumes']).map(mapping);
  return list(containerOf(manifest, wanted)?.['volumeMounts'])
    .map(mapping)
    .flatMap(({ name, mountPath, subPath }) => {
      const volume = volumes.find((one) => one['name'] === name);
      const [at, hostPath] = [text(mountPath), text(mapping(volume?.['hostPath'])['path'])];
      if (at === undefined || hostPath === undefined || subPath !== undefined) return [];
      return [{ at: at.replace(/(?<=.)\/+$/, ''), hostPath }];
    });
}

const containerOf = (manifest: string, wanted: string | undefined): Mapping | undefined =>
  containersOf(manifest).find((one) => wanted === undefined || one['name'] === wanted);

/** Of a static-pod manifest. */
export const containersOf = (manifest: string): readonly Mapping[] =>
  list(mapping(yamlMapping(manifest)?.['spec'])['containers']).map(mapping);

/** Its clusterDomain may be left out. */
export function kubeletConfigurationOf(document: string): Mapping | undefined {
  const configuration = yamlMapping(document);
  const domain = configuration?.['clusterDomain'] ?? '';
  return typeof domain === 'string' ? configuration : undefined;
}

export function clusterDomainOf(kubeletConfiguration: string): string | undefined {
  return text(yamlMapping(kubeletConfiguration)?.['clusterDomain']);
}

/** The value of a flag in kubeadm-flags.env: KUBELET_KUBEADM_ARGS="--hostname-override=..." */
export function flagInEnv(env: string, flag: string): string | undefined {
  return new RegExp(`(?:^|[\\s"'=])--${flag}[=\\s]([^\\s"']+)`).exec(env)?.[1];
}

interface KubeconfigSight {
  readonly server?: string;
  /** Common name of an embedded client certificate. */
  readonly commonName?: string;
}

/** Of the context that is this machine's; of a text without, the only cluster and the only user. */
export function kubeconfigOf(yaml: string, known: KnownServers = {}): KubeconfigSight | undefined {
  const config = yamlMapping(yaml);
  if (config === undefined) return undefined;
  const own = ownContext(config, known);
  if ('foreign' in own || ('problem' in own && isTornOfOthers(yaml, known))) return {};
  const named = (group: string, field: string, name: unknown): Mapping => {
    const entries = list(config[group]).map(mapping);
    const chosen = entries.find((entry) => entry['name'] === name) ?? (entries.length === 1 ? entries[0] : undefined);
    return mapping(chosen?.[field]);
  };
  const context = named('contexts', 'context', 'name' in own ? own.name : config['current-context']);
  const server = text(named('clusters', 'cluster', context['cluster'])['server']);
  const certificate = text(named('users', 'user', context['user'])['client-certificate-data']);
  const commonName = certificate === undefined ? undefined : commonNameOf(Buffer.from(certificate, 'base64'));
  if (server === undefined && commonName === undefined) return undefined;
  return { ...(server !== undefined && { server }), ...(commonName !== undefined && { commonName }) };
}

/** Of the first certificate in a PEM text, whatever else is in it. */
export function commonNameOf(pem: Uint8Array): string | undefined {
  try {
    return text(wholeCertificates(pem)[0]?.facts.commonName);
  } catch {
    return undefined;
  }
}
