// Additions to the static pods of a control plane, and their removal: our container, volumes and mounts for it and the
// component, and flags that point the component to the files that our container writes. Pure.
//
// Flags are appended to the component's own. The last one counts (pflag), so the original flags stay as written and
// take effect again when ours are removed. An annotation lists the additions: a manifest that kubeadm has rewritten has
// none, and edits by the administrator stay.
import { createHash } from 'node:crypto';
import type { StaticPod } from '../components.ts';
import { podContainers } from '../install/accounts.ts';
import { flagArguments, type FlagValues } from '../install/component-flags.ts';
import { digestAnnotation } from '../install/install-record.ts';
import type { HostLayout } from '../install/layout.ts';
import { clockOfMachine, containerName, hostPath, type Named, ownContainer } from '../install/own-container.ts';
import type { SecurityLabel } from '../install/container.ts';

/** The added flags, as JSON. */
const flagsAnnotation = 'kube-cert-recovery/flags';
/** Present where we added the shared PID namespace. */
const processesAnnotation = 'kube-cert-recovery/shares-processes';

export interface PodAddition {
  readonly pod: StaticPod;
  /** Image of our container. */
  readonly image: string;
  /** Paths of this pod's files. */
  readonly layout: HostLayout;
  /** Flags that name our files. */
  readonly flags: FlagValues;
  /** Directory of the kubelet's certificates, which the approver reads; undefined in the other pods. */
  readonly kubeletPki?: string | undefined;
  /** Whether our container shares the component's PID namespace, to terminate it when it must read its files again. */
  readonly sharesProcesses: boolean;
  /** SELinux label of our container, where SELinux is on. */
  readonly seLinux?: SecurityLabel | undefined;
}

export interface Container extends Named {
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly volumeMounts?: readonly Named[];
}
export interface PodManifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly [field: string]: unknown;
  };
  readonly spec: {
    readonly containers: readonly Container[];
    readonly volumes?: readonly Named[];
    readonly [field: string]: unknown;
  };
}

function ownContainerOf(addition: PodAddition): Container {
  const { pod, image, layout, seLinux } = addition;
  const { healthPort } = podContainers[pod];
  const volumeMounts = mountsOf(addition).own;
  return ownContainer({ image, args: [`--config=${layout.configFile}`], healthPort, volumeMounts, seLinux });
}

/** Field that holds a container's flags. */
const wordsOf = ({ args }: Container): 'args' | 'command' => (args === undefined ? 'command' : 'args');

/** Adds everything of ours and replaces earlier additions. */
export function addTo(before: PodManifest, addition: PodAddition): PodManifest {
  const manifest = removeFrom(before);
  const { pod } = addition;
  const { component, volumes } = mountsOf(addition);
  const added = flagArguments(addition.flags);
  const containers = manifest.spec.containers.map((container): Container => {
    if (container.name !== pod) return container;
    const words = wordsOf(container);
    return {
      ...container,
      [words]: [...(container[words] ?? []), ...added],
      volumeMounts: [...(container.volumeMounts ?? []), ...component],
    };
  });
  return {
    ...manifest,
    metadata: {
      ...manifest.metadata,
      annotations: { ...manifest.metadata.annotations, ...annotationsOf(addition, manifest) },
    },
    spec: {
      ...manifest.spec,
      ...(addition.sharesProcesses && { shareProcessNamespace: true }),
      containers: [...containers, ownContainerOf(addition)],
      volumes: [...(manifest.spec.volumes ?? []), ...volumes],
    },
  };
}

function annotationsOf(addition: PodAddition, before?: PodManifest): Readonly<Record<string, string>> {
  const isNew = addition.sharesProcesses && before?.spec['shareProcessNamespace'] !== true;
  return {
    [flagsAnnotation]: JSON.stringify(flagArguments(addition.flags)),
    ...(isNew && { [processesAnnotation]: 'true' }),
    [digestAnnotation]: digestOf(addition),
  };
}

/** Removes everything of ours; a manifest without our additions is returned unchanged. */
export function removeFrom(manifest: PodManifest): PodManifest {
  const { annotations = {} } = manifest.metadata;
  const added = new Set(flagsNotedIn(annotations[flagsAnnotation]));
  const isOurs = ({ name }: Named): boolean => name === containerName || name.startsWith(`${containerName}-`);
  const { containers, volumes } = manifest.spec;
  if (!(flagsAnnotation in annotations) && ![...containers, ...(volumes ?? [])].some(isOurs)) return manifest;
  const without = (words: readonly string[] | undefined) => words?.filter((word) => !added.has(word));
  const {
    [flagsAnnotation]: _flags,
    [digestAnnotation]: _digest,
    [processesAnnotation]: shares,
    ...others
  } = annotations;
  const { annotations: _annotations, ...bare } = manifest.metadata;
  const { shareProcessNamespace, ...spec } = manifest.spec;
  const keepsSharing = shareProcessNamespace !== undefined && shares === undefined;
  return {
    ...manifest,
    metadata: Object.keys(others).length > 0 ? { ...manifest.metadata, annotations: others } : bare,
    spec: {
      ...(keepsSharing ? manifest.spec : spec),
      containers: containers
        .filter((container) => !isOurs(container))
        .map((container) => ({
          ...container,
          ...(container.command !== undefined && { command: without(container.command) ?? [] }),
          ...(container.args !== undefined && { args: without(container.args) ?? [] }),
          ...(container.volumeMounts !== undefined && {
            volumeMounts: container.volumeMounts.filter((mount) => !isOurs(mount)),
          }),
        })),
      ...(volumes !== undefined && { volumes: volumes.filter((volume) => !isOurs(volume)) }),
    },
  };
}

function flagsNotedIn(annotation: string | undefined): readonly string[] {
  try {
    const value: unknown = JSON.parse(annotation ?? '[]');
    return Array.isArray(value) ? value.filter((flag) => typeof flag === 'string') : [];
  } catch {
    return []; // edited by hand: the administrator owns the flags
  }
}

/** Twelve hex digits. */
export function digestOf(addition: PodAddition): string {
  return createHash('sha256').update(JSON.stringify(addition)).digest('hex').slice(0, 12);
}

/**
 * The additions as files for `kubeadm ... --patches DIRECTORY`, by name: kubeadm applies them whenever it rewrites a
 * manifest (cmd/kubeadm/app/util/patches). A JSON patch appends flags, which a strategic merge would replace as a
 * whole.
 */
export function kubeadmPatches(addition: PodAddition): Readonly<Record<string, unknown>> {
  const { pod, flags } = addition;
  const { component, volumes } = mountsOf(addition);
  const added = flagArguments(flags);
  return {
    [`${pod}0+json.yaml`]: added.map((value) => ({ op: 'add', path: '/spec/containers/0/command/-', value })),
    [`${pod}1+strategic.yaml`]: {
      metadata: { annotations: annotationsOf(addition) },
      spec: {
        ...(addition.sharesProcesses && { shareProcessNamespace: true }),
        containers: [{ name: pod, volumeMounts: component }, ownContainerOf(addition)],
        volumes,
      },
    },
  };
}

// Mounts of our container and of the component in a static pod. Pure.

/** Mounts the parent of directories that publishing replaces: a mount keeps the directory that it resolved first. */
function mountsOf({ pod, layout, kubeletPki }: PodAddition): {
  readonly own: readonly Named[];
  readonly component: readonly Named[];
  readonly volumes: readonly Named[];
} {
  // Root reads configuration, kubeconfigs and tokens, too, so our container must not be able to write them.
  const files = [
    hostPath('', layout.directory, { readOnly: true }),
    hostPath('certs', layout.certs, { readOnly: false }),
  ];
  const kubelet = kubeletPki === undefined ? [] : [hostPath('kubelet', kubeletPki, { readOnly: true })];
  const read = [
    hostPath('certs', layout.certs, { readOnly: true }),
    hostPath('kubeconfigs', layout.kubeconfigs, { readOnly: true }),
  ];
  const own = [...files, ...kubelet, ...(pod === 'kube-apiserver' ? [clockOfMachine] : [])];
  return {
    own: own.map(({ mount }) => mount),
    component: read.map(({ mount }) => mount),
    // Each volume once: the component reads what our container writes.
    volumes: [...new Map([...own, ...read].map(({ volume }) => [volume.name, volume])).values()],
  };
}
