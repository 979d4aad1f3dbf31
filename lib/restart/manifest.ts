// Changes the manifest of a static pod. It is never absent and never half, because for the kubelet an absent manifest
// is a pod to be stopped. Owner, mode and attributes stay. The temporary file lies in the same directory, where the
// kubelet passes over names that begin with a dot (pkg/kubelet/config/file.go, extractFromDir; file_linux.go,
// produceWatchEvent); no other copy ever does, because the kubelet would run it, too.
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { attempt, type Disk, realDisk } from '../disk/disk.ts';
import { readRegularFile, removeLeftovers, syncDirectory, temporaryName, writeNewFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { editYaml, isMapping, parseYaml } from '../yaml.ts';

interface ManifestEdit {
  /** `conflict`: another program has written it between our read and our write, and its version stays. */
  readonly outcome: 'written' | 'unchanged' | 'conflict';
  /** Present and wanted content: the same bytes when nothing had to change. */
  readonly before: Buffer;
  readonly after: Buffer;
}

/**
 * `change` gets the present content and returns the wanted one; undefined: unchanged. Throws what `change` throws,
 * ReadFailed, WriteFailed, and MaterialInvalid for a symbolic link.
 */
export async function editManifest(
  path: string,
  change: (before: Buffer) => string | Uint8Array | undefined,
  disk: Disk = realDisk,
): Promise<ManifestEdit> {
  const what = `manifest "${path}"`;
  const directory = dirname(path);
  const { before, stats } = await attempt({ code: 'ReadFailed', action: 'read', what, directory }, async () => {
    // The kubelet would follow a link, but an administrator who made it wants the target changed, and not the link
    // replaced.
    const link = await disk.lstat(path);
    if (link.isSymbolicLink()) {
      const message = `Cannot write ${what}: it is a symbolic link, wanted the file itself; put the file in its place`;
      throw new RecoveryError('MaterialInvalid', message);
    }
    return { stats: link, before: await readRegularFile(disk, path) };
  });
  const next = change(before);
  if (next === undefined) return { outcome: 'unchanged', before, after: before };
  const after = Buffer.from(next);
  const remains = 'the manifest stays as it is';
  return attempt<ManifestEdit>({ code: 'WriteFailed', action: 'write', what, directory, remains }, async () => {
    await removeLeftovers(disk, path);
    const temporary = temporaryName(path);
    try {
      const { mode, uid, gid } = stats;
      await writeNewFile(disk, temporary, after, { mode, uid, gid, like: path });
      if (!before.equals(await readRegularFile(disk, path))) {
        await disk.rm(temporary, { force: true });
        return { outcome: 'conflict', before, after };
      }
      await disk.rename(temporary, path);
    } catch (err) {
      await disk.rm(temporary, { force: true });
      throw err;
    }
    await syncDirectory(disk, directory);
    return { outcome: 'written', before, after };
  });
}

export const inputsAnnotation = (component: string): string => `kube-cert-recovery/inputs-${component}`;

interface Pod {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
  readonly metadata?: { readonly annotations?: Readonly<Record<string, unknown>> | null } | null;
  readonly spec?: { readonly containers?: readonly ({ readonly name?: unknown } | null)[] | null } | null;
}

interface ManifestRewrite {
  readonly path: string;
  readonly component: string;
  /** Result of inputsHash. */
  readonly hash: string;
}

/**
 * Restarts a static pod by an annotation: for the kubelet a changed manifest is another pod
 * (pkg/kubelet/config/common.go, applyDefaults). It holds the hash of the inputs that the component reads at its start,
 * so it changes exactly when they have changed; it outlives our own container, which is replaced with the pod.
 * `unchanged`: the manifest has this hash already. `conflict`: another program has written it since our read, so the
 * pod may be replaced anyway. Throws ReadFailed, WriteFailed, and MaterialInvalid for a file that is no manifest of a
 * pod with this component.
 */
export async function rewriteManifest(
  rewrite: ManifestRewrite,
  disk: Disk = realDisk,
): Promise<'written' | 'unchanged' | 'conflict'> {
  const { path } = rewrite;
  return (await editManifest(path, (before) => annotated(before.toString('utf8'), rewrite), disk)).outcome;
}

/**
 * The text with the annotation; undefined when it has it. The result is parsed again and compared before it is written.
 */
function annotated(text: string, { path, component, hash }: ManifestRewrite): string | undefined {
  const pod = podOf(text, path);
  const containers = pod.spec?.containers;
  const { metadata } = pod;
  if (pod.apiVersion !== 'v1' || pod.kind !== 'Pod' || !Array.isArray(containers)) throw refused(path, 'it is no Pod');
  for (const map of [metadata, metadata?.annotations]) {
    if (!isMapping(map ?? {})) throw refused(path, 'its metadata is no mapping');
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
  let value: unknown;
  try {
    value = parseYaml(text);
  } catch (cause) {
    throw refused(path, 'it is no YAML of one document', cause);
  }
  if (!isMapping(value)) throw refused(path, 'it is no Pod');
  return value;
}

function refused(path: string, state: string, cause?: unknown): RecoveryError {
  const message = `Cannot rewrite manifest "${path}": ${state}; correct syncer.manifestsDir or the manifest`;
  return new RecoveryError('MaterialInvalid', message, { cause });
}
