// One run on a worker: look at the kubelet's client certificate, ask for the next one when it has expired, write it. Nothing
// is asked while it is valid. The lock is held for the write alone: a run that waits for the API keeps no other waiting.
import { dirname } from 'node:path';
import type { Clock } from '../clock.ts';
import { attempt, realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { lockHost } from '../host/sole-writer.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { DiskLocation } from '../inventory/model.ts';
import { filesOf, pathOf } from '../inventory/places.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { readKubeconfigView } from '../kubeconfig/document.ts';
import type { Log } from '../log.ts';
import { parseCertificates } from '../pki/certificate.ts';
import type { Found, Store } from '../store/store.ts';
import { askForCertificate, cannotRenew } from './ask.ts';
import { byHandAdvice, expiredAt } from './expiry.ts';
import { writeNoted } from './kubelet-restart.ts';

export interface WorkerRenewal {
  /** Of the kubelet: it names its certificate, the API server and its CA. Absolute path. */
  readonly kubeletConf: string;
  /** Of the files of this host. */
  readonly store: Store;
  readonly lockDir: string;
  /** Sends nothing yet. */
  readonly connect: () => Promise<KubeConnection>;
  readonly waitMs: number;
  /** Only say whether there is something to do. */
  readonly dryRun: boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/**
 * `renewed`: by this run. Throws ConfigInvalid for a kubelet.conf that names no file, MaterialInvalid for a certificate
 * of which nothing can be proven, and what stands in the way of a new one.
 */
export async function renewWorker(options: WorkerRenewal): Promise<'valid' | 'expired' | 'renewed'> {
  const { store, clock, signal, dryRun } = options;
  const location = await kubeletIdentity(options.kubeletConf);
  const expired = expiredAt((await store.read(location, signal))?.entries, location, clock.now());
  if (expired === undefined) return 'valid';
  if (dryRun) return 'expired';
  const connection = await options.connect();
  try {
    const issued = await askForCertificate(expired, { ...options, connection });
    return await publishIssued(issued, location, options);
  } finally {
    await connection.close();
  }
}

async function publishIssued(
  issued: Buffer,
  location: DiskLocation,
  options: WorkerRenewal,
): Promise<'valid' | 'renewed'> {
  const { store, lockDir, clock, log, signal } = options;
  const lock = await lockHost({ lockDir, once: true, clock, signal });
  try {
    const found = await store.read(location, signal);
    const expired = expiredAt(found?.entries, location, clock.now());
    if (expired === undefined || found === undefined) return 'valid'; // another run was faster
    const next = { entries: { ...keyOf(found), [certificateKey]: issued }, annotations: {} };
    if ((await writeNoted(location, next, found, options)) === 'conflict') {
      throw cannotRenew(expired.node)('WriteFailed', `"${pathOf(location)}" has just been changed; run it again`);
    }
    const notAfter = parseCertificates(issued, 'answer')[0]?.facts.notAfter.toISOString();
    log.info('target.regenerated', {
      artefact: 'kubelet-client',
      path: pathOf(location),
      node: expired.node,
      notAfter,
    });
    return 'renewed';
  } finally {
    await lock.release();
  }
}

const keyOf = ({ entries }: Found): Record<string, Uint8Array> => {
  const { [privateKeyKey]: key } = entries;
  return key === undefined ? {} : { [privateKeyKey]: key };
};

/** Where the kubelet has its certificate and key. Throws ConfigInvalid, ReadFailed. */
export async function kubeletIdentity(kubeletConf: string): Promise<DiskLocation> {
  const what = `kubeconfig "${kubeletConf}"`;
  const bytes = await attempt({ code: 'ReadFailed', action: 'read', what, directory: dirname(kubeletConf) }, () =>
    readRegularFile(realDisk, kubeletConf),
  );
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError('ConfigInvalid', `Cannot renew the kubelet's certificate: ${what} ${problem}`);
  const view = readKubeconfigView(kubeletConf, bytes, {});
  if ('problem' in view) throw refuse(`cannot be used, ${view.problem}; ${byHandAdvice}`);
  if ('foreign' in view) throw refuse(`is not that of a kubelet with a certificate, ${view.foreign}`);
  const { certificate, key } = view;
  if (certificate.kind === 'file' && key.kind === 'file') {
    // By whatever names: a link to a dated file has that for its own.
    if (await isOneFile(certificate.file, key.file)) return { kind: 'combinedPem', file: certificate.file };
    return { kind: 'pemPair', certFile: certificate.file, keyFile: key.file };
  }
  const file = '/var/lib/kubelet/pki/kubelet-client-current.pem';
  const wanted = `put them into "${file}" and name that in client-certificate and client-key, as kubeadm does`;
  throw refuse(`holds certificate or key in itself, and a kubelet renews files only; ${wanted}`);
}

async function isOneFile(one: string, other: string): Promise<boolean> {
  if (one === other) return true;
  const [first, second] = await Promise.all([one, other].map((file) => realDisk.realpath(file).catch(() => file)));
  return first === second;
}

/** Directories in which a renewal makes files. */
export const directoriesOf = (location: DiskLocation): readonly string[] => [
  ...new Set(filesOf(location).map(({ file }) => dirname(file))),
];
