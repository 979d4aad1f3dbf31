// Parses the files of a kubeadm machine, as far as discovery needs them: flags of a static pod, servers and users of a
// kubeconfig, one field of the kubelet's configuration. Pure. A malformed text gives undefined.
import { posix } from 'node:path';
import { withoutSlashesAtEnd } from '../../address.ts';
import { isTornOfOthers, ownContext } from '../../kubeconfig/document.ts';
import type { KnownServers } from '../../kubeconfig/known-servers.ts';
import { wholeCertificates } from '../../pki/certificate.ts';
import { componentMapping, isMapping, yamlMapping } from '../../yaml.ts';
import { argumentsOf } from './component-arguments.ts';
import { type ComponentCommand, type Mount, valuesIn } from './component-settings.ts';
import { expanded } from './shell-script.ts';

type Mapping = Readonly<Record<string, unknown>>;

const mapping = (value: unknown): Mapping => (isMapping(value) ? value : {});
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/**
 * Returns flags of a container of a static-pod manifest, by name without dashes; the last value of a repeated flag,
 * which counts. Without a name the first container's. Undefined where there are none.
 */
export function flagsOf(manifest: string, wanted?: string): ReadonlyMap<string, string> | undefined {
  const container = containerOf(manifest, wanted) ?? {};
  const [words, variables] = [wordsOf(container), variablesOf(container)];
  const values = valuesIn((wanted === undefined ? undefined : argumentsOf(wanted, words, variables)) ?? words);
  const flags = new Map([...values].map(([name, all]) => [name, all.at(-1) ?? '']));
  return flags.size === 0 ? undefined : flags;
}

/** Returns its command with variables expanded by the kubelet. */
function wordsOf(container: Mapping): readonly string[] {
  const variables = variablesOf(container);
  return [...list(container['command']), ...list(container['args'])].flatMap((word) =>
    typeof word === 'string' && word !== '' ? expanded(word, variables) : [],
  );
}

/** Returns variables with a value in the manifest, each expanded with those before it in the manifest. */
function variablesOf(container: Mapping): ReadonlyMap<string, string> {
  const variables = new Map<string, string>();
  for (const { name, value, valueFrom } of list(container['env']).map(mapping)) {
    if (typeof name !== 'string') continue;
    if (valueFrom === undefined) variables.set(name, expanded(text(value) ?? '', variables));
    else variables.delete(name);
  }
  return variables;
}

/** Returns the words that `init adopt` has appended (lib/adopt/static-pods.ts): they name files of ours. */
function flagsOfOurs(pod: Mapping): ReadonlySet<string> {
  const noted = text(mapping(mapping(pod['metadata'])['annotations'])['kube-cert-recovery/flags']);
  const words = noted === undefined ? [] : list(yamlMapping(`words: ${noted}`)?.['words']);
  return new Set(words.flatMap((word) => text(word) ?? []));
}

interface CommandQuestion {
  readonly component: string;
  readonly source: string;
  /** Whether flags that `init adopt` has added count, too. */
  readonly added?: 'counted' | undefined;
}

/** Returns the command line of the container that runs a component; undefined where the manifest has none. */
export function commandLineOf(
  manifest: string,
  { component, source, added: own }: CommandQuestion,
): ComponentCommand | undefined {
  const pod = componentMapping(manifest) ?? {};
  const container = containerIn(pod, component);
  if (container === undefined) return undefined;
  const added = own === 'counted' ? new Set<string>() : flagsOfOurs(pod);
  return {
    words: wordsOf(container).filter((word) => !added.has(word)),
    variables: variablesOf(container),
    source,
    workingDirectory: text(container['workingDir']),
    mounts: mountsOf(container, list(mapping(pod['spec'])['volumes']).map(mapping)),
  };
}

/**
 * Whether a component holds a Lease while it works: a single control plane, for example minikube's, may run without
 * (--leader-elect of k8s.io/component-base, true by default; parsed by Go's strconv.ParseBool).
 */
export function electsLeader(manifest: string, component: string): boolean {
  const value = flagsOf(manifest, component)?.get('leader-elect');
  return value === undefined || !/^(0|f|false)$/i.test(value);
}

/** Returns directories and files of the host in a container of a static pod, by their mount path. */
function mountsOf(container: Mapping, volumes: readonly Mapping[]): readonly Mount[] {
  return list(container['volumeMounts'])
    .map(mapping)
    .flatMap(({ name, mountPath, subPath, subPathExpr }) => {
      const volume = volumes.find((one) => one['name'] === name);
      const [at, directory] = [text(mountPath), text(mapping(volume?.['hostPath'])['path'])];
      // A volume that is not declared comes from a damaged manifest.
      if (at === undefined || volume === undefined) return [];
      const isOpen = directory === undefined || subPathExpr !== undefined;
      const hostPath = isOpen ? undefined : posix.join(directory, text(subPath) ?? '');
      return [{ at: withoutSlashesAtEnd(at, 1), hostPath }];
    });
}

const containerOf = (manifest: string, wanted: string | undefined): Mapping | undefined =>
  wanted === undefined ? containersOf(manifest)[0] : containerIn(componentMapping(manifest) ?? {}, wanted);

/** Returns the container that has the name of the component, else the first whose command runs it. */
function containerIn(pod: Mapping, component: string): Mapping | undefined {
  const containers = containersIn(pod);
  const runs = (one: Mapping): boolean => argumentsOf(component, wordsOf(one), variablesOf(one)) !== undefined;
  return containers.find(({ name }) => name === component) ?? containers.find(runs);
}

/** Whether any of its containers runs the component. */
export const runsComponent = (manifest: string, component: string): boolean =>
  containerOf(manifest, component) !== undefined;

/** Returns the containers of a static-pod manifest. */
export const containersOf = (manifest: string): readonly Mapping[] => containersIn(componentMapping(manifest) ?? {});

const containersIn = (pod: Mapping): readonly Mapping[] => list(mapping(pod['spec'])['containers']).map(mapping);

/** Returns the kubelet's configuration; its clusterDomain may be left out. */
export function kubeletConfigurationOf(document: string): Mapping | undefined {
  const configuration = componentMapping(document);
  const domain = configuration?.['clusterDomain'] ?? '';
  return typeof domain === 'string' ? configuration : undefined;
}

/** Longest image tag, with a digest of 71 characters. */
const longestTag = 512;

/** Returns 28 for an image `registry/kube-apiserver:v1.28.3`, also with a digest; undefined for other tags. */
export function minorVersionOf(manifest: string, wanted: string): number | undefined {
  const image = text(containerOf(manifest, wanted)?.['image']) ?? '';
  const minor = /:v1\.(\d+)\.[^/:@]+(?:@[^/]+)?$/.exec(image.slice(-longestTag))?.[1];
  return minor === undefined ? undefined : Number(minor);
}

export function clusterDomainOf(kubeletConfiguration: string): string | undefined {
  return text(componentMapping(kubeletConfiguration)?.['clusterDomain']);
}

/** Returns the value of a flag in kubeadm-flags.env: KUBELET_KUBEADM_ARGS="--hostname-override=..." */
export function flagInEnv(env: string, flag: string): string | undefined {
  return new RegExp(`(?:^|[\\s"'=])--${flag}[=\\s]([^\\s"']+)`).exec(env)?.[1];
}

interface KubeconfigSight {
  readonly server?: string;
  /** Common name of an embedded client certificate. */
  readonly commonName?: string;
}

/** Reads this machine's own context; without it, the only cluster and the only user. */
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

/** Returns the common name of the first certificate in a PEM text, whatever else is in it. */
export const commonNameOf = (pem: Uint8Array | string | undefined): string | undefined =>
  text(wholeCertificates(pem)[0]?.facts.commonName);
