// Restarts a static pod by an annotation of its manifest: for the kubelet a changed manifest is another pod
// (pkg/kubelet/config/common.go, applyDefaults). The annotation holds the hash of what the component reads at its start,
// so it changes when that has changed and never else; it outlives our own container, which is replaced with the pod.
import { isDeepStrictEqual } from 'node:util';
import { type Disk, realDisk } from '../disk/disk.ts';
import { RecoveryError } from '../errors.ts';
import { editYaml, parseYaml } from '../yaml.ts';
import { editManifest } from './manifest-file.ts';

export const inputsAnnotation = (component: string): string => `kube-cert-recovery/inputs-${component}`;

interface Pod {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
  readonly metadata?: { readonly annotations?: Readonly<Record<string, unknown>> | null } | null;
  readonly spec?: { readonly containers?: readonly ({ readonly name?: unknown } | null)[] | null } | null;
}

export interface ManifestRewrite {
  readonly path: string;
  readonly component: string;
  /** From inputsHash. */
  readonly hash: string;
}

/**
 * `unchanged`: the manifest has this hash already. `conflict`: somebody else has written it meanwhile, so the pod may be
 * replaced anyway. Throws ReadFailed, WriteFailed, and MaterialInvalid for what is no manifest of a pod with this component.
 */
export async function rewriteManifest(
  rewrite: ManifestRewrite,
  disk: Disk = realDisk,
): Promise<'written' | 'unchanged' | 'conflict'> {
  const { path } = rewrite;
  return (await editManifest(path, (before) => annotated(before.toString('utf8'), rewrite), disk)).outcome;
}

/** The text with the annotation; undefined when it has it. What is published is what has been parsed again. */
function annotated(text: string, { path, component, hash }: ManifestRewrite): string | undefined {
  const pod = podOf(text, path);
  const containers = pod.spec?.containers;
  const { metadata } = pod;
  if (pod.apiVersion !== 'v1' || pod.kind !== 'Pod' || !Array.isArray(containers)) throw refused(path, 'it is no Pod');
  for (const map of [metadata, metadata?.annotations]) {
    if (typeof (map ?? {}) !== 'object' || Array.isArray(map)) throw refused(path, 'its metadata is no mapping');
  }
  if (!containers.some((one: { name?: unknown } | null) => one?.name === component)) {
    throw refused(path, `it has no container "${component}"`);
  }
  const key = inputsAnnotation(component);
  if (metadata?.annotations?.[key] === hash) return undefined;
  const edit = editYaml(text);
  edit.set(['metadata', 'annotations', key], hash);
  const next = edit.text();
  const wanted = { ...pod, metadata: { ...metadata, annotations: { ...metadata?.annotations, [key]: hash } } };
  if (!isDeepStrictEqual(podOf(next, path), wanted)) {
    throw refused(path, `annotation "${key}" cannot be set without changing something else; set it by hand`);
  }
  return next;
}

function podOf(text: string, path: string): Pod {
  const value = ((): unknown => {
    try {
      return parseYaml(text);
    } catch (cause) {
      throw refused(path, 'it is no YAML of one document', cause);
    }
  })();
  if (typeof value !== 'object' || value === null) throw refused(path, 'it is no Pod');
  return value;
}

function refused(path: string, state: string, cause?: unknown): RecoveryError {
  const message = `Cannot rewrite manifest "${path}": ${state}; correct syncer.manifestsDir or the manifest`;
  return new RecoveryError('MaterialInvalid', message, { cause });
}
