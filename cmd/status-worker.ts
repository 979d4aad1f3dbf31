// `status` on a worker: the files of its kubelet, and whether the units of `init host --worker-token-file` are
// installed.
import { join } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import { errorText, isCode } from '../lib/errors.ts';
import { missingWorkerUnits } from '../lib/install/host-apply.ts';
import { caBundleKey, certificateKey } from '../lib/inventory/content.ts';
import type { DiskLocation } from '../lib/inventory/model.ts';
import { nextCommand } from '../lib/next-command.ts';
import { type Certificate, leadingCertificate, wholeCertificates } from '../lib/pki/certificate.ts';
import { renderWorkerStatus } from '../lib/status/print-worker.ts';
import { type WorkerFile, workerReport } from '../lib/status/worker-state.ts';
import { createDiskStore } from '../lib/store/disk-store.ts';
import { authorityKey, type Entries, locationText, type Store } from '../lib/store/store.ts';
import { expiredAt } from '../lib/worker/expiry.ts';
import { authorityLocations, kubeletIdentity } from '../lib/worker/kubelet-files.ts';
import { exitOfWorker } from './exit-codes.ts';
import type { Io } from './io.ts';
import type { StatusRequest } from './status-api.ts';

interface WorkerMachine extends StatusRequest {
  /** Directories of this machine. */
  readonly directories: Readonly<Record<'kubernetesDir' | 'pkiDir' | 'kubeletDir', string>>;
  readonly unitDirectory?: string | undefined;
}

/** Throws ReadFailed where files are unreadable. */
export async function workerStatus(machine: WorkerMachine, io: Io): Promise<number> {
  const { directories, at, output, unitDirectory } = machine;
  const { kubernetesDir, pkiDir, kubeletDir } = directories;
  const kubeletConf = join(kubernetesDir, 'kubelet.conf');
  const now = at ?? systemClock.now();
  const look = { store: createDiskStore(), now, signal: io.signal };
  const identity = await kubeletIdentity(kubeletConf);
  const kubelet = { kubeletConf, kubeletConfig: join(kubeletDir, 'config.yaml') };
  const { all } = await authorityLocations({ ...kubelet, usualAuthority: join(pkiDir, 'ca.crt') });
  const status = workerReport({
    client: await clientFile(identity, look),
    authorities: await Promise.all(all.map((location) => authorityFile(location, look))),
    now,
    isForecast: at !== undefined,
    missing: missingWorkerUnits(unitDirectory),
    arming: nextCommand('init workers'),
  });
  io.stdout.write(renderWorkerStatus(status, output));
  return exitOfWorker(status);
}

interface Looking {
  readonly store: Store;
  readonly now: Date;
  readonly signal: AbortSignal;
}

async function clientFile(location: DiskLocation, { store, now, signal }: Looking): Promise<WorkerFile> {
  const entries = (await store.read(location, signal))?.entries;
  return {
    location: locationText(location),
    certificate: leaderOf(entries?.[certificateKey])?.facts,
    problem: problemOf(() => expiredAt(entries, location, now)),
  };
}

async function authorityFile(location: DiskLocation, { store, signal }: Looking): Promise<WorkerFile> {
  const entries: Entries = (await store.read(location, signal))?.entries ?? {};
  const bytes = entries[location.kind === 'kubeconfig' ? authorityKey : caBundleKey];
  const last = longest(bytes === undefined ? [] : wholeCertificates(bytes));
  const problem = last === undefined ? `${locationText(location)} holds no CA certificate` : undefined;
  return { location: locationText(location), certificate: last?.facts, problem };
}

const leaderOf = (bytes: Uint8Array | undefined): Certificate | undefined =>
  bytes === undefined ? undefined : leadingCertificate(bytes);

const longest = (all: readonly Certificate[]): Certificate | undefined =>
  all.toSorted((a, b) => b.facts.notAfter.getTime() - a.facts.notAfter.getTime())[0];

function problemOf(judge: () => unknown): string | undefined {
  try {
    judge();
    return undefined;
  } catch (err) {
    if (!isCode(err, 'MaterialInvalid')) throw err;
    return errorText(err);
  }
}
