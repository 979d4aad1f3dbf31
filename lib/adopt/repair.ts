// `init adopt --repair`: corrects the manifests of an adopted machine after `kubeadm upgrade` (or another program) has
// rewritten them. Only the machine itself can notice, because our containers are gone then; so a timer runs it.
//
//  1. no record, or no drift: done; this is the only cost every minute
//  2. the lock; record and manifests are read again: the machine may just have been given back to kubeadm
//  3. an API server: without one it is not known whether a pod runs, so nothing is written before one answers
//  4. one pod after the other: settings that would be lost, our files, the manifest, and the wait for the pod
//
// Waiting for an API is safe: drifted components read kubeadm's files, and the run before this one heals those. A pod
// that does not come up gets its former manifest back, and is tried again only when that manifest, the record or the
// boot changes; the other pods would get the same image and request the same API, so they are not tried either.
import { access } from 'node:fs/promises';
import { basename } from 'node:path';
import { errorText, isCode, RecoveryError, systemCode } from '../errors.ts';
import { flagArguments } from '../install/component-flags.ts';
import { readIfPresent } from '../install/existing-files.ts';
import { digestAnnotation } from '../install/install-record.ts';
import { adoptionFile } from '../install/layout.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Log } from '../log.ts';
import type { Lock } from '../host/lock.ts';
import { refuseBesideKubeadm } from '../host/sole-writer.ts';
import { requireKubeadmFlags } from './guard.ts';
import {
  forgetFailures,
  hasFailed,
  manifestsState,
  type ManifestsLocking,
  noteFailure,
  withManifestsLock,
} from './manifests-lock.ts';
import { type AdoptionRecord, readRecord } from './record.ts';
import { changeStaticPod, manifestPath, podManifest } from './static-pods-apply.ts';
import { containerName } from '../install/own-container.ts';
import { addTo, digestOf, type PodAddition, type PodManifest, removeFrom } from './static-pods.ts';
import { adoptAgain, repairAgain, unadoptAgain } from './adopt-again.ts';

export interface RepairOptions extends ManifestsLocking {
  /** Absolute path of the directory for our files. */
  readonly directory: string;
  /** Connects as administrator; undefined when no API server answers. Called only after drift was found. */
  readonly reach: (record: AdoptionRecord) => Promise<KubeConnection | undefined>;
  /** Longest time until a pod must run. */
  readonly timeoutMs?: number;
  /** Writes nothing. */
  readonly dryRun: boolean;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface RepairOutcome {
  /** Number of corrected manifests; with dryRun: of manifests that would be corrected. */
  readonly repaired: number;
  /** Errors that kept the other manifests from it, each logged already. */
  readonly failures: readonly unknown[];
}

interface Drift {
  readonly addition: PodAddition;
  /** Path of the manifest. */
  readonly path: string;
  /** Bytes of the manifest that drifted. */
  readonly before: Buffer;
  readonly message: string;
}

/** An absent manifest means a pod that was stopped: nothing to add to. Throws ReadFailed, MaterialInvalid. */
async function findDrift(record: AdoptionRecord, additions = record.additions): Promise<readonly Drift[]> {
  const found: Drift[] = [];
  for (const addition of additions) {
    const path = manifestPath(record, addition.pod);
    const before = await readIfPresent(path, 'manifest');
    if (before === undefined) continue;
    const missing = driftOf(podManifest(before, addition.pod, path), addition);
    if (missing !== undefined) found.push({ addition, path, before, message: `${basename(path)} ${missing}` });
  }
  return found;
}

const nothing: RepairOutcome = { repaired: 0, failures: [] };

/** Throws errors of the whole machine: of the record, of reading a manifest, AlreadyRunning, and errors of `reach`. */
export async function runRepair(options: RepairOptions): Promise<RepairOutcome> {
  const { directory, dryRun, log } = options;
  const seen = await readRecord(directory);
  if (seen === undefined || (await findDrift(seen)).length === 0) return nothing;
  return withManifestsLock(options, async (lock) => {
    const record = await readRecord(directory);
    const drifted = record === undefined ? [] : await findDrift(record);
    for (const { addition, path, message } of drifted) {
      const keep = `what it lacks is added again. To keep it as it is, run "${unadoptAgain(directory)}", or remove "${adoptionFile(directory)}" when no API server answers`;
      log.warn('manifest.drifted', { component: addition.pod, path, message: `${message}; ${keep}` });
    }
    if (record === undefined || drifted.length === 0) return nothing;
    if (dryRun) return { repaired: drifted.length, failures: [] };
    const connection = await options.reach(record);
    if (connection === undefined) {
      const message =
        'no API server answers, so nobody could see whether a pod runs; nothing is written before one does';
      log.info('manifest.waiting', { message });
      return nothing;
    }
    try {
      return await repairAll({ ...options, record, connection, lock });
    } finally {
      await connection.close();
    }
  });
}

interface Repairing extends RepairOptions {
  readonly record: AdoptionRecord;
  readonly connection: KubeConnection;
  readonly lock: Lock;
}

async function repairAll(repairing: Repairing): Promise<RepairOutcome> {
  const { record, log, signal, refuseBesideOthers = refuseBesideKubeadm } = repairing;
  const failures: unknown[] = [];
  let repaired = 0;
  for (const addition of record.additions) {
    // The pod before may have taken minutes.
    refuseBesideOthers();
    const [drift] = await findDrift(record, [addition]);
    if (drift === undefined) continue;
    const fields = { component: addition.pod, path: drift.path };
    try {
      await repairOne(drift, repairing);
      log.info('manifest.repaired', fields);
      repaired += 1;
    } catch (err) {
      if (isCode(err, 'KubeConflict')) {
        log.info('manifest.waiting', { ...fields, message: errorText(err) }); // for the Lease
        continue;
      }
      log.error('manifest.failed', { ...fields, err: errorText(err) });
      failures.push(err);
      // A refused pod does not concern the other pods; a pod that does not run does.
      if (isCode(err, 'ProofFailed') || signal.aborted) break;
    }
  }
  return { repaired, failures };
}

async function repairOne(drift: Drift, repairing: Repairing): Promise<void> {
  const { addition, path } = drift;
  const { record, connection, lock, lockDir, timeoutMs, clock, signal } = repairing;
  const { pod } = addition;
  await requireFiles(addition);
  if (await hasFailed(lockDir, drift)) {
    const message = `Cannot repair manifest "${path}": its pod has not come to run when that was tried, and nothing has changed since; look at its containers (crictl ps -a, crictl logs), then run "${adoptAgain(addition)}"`;
    throw new RecoveryError('ProofFailed', message);
  }
  const change = (manifest: PodManifest): PodManifest => {
    requireKubeadmFlags(removeFrom(manifest), pod, record);
    return addTo(manifest, addition);
  };
  try {
    await changeStaticPod(pod, change, {
      ...record,
      api: { connection, signal },
      // The timer's next run requests the Lease again, and must know since when this run has waited.
      leaseTimeoutMs: 0,
      leaseState: manifestsState(lockDir),
      timeoutMs,
      clock,
      lock,
    });
  } catch (err) {
    if (isCode(err, 'ProofFailed') && !signal.aborted) await noteFailure(lockDir, drift);
    throw err;
  }
  await forgetFailures(lockDir, [pod]);
}

/** A component whose flags name an absent file does not start. */
async function requireFiles({ pod, image, layout, flags, kubeletPki }: PodAddition): Promise<void> {
  const named = Object.values(flags)
    .flat()
    .flatMap((value) => value.split(/[,:]/).filter((part) => part.startsWith(`${layout.directory}/`)));
  for (const path of [layout.configFile, ...(kubeletPki === undefined ? [] : [kubeletPki]), ...named]) {
    try {
      await access(path);
    } catch (cause) {
      const message = `Cannot repair static pod "${pod}": "${path}" is not there (${systemCode(cause) ?? errorText(cause)}); run "${adoptAgain({ image, layout })}"`;
      throw new RecoveryError('MaterialInvalid', message, { cause });
    }
  }
}

/**
 * Returns missing additions of `init adopt`, as the rest of a sentence that begins with the manifest; undefined: none.
 * Other edits are no drift, and kubeadm with our patches writes a manifest without drift. Pure.
 */
export function driftOf({ metadata, spec }: PodManifest, addition: PodAddition): string | undefined {
  const { pod, layout } = addition;
  const digest = metadata.annotations?.[digestAnnotation];
  const hasOwn = spec.containers.some(({ name }) => name === containerName);
  if (digest === undefined && !hasOwn) return 'has nothing of this program: it has been rewritten';
  if (digest !== digestOf(addition)) return 'has not what the last adoption added';
  if (!hasOwn) return `lacks the container "${containerName}"`;
  const component = spec.containers.find(({ name }) => name === pod);
  const words = [...(component?.command ?? []), ...(component?.args ?? [])];
  const flag = flagArguments(addition.flags).find((one) => !words.includes(one));
  if (flag !== undefined) return `lacks the flag ${flag.replace(/=.*/s, '')} that names a file of this program`;
  const paths = (component?.volumeMounts ?? []).map(({ mountPath }) => mountPath);
  const path = [layout.certs, layout.kubeconfigs].find((one) => !paths.includes(one));
  return path === undefined ? undefined : `does not mount "${path}" into ${pod}`;
}

/**
 * Notes of `status` on whose files the components read, and whether their manifests still match the record. Sentences;
 * none on a machine that is not adopted. Never rejects: the notes include the error instead.
 */
export async function adoptionNotes(directory: string): Promise<readonly string[]> {
  try {
    const record = await readRecord(directory);
    if (record === undefined) return [];
    const drifted = await findDrift(record);
    if (drifted.length === 0) {
      return [
        `this machine is adopted: its static pods read files below "${directory}"; kubeadm's own are kept good for etcd, the kubelet and the way back`,
      ];
    }
    return drifted.map(
      ({ message }) =>
        `this machine is adopted, but ${message}; the timer of "init host" repairs that, or "${repairAgain(directory)}"`,
    );
  } catch (err) {
    return [errorText(err)];
  }
}
