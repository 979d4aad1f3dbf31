// Puts our manifests of static pods in the place of what is there, one component after the other, and waits until the
// kubelet runs what was written. A manifest is replaced by one rename and never absent: the kubelet would stop the pod.
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../clock.ts';
import { attempt, realDisk } from '../disk/disk.ts';
import { replaceFile } from '../disk/files.ts';
import { readRegularFile } from '../disk/read.ts';
import { errorText, RecoveryError } from '../errors.ts';
import { parseYaml, toYaml } from '../yaml.ts';
import { type Api, readIfThere } from './apply.ts';
import { digestAnnotation, manifestPath, type PodManifest, podManifest, type StaticPod } from './static-pods.ts';

export interface StaticPodMachine {
  readonly api: Api;
  readonly manifestsDir: string;
  readonly nodeName: string;
  readonly clock: Clock;
  /** How long a pod may take until it runs. Default: three minutes. */
  readonly timeoutMs?: number;
  /** What must be done between the manifest and the moment when the pod can be seen to run. */
  readonly beforeWait?: () => Promise<void>;
}

const pollMs = 250;

/**
 * Changes the manifest of one pod, and resolves when the pod runs as the manifest says (also when it was there already).
 * Throws ReadFailed, WriteFailed, MaterialInvalid, and ProofFailed when the pod does not come up: then the former manifest
 * is back in its place.
 */
export async function changeStaticPod(
  pod: StaticPod,
  change: (before: PodManifest) => PodManifest,
  machine: StaticPodMachine,
): Promise<'written' | 'unchanged'> {
  const path = manifestPath(machine.manifestsDir, pod);
  const bytes = await readBytes(path);
  const before = podManifest(parseYaml(bytes.toString('utf8')), pod, path);
  const after = change(before);
  const isSame = isDeepStrictEqual(after, before);
  if (!isSame) {
    const content = toYaml(after);
    // What the kubelet will read, read again: nothing else may take the place of a manifest that works.
    if (!isDeepStrictEqual(podManifest(parseYaml(content), pod, path), after)) {
      throw new RecoveryError(
        'MaterialInvalid',
        `Cannot write manifest "${path}": it would not be read as it is meant`,
      );
    }
    if (!(await readBytes(path)).equals(bytes)) {
      throw new RecoveryError(
        'WriteFailed',
        `Cannot write manifest "${path}": somebody else has just written it; run this again`,
      );
    }
    await replaceFile({ path, content, mode: 0o600, what: 'manifest' });
  }
  await machine.beforeWait?.();
  try {
    await runs(pod, after.metadata.annotations?.[digestAnnotation], machine);
  } catch (err) {
    // A pod that worked is worth more than one of ours that does not.
    if (!isSame) await replaceFile({ path, content: bytes, mode: 0o600, what: 'manifest' });
    throw err;
  }
  return isSame ? 'unchanged' : 'written';
}

/** Throws ReadFailed, MaterialInvalid. */
export async function readManifest(path: string, pod: StaticPod): Promise<PodManifest> {
  return podManifest(parseYaml((await readBytes(path)).toString('utf8')), pod, path);
}

function readBytes(path: string): Promise<Buffer> {
  return attempt({ code: 'ReadFailed', action: 'read', what: `manifest "${path}"`, directory: dirname(path) }, () =>
    readRegularFile(realDisk, path),
  );
}

interface MirrorPod {
  readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> };
  readonly status?: {
    readonly phase?: string;
    readonly containerStatuses?: readonly { readonly name: string; readonly ready: boolean }[];
  };
}

/** The mirror pod shows the annotations of the manifest that the kubelet runs. */
async function runs(pod: StaticPod, digest: string | undefined, machine: StaticPodMachine): Promise<void> {
  const { api, nodeName, clock, timeoutMs = 180_000 } = machine;
  const path = `/api/v1/namespaces/kube-system/pods/${pod}-${nodeName}`;
  const deadline = clock.now().getTime() + timeoutMs;
  let state = 'the API server does not know it';
  while (clock.now().getTime() < deadline && !api.signal.aborted) {
    try {
      const found = await readIfThere<MirrorPod>(api, path);
      const waits = found === undefined ? 'the API server does not know it' : waitsFor(found, digest);
      if (waits === undefined) return;
      state = waits;
    } catch (err) {
      state = errorText(err); // while it is kube-apiserver that starts again
    }
    await clock.sleep(pollMs, api.signal);
  }
  const message = `Pod "kube-system/${pod}-${nodeName}" has not come to run as its new manifest said: ${state}; the former one is back in its place. Look at its containers (crictl ps -a, crictl logs), then run this again`;
  throw new RecoveryError('ProofFailed', message);
}

function waitsFor({ metadata, status }: MirrorPod, digest: string | undefined): string | undefined {
  if (metadata?.annotations?.[digestAnnotation] !== digest) return 'the kubelet runs the former manifest';
  const containers = status?.containerStatuses ?? [];
  const waiting = containers.filter(({ ready }) => !ready).map(({ name }) => name);
  if (containers.length > 0 && waiting.length === 0) return undefined;
  return waiting.length === 0 ? 'its containers have not started' : `not ready: ${waiting.join(', ')}`;
}
