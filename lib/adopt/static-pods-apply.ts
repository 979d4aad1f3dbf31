// Replaces manifests of static pods, one component after the other, and waits until the kubelet runs the new manifest
// and every container in it is ready. kube-apiserver waits for the restart Lease.
import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { attempt, realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { errorText, RecoveryError } from '../errors.ts';
import type { StaticPod } from '../components.ts';
import { podContainers } from '../install/accounts.ts';
import type { Lock } from '../host/lock.ts';
import { digestAnnotation } from '../install/install-record.ts';
import { editManifest } from '../restart/manifest.ts';
import { pollUntil } from '../retry.ts';
import { parseYaml, toYaml } from '../yaml.ts';
import { askReady, type MirrorPod, readMirrorPod } from './container-state.ts';
import type { KubeadmDirectories } from './kubeadm-files.ts';
import { type RestartLeaseWait, withRestartLease } from './manifests-lock.ts';
import { containerName } from '../install/own-container.ts';
import { type Container, type PodManifest } from './static-pods.ts';

interface StaticPodMachine extends RestartLeaseWait, Pick<KubeadmDirectories, 'kubernetesDir'> {
  /** Longest time until a pod must run. Default: three minutes. */
  readonly timeoutMs?: number | undefined;
  /** Longest time that pulling our image may fail: a registry may answer at the second try. Default: 20 s. */
  readonly pullTimeoutMs?: number;
  /** Runs after the manifest is written and before the wait for the pod. */
  readonly beforeWait?: () => Promise<void>;
  /** Lock of the manifests, confirmed before writing: the pod before may have taken minutes. */
  readonly lock?: Pick<Lock, 'confirm'> | undefined;
}

const pollMs = 250;
const usualTimeoutMs = 180_000;

/**
 * Changes the manifest of one pod, and resolves when the pod runs it (also when the manifest was right already): the
 * API shows its containers ready, and our container reports ready itself. Throws ReadFailed, WriteFailed,
 * MaterialInvalid, KubeConflict while another machine restarts its kube-apiserver, errors of `change`, and ProofFailed
 * when the pod does not come up: then the former manifest has been restored.
 */
export async function changeStaticPod(
  pod: StaticPod,
  change: (before: PodManifest) => PodManifest,
  machine: StaticPodMachine,
): Promise<'written' | 'unchanged'> {
  const work = (): Promise<'written' | 'unchanged'> => changeNow(pod, change, machine);
  if (pod !== 'kube-apiserver') return work();
  const present = await readManifest(manifestPath(machine, pod), pod);
  // Only a change restarts the pod, so only a change needs the Lease.
  return isDeepStrictEqual(change(present), present) ? work() : withRestartLease(machine, work);
}

async function changeNow(
  pod: StaticPod,
  change: (before: PodManifest) => PodManifest,
  machine: StaticPodMachine,
): Promise<'written' | 'unchanged'> {
  const path = manifestPath(machine, pod);
  const read = (bytes: Buffer): PodManifest => podManifest(bytes, pod, path);
  const former = await readMirrorPod(machine.api, pod, machine.nodeName).catch(() => undefined);
  await machine.lock?.confirm();
  const { outcome, before, after } = await editManifest(path, (bytes) => {
    const present = read(bytes);
    const wanted = change(present);
    if (isDeepStrictEqual(wanted, present)) return undefined;
    const content = Buffer.from(toYaml(wanted));
    // Parsed as the kubelet will: only a readable manifest may replace a working one.
    if (isDeepStrictEqual(read(content), wanted)) return content;
    const message = `Cannot write manifest "${path}": it would not be read as it is meant`;
    throw new RecoveryError('MaterialInvalid', message);
  });
  if (outcome === 'conflict') {
    const message = `Cannot write manifest "${path}": somebody else has just written it; run this again`;
    throw new RecoveryError('WriteFailed', message);
  }
  const { timeoutMs = usualTimeoutMs, print } = machine;
  if (outcome === 'written') {
    const away = pod === 'kube-apiserver' ? '; its API is away meanwhile' : '';
    print?.(`Static pod ${pod}: manifest changed, waiting until it runs (${timeoutMs / 1000} s at most${away})`);
  }
  await machine.beforeWait?.();
  const manifest = read(after);
  // A kubelet that already runs this manifest has not noticed the one in between, and will not.
  const isNew = outcome === 'written' && former !== undefined && !shows(former, manifest);
  const missing = await untilItRuns(pod, manifest, machine, isNew ? hashOf(former) : undefined);
  if (missing === undefined) return outcome;
  const says =
    outcome === 'written' ? `new manifest says: ${missing}; ${await giveBack()}` : `manifest says: ${missing}`;
  const message = `Pod "kube-system/${pod}-${machine.nodeName}" has not come to run as its ${says}. Look at its containers (crictl ps -a, crictl logs), then run this again`;
  throw new RecoveryError('ProofFailed', message);

  /** Restores the former manifest: a working pod is worth more than our failing one. */
  async function giveBack(): Promise<string> {
    const back = await editManifest(path, (bytes) => (bytes.equals(after) ? before : undefined));
    return back.outcome === 'written'
      ? 'the former one is back in its place'
      : 'somebody else has written it meanwhile, so the former one was not put back';
  }
}

/** Throws ReadFailed, MaterialInvalid. */
export async function readManifest(path: string, pod: StaticPod): Promise<PodManifest> {
  const what = `manifest "${path}"`;
  const bytes = await attempt({ code: 'ReadFailed', action: 'read', what, directory: dirname(path) }, () =>
    readRegularFile(realDisk, path),
  );
  return podManifest(bytes, pod, path);
}

/** The kubelet's reasons for a missing image (pkg/kubelet/images/types.go): permanent and temporary ones. */
const neverPulled: readonly string[] = ['InvalidImageName', 'ErrImageNeverPull'];
const notPulled: readonly string[] = ['ErrImagePull', 'ImagePullBackOff'];

/** Returns undefined when the pod runs, else what is missing after the timeout or when our image cannot be pulled. */
async function untilItRuns(
  pod: StaticPod,
  manifest: PodManifest,
  machine: StaticPodMachine,
  formerHash: string | undefined,
): Promise<string | undefined> {
  const { api, clock, timeoutMs = usualTimeoutMs, pullTimeoutMs = 20_000 } = machine;
  const digest = manifest.metadata.annotations?.[digestAnnotation];
  const isFormer = (found: MirrorPod): boolean =>
    found.metadata?.annotations?.[digestAnnotation] !== digest ||
    (formerHash !== undefined && hashOf(found) === formerHash);
  const look = async (): Promise<Look> => {
    try {
      const found = await readMirrorPod(api, pod, machine.nodeName);
      if (found === undefined) return { missing: 'the API server does not know it' };
      return isFormer(found) ? { missing: 'the kubelet runs the former manifest' } : waitsFor(found);
    } catch (err) {
      return { missing: errorText(err) }; // while kube-apiserver itself restarts
    }
  };
  let lastWithImage = clock.now().getTime();
  const check = async (): Promise<{ readonly missing?: string; readonly isFinal?: boolean }> => {
    const { missing: found, image } = await look();
    const now = clock.now().getTime();
    if (image === undefined) lastWithImage = now;
    else if (neverPulled.includes(image) || now - lastWithImage >= pullTimeoutMs)
      return { missing: imageMissing(manifest, image), isFinal: true };
    // While the kubelet still runs the former pod, the former container answers on this port.
    const own =
      found === undefined && runsOurs(manifest) ? await askReady(podContainers[pod].healthPort, api.signal) : undefined;
    if (found === undefined && own === undefined) return { isFinal: true };
    return { missing: found ?? `its container "${containerName}" runs, but is not ready: ${own ?? ''}` };
  };
  const patience = { forMs: timeoutMs, everyMs: pollMs, clock, signal: api.signal };
  return (await pollUntil(check, ({ isFinal = false }) => isFinal, patience)).missing;
}

/** The kubelet's hash of the whole manifest that it runs (pkg/kubelet/config/common.go, applyDefaults). */
function hashOf({ metadata }: MirrorPod): string | undefined {
  return metadata?.annotations?.['kubernetes.io/config.hash'];
}

/** Whether the mirror pod has the parts that we change in a manifest: containers, their arguments and their mounts. */
function shows({ metadata, spec }: MirrorPod, manifest: PodManifest): boolean {
  const changed = ({ containers }: PodManifest['spec']): unknown =>
    containers.map(({ name, command, args, volumeMounts = [] }) => {
      return { name, command, args, paths: volumeMounts.map(({ mountPath }) => mountPath) };
    });
  const digest = manifest.metadata.annotations?.[digestAnnotation];
  if (spec === undefined || metadata?.annotations?.[digestAnnotation] !== digest) return false;
  return isDeepStrictEqual(changed(spec), changed(manifest.spec));
}

interface Look {
  /** Undefined: the API shows nothing missing. */
  readonly missing: string | undefined;
  /** Why our container has no image. */
  readonly image?: string;
}

function waitsFor({ status }: MirrorPod): Look {
  const containers = status?.containerStatuses ?? [];
  const waiting = containers.filter(({ ready }) => !ready);
  if (containers.length > 0 && waiting.length === 0) return { missing: undefined };
  if (waiting.length === 0) return { missing: 'its containers have not started' };
  const image = waiting.find(({ name }) => name === containerName)?.state?.waiting?.reason ?? '';
  return {
    missing: `not ready: ${waiting.map(({ name }) => name).join(', ')}`,
    ...([...neverPulled, ...notPulled].includes(image) && { image }),
  };
}

function imageMissing({ spec }: PodManifest, reason: string): string {
  const image = spec.containers.find(({ name }) => name === containerName)?.['image'];
  return `its container "${containerName}" has no image "${String(image)}" (${reason}): load it into the container runtime of this machine, or name one in a registry that the machine reaches`;
}

export function manifestPath({ kubernetesDir }: Pick<KubeadmDirectories, 'kubernetesDir'>, pod: StaticPod): string {
  return join(kubernetesDir, 'manifests', `${pod}.yaml`);
}

/** Parses a manifest. Throws MaterialInvalid when it is not the wanted pod. */
export function podManifest(text: string | Buffer, pod: StaticPod, path: string): PodManifest {
  const manifest = parseYaml(text.toString('utf8')) as Partial<PodManifest> | null | undefined;
  const containers: unknown = manifest?.spec?.containers;
  const isPod = manifest?.kind === 'Pod' && typeof manifest.metadata === 'object' && Array.isArray(containers);
  if (isPod && (containers as readonly Partial<Container>[]).some(({ name }) => name === pod)) {
    return manifest as PodManifest;
  }
  const message = `Cannot use manifest "${path}": it is no Pod with a container "${pod}"; bring the one that kubeadm wrote`;
  throw new RecoveryError('MaterialInvalid', message, { details: { path } });
}

/** Whether this manifest has our container, in whatever version: then its syncer writes the files of the pod. */
export function runsOurs({ spec }: PodManifest): boolean {
  return spec.containers.some(({ name }) => name === containerName);
}
