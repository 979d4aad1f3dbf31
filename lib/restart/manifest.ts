// Restarts a static pod by an annotation of its manifest: for the kubelet a changed manifest is another pod
// (pkg/kubelet/config/common.go, applyDefaults). The annotation holds the hash of what the component reads at its start,
// so it changes when that has changed and never else; it outlives our own container, which is replaced with the pod.
//
// The manifest is never absent, and nothing else in it changes. The temporary file lies in the same directory, where the
// kubelet passes over names that begin with a dot (pkg/kubelet/config/file.go, extractFromDir; file_linux.go,
// produceWatchEvent).
import { isDeepStrictEqual } from 'node:util';
import { dirname } from 'node:path';
import { attempt, type Disk, realDisk } from '../disk/disk.ts';
import { removeLeftovers, syncDirectory, temporaryName, writeNewFile } from '../disk/files.ts';
import { readRegularFile } from '../disk/read.ts';
import { RecoveryError } from '../errors.ts';
import { editYaml, parseYaml } from '../yaml.ts';

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
  { path, component, hash }: ManifestRewrite,
  disk: Disk = realDisk,
): Promise<'written' | 'unchanged' | 'conflict'> {
  const what = `manifest "${path}"`;
  const directory = dirname(path);
  const reading = { code: 'ReadFailed', action: 'read', what, directory } as const;
  const { before, stats } = await attempt(reading, async () => {
    // The kubelet would follow a link, but whoever has made it wants the target changed, and not the link replaced.
    const link = await disk.lstat(path);
    if (link.isSymbolicLink()) throw refused(path, 'it is a symbolic link, wanted the file itself');
    return { stats: link, before: await readRegularFile(disk, path) };
  });
  const next = annotated(before.toString('utf8'), { path, component, hash });
  if (next === undefined) return 'unchanged';
  const remains = 'the manifest stays as it is';
  return attempt<'written' | 'conflict'>(
    { code: 'WriteFailed', action: 'write', what, directory, remains },
    async () => {
      await removeLeftovers(disk, path);
      const temporary = temporaryName(path);
      try {
        const { mode, uid, gid } = stats;
        await writeNewFile(disk, temporary, Buffer.from(next), { mode, uid, gid });
        if (!before.equals(await readRegularFile(disk, path))) {
          await disk.rm(temporary, { force: true });
          return 'conflict';
        }
        await disk.rename(temporary, path);
      } catch (err) {
        await disk.rm(temporary, { force: true });
        throw err;
      }
      await syncDirectory(disk, directory);
      return 'written';
    },
  );
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
