// Report of `status` on a worker: the files of its kubelet, and whether its units are installed.
import { systemClock } from '../clock.ts';
import type { ToolConfig } from '../config/load.ts';
import { errorText, isCode } from '../errors.ts';
import { missingWorkerUnits } from '../install/host-apply.ts';
import { caBundleKey, certificateKey } from '../inventory/content.ts';
import type { DiskLocation } from '../inventory/model.ts';
import { nextCommand } from '../next-command.ts';
import { leadingCertificate, wholeCertificates } from '../pki/certificate.ts';
import { lastToEnd } from '../pki/successor.ts';
import { type WorkerFile, workerReport, type WorkerStatus } from '../status/worker-state.ts';
import { createDiskStore } from '../store/disk-store.ts';
import { authorityKey, type Entries, locationText, type Store } from '../store/store.ts';
import { expiredAt } from '../worker/expiry.ts';
import { authorityLocations, kubeletFiles, kubeletIdentity } from '../worker/kubelet-files.ts';

interface WorkerRequest {
  /** Undefined: now. */
  readonly at?: Date | undefined;
  /** Default: directory of the administrator's units. */
  readonly unitDirectory?: string | undefined;
  readonly signal: AbortSignal;
}

/** Throws ReadFailed where files are unreadable. */
export async function workerStatus(
  config: Pick<ToolConfig, 'inventory' | 'environment'>,
  { at, unitDirectory, signal }: WorkerRequest,
): Promise<WorkerStatus> {
  const files = kubeletFiles(config);
  const now = at ?? systemClock.now();
  const look = { store: createDiskStore(), now, signal };
  const identity = await kubeletIdentity(files.kubeletConf);
  const { all } = await authorityLocations(files);
  return workerReport({
    client: await clientFile(identity, look),
    authorities: await Promise.all(all.map((location) => authorityFile(location, look))),
    now,
    isForecast: at !== undefined,
    missing: missingWorkerUnits(unitDirectory),
    arming: nextCommand('init workers'),
  });
}

interface Looking {
  readonly store: Store;
  readonly now: Date;
  readonly signal: AbortSignal;
}

async function clientFile(location: DiskLocation, { store, now, signal }: Looking): Promise<WorkerFile> {
  const entries = (await store.read(location, signal))?.entries;
  const bytes = entries?.[certificateKey];
  return {
    location: locationText(location),
    certificate: bytes && leadingCertificate(bytes)?.facts,
    problem: problemOf(() => expiredAt(entries, location, now)),
  };
}

async function authorityFile(location: DiskLocation, { store, signal }: Looking): Promise<WorkerFile> {
  const entries: Entries = (await store.read(location, signal))?.entries ?? {};
  const bytes = entries[location.kind === 'kubeconfig' ? authorityKey : caBundleKey];
  const last = lastToEnd(bytes === undefined ? [] : wholeCertificates(bytes));
  const problem = last === undefined ? `${locationText(location)} holds no CA certificate` : undefined;
  return { location: locationText(location), certificate: last?.facts, problem };
}

function problemOf(judge: () => unknown): string | undefined {
  try {
    judge();
    return undefined;
  } catch (err) {
    if (!isCode(err, 'MaterialInvalid')) throw err;
    return errorText(err);
  }
}
