// All files that a static pod of an adopted machine needs at its start: certificates in the syncer's layout,
// kubeconfigs, credentials, configuration. Each pod has its own directory, so that it mounts no files of another pod.
import { join, relative } from 'node:path';
import { installedConfig } from '../config/installed-settings.ts';
import { attempt, realDisk, unlessAbsent } from '../disk/disk.ts';
import { ensureDirectory, replaceFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import type { StaticPod } from '../components.ts';
import { type Account, type ModeIdentity, podContainers } from '../install/accounts.ts';
import type { SecurityLabel } from '../install/container.ts';
import { componentFlags, componentKubeconfigs, type FlagValues } from '../install/component-flags.ts';
import {
  credentialFiles,
  credentialKubeconfig,
  type CredentialOptions,
  writeCredential,
} from '../install/mode-credentials.ts';
import { isThere, namesIn } from '../install/existing-files.ts';
import { type HostLayout, hostLayout } from '../install/layout.ts';
import { publishedPlace } from '../inventory/places.ts';
import { readBy } from '../inventory/component-view.ts';
import type { Resolved } from '../inventory/model.ts';
import { dataLink } from '../publish/scan.ts';
import { publish } from '../publish/writer.ts';
import { locationText, type Material } from '../store/store.ts';
import type { PodAddition } from './static-pods.ts';

interface PodFilesOptions extends Omit<CredentialOptions, 'layout'> {
  /** Absolute path of the directory for all pods. */
  readonly directory: string;
  /** Material by artefact, as the API holds it. */
  readonly material: ReadonlyMap<string, Material>;
  /** Settings of the cluster in every configuration: preset or inventory, parameters. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** The kubelet's certificate on this machine, which the approver reads. */
  readonly nodeCertificate: string;
  /** API server at an address in its own certificate, for administrators, whose clients set no tls-server-name. */
  readonly kubeletServer: string;
  /** Pods that run our container: only its syncer may write certificates there, unless a directory is absent. */
  readonly running: ReadonlySet<StaticPod>;
}

/** Account of a mode in a pod. Only the syncer runs in several pods, so only it has an account for each. */
function accountIn(pod: StaticPod, identity: ModeIdentity): Account {
  return identity === 'syncer' ? `syncer-${pod}` : identity;
}

export function podLayout(directory: string, pod: StaticPod): HostLayout {
  return hostLayout(join(directory, pod));
}

/** Flags of the component that name our files. Flags that accompany them (kubeadm sets them, too) stay kubeadm's. */
function podFlags(resolved: Resolved, layout: HostLayout, pod: StaticPod): FlagValues {
  const all = componentFlags(readBy(resolved, podContainers[pod].components), layout)[pod] ?? {};
  return Object.fromEntries(
    Object.entries(all).filter(([, value]) => [value].flat().some((text) => text.includes(layout.directory))),
  );
}

/**
 * Checks every path that writePodFiles writes: our container in the pod may write there, and so may an attacker in it.
 * Throws MaterialInvalid for a link that leads elsewhere, and ReadFailed.
 */
export async function requireNoPodLinks(
  pod: StaticPod,
  { directory, resolved: all }: Pick<PodFilesOptions, 'directory' | 'resolved'>,
): Promise<void> {
  const layout = podLayout(directory, pod);
  const resolved = readBy(all, podContainers[pod].components);
  for (const artefact of resolved.artefacts) {
    const place = publishedPlace(artefact, layout.certs);
    if (place === undefined) continue;
    await requireNoLink(layout.directory, place.directory, 'directory');
    await requireNoForeignLink(place.directory);
  }
  const kubeconfigs = componentKubeconfigs(resolved, layout, '').map(({ path }) => path);
  const credentials = podContainers[pod].modes.flatMap((identity) => credentialFiles(layout, identity));
  await requireNoLink(layout.directory, layout.kubeconfigs, 'directory');
  for (const path of [...kubeconfigs, ...credentials, layout.configFile]) {
    await requireNoLink(layout.directory, path, 'file');
  }
}

/**
 * Guards writes of root where a container may write, too: a link there could redirect them to any path of the machine.
 * Checks each step from below `root` to `path`. Throws MaterialInvalid for a link, for a step that is no directory and
 * for a final step that is not `wanted`; ReadFailed. An absent step is accepted.
 */
async function requireNoLink(root: string, path: string, wanted: 'directory' | 'file'): Promise<void> {
  const what = `${wanted} "${path}"`;
  let at = root;
  for (const step of relative(root, path).split('/')) {
    at = join(at, step);
    const looking = { code: 'ReadFailed', action: 'look at', what, directory: at } as const;
    const stats = await attempt(looking, () => unlessAbsent(() => realDisk.lstat(at)));
    if (stats === undefined) return;
    const isWanted = at === path && wanted === 'file' ? stats.isFile() : stats.isDirectory();
    if (isWanted) continue;
    const state = stats.isSymbolicLink() ? 'is a link' : `is no ${at === path ? wanted : 'directory'}`;
    throw refusal(`Cannot write ${what}: "${at}" ${state}`, at);
  }
}

/**
 * Checks the directory of a published object, where only the syncer's own links may be: publish would keep and expose
 * the target of any other link.
 */
async function requireNoForeignLink(directory: string): Promise<void> {
  for (const name of await namesIn(directory)) {
    if (name.startsWith('..')) continue;
    const at = join(directory, name);
    const looking = { code: 'ReadFailed', action: 'look at', what: `"${at}"`, directory } as const;
    const target = await attempt(looking, () =>
      unlessAbsent(async () => ((await realDisk.lstat(at)).isSymbolicLink() ? realDisk.readlink(at) : undefined)),
    );
    if (target === undefined || target === `${dataLink}/${name}`) continue;
    throw refusal(`Cannot publish in "${directory}": "${at}" is a link to "${target}"`, at);
  }
}

function refusal(problem: string, path: string): RecoveryError {
  const message = `${problem}; remove it, and look at who made it: a container of this program may write there`;
  return new RecoveryError('MaterialInvalid', message, { details: { path } });
}

/** Returns the files that changed. Throws WriteFailed, the API's refusals, and errors of requireNoPodLinks. */
export async function writePodFiles(pod: StaticPod, options: PodFilesOptions): Promise<readonly string[]> {
  const { directory, material, server } = options;
  const layout = podLayout(directory, pod);
  const resolved = readBy(options.resolved, podContainers[pod].components);
  const written: string[] = [];
  await requireNoPodLinks(pod, options);
  for (const artefact of resolved.artefacts) {
    const place = publishedPlace(artefact, layout.certs);
    const own = material.get(artefact.name);
    if (place === undefined || own === undefined) continue;
    const what = locationText(artefact.location);
    // A missing directory is no syncer's work in progress, and the component needs it for its start.
    if (options.running.has(pod) && (await isThere(place.directory, what))) continue;
    if ((await publish({ ...place, what, entries: own.entries })) !== 'unchanged') written.push(place.directory);
  }
  await requireNoPodLinks(pod, options); // the writes above took time
  await ensureDirectory(realDisk, layout.kubeconfigs);
  for (const { path, content } of componentKubeconfigs(resolved, layout, server, options.kubeletServer)) {
    if ((await replaceFile({ path, content, mode: 0o600, what: 'kubeconfig' })) === 'written') written.push(path);
  }
  for (const identity of podContainers[pod].modes) {
    written.push(...(await writeCredential(identity, { ...options, resolved, layout }, accountIn(pod, identity))));
  }
  const content = podConfig(pod, layout, options);
  const file = { path: layout.configFile, content, mode: 0o644, what: 'configuration' };
  if ((await replaceFile(file)) === 'written') written.push(file.path);
  return written;
}

/** Configuration of the container in a pod, as YAML. Pure. */
export function podConfig(
  pod: StaticPod,
  layout: HostLayout,
  { settings, namespace, nodeCertificate }: Pick<PodFilesOptions, 'settings' | 'namespace' | 'nodeCertificate'>,
): string {
  const kubeconfig = (mode: ModeIdentity): string => credentialKubeconfig(layout, mode);
  const sections: Readonly<Record<ModeIdentity, object>> = {
    regen: { kubeconfig: kubeconfig('regen'), locations: 'api' },
    syncer: {
      kubeconfig: kubeconfig('syncer'),
      destinationDir: layout.certs,
      components: podContainers[pod].components,
      restart: podContainers[pod].restarts ? 'react' : undefined,
    },
    approver: { kubeconfig: kubeconfig('approver'), bootstrapNamespace: namespace, nodeCertificate },
  };
  const modes = podContainers[pod].modes.map((mode) => [mode, sections[mode]] as const);
  const ofPod = Object.entries(settings).filter(
    ([name]) => !(name in sections) || podContainers[pod].modes.some((one) => one === name),
  );
  const healthProbeBindAddress = `127.0.0.1:${podContainers[pod].healthPort}`;
  return installedConfig(Object.fromEntries(ofPod), Object.fromEntries(modes), { healthProbeBindAddress });
}

interface Adding {
  readonly resolved: Resolved;
  readonly directory: string;
  readonly image: string;
  readonly kubeletPki: string;
  readonly seLinux?: SecurityLabel | undefined;
}

/** Additions to the manifest of a pod. */
export function podAddition(pod: StaticPod, { resolved, directory, image, kubeletPki, seLinux }: Adding): PodAddition {
  const layout = podLayout(directory, pod);
  return {
    pod,
    image,
    layout,
    flags: podFlags(resolved, layout, pod),
    sharesProcesses: podContainers[pod].restarts,
    kubeletPki: podContainers[pod].modes.includes('approver') ? kubeletPki : undefined,
    seLinux,
  };
}
