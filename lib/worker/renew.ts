// One run on a worker: reads the kubelet's client certificate, requests the next one when it has expired, writes it.
// Nothing is requested while it is valid. The lock is held for the write alone: a run that waits for the API blocks no
// other run.
import { join } from 'node:path';
import { realDisk } from '../disk/disk.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { DiskLocation } from '../inventory/model.ts';
import { pathOf } from '../inventory/places.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { datedBeside } from '../store/dated-files.ts';
import { type Entries, type Found, type Store, verifyMaterial } from '../store/store.ts';
import { askForCertificate } from './ask.ts';
import { expiredAt } from './expiry.ts';
import type { ConnectAs } from './issued.ts';
import { kubeletIdentity, replaceLocked, type WorkerHost } from './kubelet-files.ts';

export interface WorkerRenewal extends WorkerHost {
  /** Sends nothing yet. */
  readonly connect: () => Promise<{ readonly connection: KubeConnection; readonly account: string | undefined }>;
  readonly connectAs: ConnectAs;
}

/**
 * `renewed`: by this run. `lost`: an earlier pair that is still valid would be put back. Throws ConfigInvalid for a
 * kubelet.conf that names no file, MaterialInvalid for a certificate of which nothing can be proven, and the errors of
 * request, trial and write.
 */
export async function renewWorker(options: WorkerRenewal): Promise<'valid' | 'lost' | 'expired' | 'renewed'> {
  const { clock, dryRun } = options;
  const location = await kubeletIdentity(options.kubeletConf);
  const { entries, isEarlier } = await lookAt(location, options);
  const expired = expiredAt(entries, location, clock.now());
  if (expired === undefined && !isEarlier) return 'valid';
  if (expired === undefined) return dryRun ? 'lost' : await putBack(location, options);
  if (dryRun) return 'expired';
  const { connection, account } = await options.connect();
  try {
    const issued = await askForCertificate(expired, { ...options, connection, account });
    return await publishIssued(issued, expired.node, location, options);
  } finally {
    await connection.close();
  }
}

interface Present {
  /** Material at the location; undefined: none. */
  readonly found: Found | undefined;
  readonly entries: Entries | undefined;
  /** The entries come from an earlier file: the present one has no certificate. */
  readonly isEarlier: boolean;
}

async function lookAt(location: DiskLocation, { store, signal }: WorkerRenewal): Promise<Present> {
  const found = await store.read(location, signal);
  const earlier = found?.entries[certificateKey] === undefined ? await earlierPair(location, store, signal) : undefined;
  return { found, entries: earlier ?? found?.entries, isEarlier: earlier !== undefined };
}

/**
 * The newest whole pair of the dated files next to a combined file; undefined: none. A power loss while the kubelet
 * takes a new certificate leaves its link dangling, or pointing to an empty file: client-go does not sync the file
 * (util/certificate/certificate_store.go, Update).
 */
async function earlierPair(
  location: DiskLocation,
  store: Pick<Store, 'read'>,
  signal: AbortSignal,
): Promise<Entries | undefined> {
  if (location.kind !== 'combinedPem') return undefined;
  const { directory, names } = await datedBeside(realDisk, location.file);
  for (const name of names) {
    const dated = { ...location, file: join(directory, name) };
    try {
      const there = await store.read(dated, signal);
      if (there === undefined) continue;
      verifyMaterial(dated, there);
      return there.entries;
    } catch {
      // Another dated file may be whole.
    }
  }
  return undefined;
}

/** `next`: entries made from the material present once the lock is held; undefined where another run was faster. */
async function publish(
  location: DiskLocation,
  options: WorkerRenewal,
  next: (present: Present) => Entries | undefined,
): Promise<'valid' | 'renewed'> {
  const hasWritten = await replaceLocked([location], options, async () => {
    const present = await lookAt(location, options);
    const entries = next(present);
    return entries && { entries, seen: present.found ?? 'absent' };
  });
  return hasWritten ? 'renewed' : 'valid';
}

/** Writes an earlier pair that is still valid in place of a lost file. */
async function putBack(location: DiskLocation, options: WorkerRenewal): Promise<'valid' | 'renewed'> {
  const outcome = await publish(location, options, ({ entries, isEarlier }) => (isEarlier ? entries : undefined));
  if (outcome === 'renewed')
    options.log.warn('target.restored', { artefact: 'kubelet-client', path: pathOf(location) });
  return outcome;
}

async function publishIssued(
  issued: Buffer,
  node: string,
  location: DiskLocation,
  options: WorkerRenewal,
): Promise<'valid' | 'renewed'> {
  const outcome = await publish(location, options, ({ entries }) => {
    if (expiredAt(entries, location, options.clock.now()) === undefined) return undefined;
    return { ...keyIn(entries), [certificateKey]: issued };
  });
  if (outcome === 'renewed') {
    const notAfter = parseCertificates(issued, 'answer')[0]?.facts.notAfter.toISOString();
    options.log.info('target.regenerated', { artefact: 'kubelet-client', path: pathOf(location), node, notAfter });
  }
  return outcome;
}

const keyIn = (entries: Entries | undefined): Record<string, Uint8Array> => {
  const { [privateKeyKey]: key } = entries ?? {};
  return key === undefined ? {} : { [privateKeyKey]: key };
};
