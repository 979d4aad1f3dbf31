// `init adopt --repair`: puts the manifests of an adopted machine right after `kubeadm upgrade` (or whoever else) has
// written them anew. Only the machine itself can notice, because our containers are gone then; so a timer runs it.
//
//  1. no record, or nothing has drifted: done; this is all that it costs every minute
//  2. the lock; the record and the manifests once more: the machine may just have been given back to kubeadm
//  3. one pod after the other: what would be lost, whether our files are there, the manifest, and the wait for the pod
//
// Without an API nobody can tell whether a pod runs. The manifest is written all the same: an API server that serves
// kubeadm's expired files is away for good, and the one that reads ours comes back. A pod that has been seen not to run
// gets its former manifest back, and is not tried again until that manifest, the record or the boot is another.
import { createHash } from 'node:crypto';
import { access } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Clock } from '../clock.ts';
import { replaceFile } from '../disk/files.ts';
import { errorText, isCode, RecoveryError, systemCode } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { LeaseTurn, restartTurn } from '../leases/turn.ts';
import type { Log } from '../log.ts';
import { editManifest } from '../restart/manifest-file.ts';
import { refuseBesideKubeadm } from '../store/other-writer.ts';
import { parseYaml, toYaml } from '../yaml.ts';
import { driftOf } from './adopt-drift.ts';
import { requireKubeadmFlags } from './adopt-guard.ts';
import { type AdoptionRecord, readRecord } from './adopt-record.ts';
import { readRegularIfPresent } from './files.ts';
import { manifestsLockDirectory, withManifestsLock } from './manifests-lock.ts';
import { changeStaticPod } from './static-pods-apply.ts';
import { addTo, digestOf, manifestPath, type PodAddition, podManifest, removeFrom } from './static-pods.ts';

export interface RepairOptions {
  /** Of our files. Absolute path. */
  readonly directory: string;
  readonly lockDir: string;
  /** As an administrator; undefined when no API server answers. Asked only when something has drifted. */
  readonly reach: (record: AdoptionRecord) => Promise<KubeConnection | undefined>;
  /** Throws AlreadyRunning while kubeadm runs. */
  readonly refuseBesideOthers?: () => void;
  /** How long a pod may take until it runs. */
  readonly timeoutMs?: number;
  /** Writes nothing. */
  readonly dryRun: boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface Drift {
  readonly addition: PodAddition;
  /** Of the manifest. */
  readonly path: string;
  /** The bytes that were looked at. */
  readonly before: Buffer;
  readonly message: string;
}

/** An absent manifest is a pod that somebody has stopped: there is nothing to add to. Throws ReadFailed, MaterialInvalid. */
export async function findDrift({ kubernetesDir, additions }: AdoptionRecord): Promise<readonly Drift[]> {
  const found: Drift[] = [];
  for (const addition of additions) {
    const path = manifestPath(join(kubernetesDir, 'manifests'), addition.pod);
    const before = await readRegularIfPresent(path, 'manifest');
    if (before === undefined) continue;
    const missing = driftOf(podManifest(parseYaml(before.toString('utf8')), addition.pod, path), addition);
    if (missing !== undefined) found.push({ addition, path, before, message: `${basename(path)} ${missing}` });
  }
  return found;
}

/** How many manifests were put right (with dryRun: would be). Throws the first of what kept others from it. */
export async function runRepair(options: RepairOptions): Promise<number> {
  const { directory, refuseBesideOthers = refuseBesideKubeadm, dryRun, log } = options;
  const seen = await readRecord(directory);
  if (seen === undefined || (await findDrift(seen)).length === 0) return 0;
  return withManifestsLock(options, async () => {
    refuseBesideOthers();
    const record = await readRecord(directory);
    const drifted = record === undefined ? [] : await findDrift(record);
    for (const { addition, path, message } of drifted) {
      log.warn('manifest.drifted', { component: addition.pod, path, message });
    }
    if (record === undefined || drifted.length === 0 || dryRun) return drifted.length;
    const connection = await options.reach(record);
    try {
      return await repairAll(drifted, { ...options, record, connection });
    } finally {
      await connection?.close();
    }
  });
}

interface Repairing extends RepairOptions {
  readonly record: AdoptionRecord;
  readonly connection: KubeConnection | undefined;
}

async function repairAll(drifted: readonly Drift[], repairing: Repairing): Promise<number> {
  const failures: unknown[] = [];
  for (const drift of drifted) {
    const fields = { component: drift.addition.pod, path: drift.path };
    try {
      await repairOne(drift, repairing);
      const unseen = 'no API server answers, so whether the pod runs is not known';
      repairing.log.info('manifest.repaired', {
        ...fields,
        ...(repairing.connection === undefined && { message: unseen }),
      });
    } catch (err) {
      // One that is refused says nothing about the others.
      repairing.log.error('manifest.failed', { ...fields, err: errorText(err) });
      failures.push(err);
    }
  }
  if (failures.length > 0) throw failures[0];
  return drifted.length;
}

async function repairOne(drift: Drift, repairing: Repairing): Promise<void> {
  const { addition, path, before } = drift;
  const { record, connection, lockDir, clock, signal } = repairing;
  const { pod } = addition;
  requireKubeadmFlags(removeFrom(podManifest(parseYaml(before.toString('utf8')), pod, path)), pod, record);
  await requireFiles(addition);
  if (connection === undefined) return placeManifest(drift);

  const note = join(manifestsLockDirectory(lockDir), `${pod}.failed`);
  const attempt = createHash('sha256').update(before).update(digestOf(addition)).digest('hex');
  if ((await readRegularIfPresent(note, 'note'))?.toString('utf8') === attempt) {
    const message = `Cannot repair manifest "${path}": its pod has not come to run when that was tried, and nothing has changed since; look at its containers (crictl ps -a, crictl logs), then run "kube-cert-recovery init adopt" again`;
    throw new RecoveryError('ProofFailed', message);
  }
  const turn =
    pod === 'kube-apiserver'
      ? new LeaseTurn({ connection, lease: restartTurn, holder: record.nodeName, clock, signal })
      : undefined;
  await takeTurn(turn);
  try {
    const api = { connection, signal };
    const machine = { api, manifestsDir: join(record.kubernetesDir, 'manifests'), nodeName: record.nodeName, clock };
    const { timeoutMs } = repairing;
    const options = { ...machine, ...(timeoutMs !== undefined && { timeoutMs }) };
    await changeStaticPod(pod, (manifest) => addTo(manifest, addition), options);
  } catch (err) {
    if (isCode(err, 'ProofFailed') && !signal.aborted) {
      await replaceFile({ path: note, content: attempt, mode: 0o600, what: 'note' });
    }
    throw err;
  } finally {
    await turn?.giveBack();
  }
}

async function takeTurn(turn: LeaseTurn | undefined): Promise<void> {
  try {
    await turn?.take();
  } catch (err) {
    // Where there is no namespace for the Lease nobody else can have taken it.
    if (!isCode(err, 'KubeNotFound')) throw err;
  }
}

async function placeManifest({ addition, path, before }: Drift): Promise<void> {
  const { pod } = addition;
  const next = toYaml(addTo(podManifest(parseYaml(before.toString('utf8')), pod, path), addition));
  const { outcome } = await editManifest(path, (bytes) => (bytes.equals(before) ? next : undefined));
  if (outcome === 'written') return;
  const message = `Cannot write manifest "${path}": somebody else has just written it; run this again`;
  throw new RecoveryError('WriteFailed', message);
}

/** A component whose flags name a file that is not there does not start. */
async function requireFiles({ pod, layout, flags, kubeletPki }: PodAddition): Promise<void> {
  const named = Object.values(flags)
    .flat()
    .flatMap((value) => value.split(/[,:]/).filter((part) => part.startsWith(`${layout.directory}/`)));
  for (const path of [layout.configFile, ...(kubeletPki === undefined ? [] : [kubeletPki]), ...named]) {
    try {
      await access(path);
    } catch (cause) {
      const message = `Cannot repair static pod "${pod}": "${path}" is not there (${systemCode(cause) ?? errorText(cause)}); run "kube-cert-recovery init adopt" again`;
      throw new RecoveryError('MaterialInvalid', message, { cause });
    }
  }
}
