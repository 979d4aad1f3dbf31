// Files in which a worker's kubelet has its certificate, its key and the CAs, by kubelet.conf and its configuration, and
// the way in which they are replaced.
import { dirname, join, resolve } from 'node:path';
import type { Clock } from '../clock.ts';
import type { ToolConfig } from '../config/load.ts';
import { attempt, realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { lockHost } from '../host/sole-writer.ts';
import { allDirectories } from '../inventory/located.ts';
import type { DiskLocation } from '../inventory/model.ts';
import { fileDirectories, pathOf } from '../inventory/places.ts';
import { readKubeconfigView } from '../kubeconfig/document.ts';
import type { Log } from '../log.ts';
import { realFile } from '../store/shared-files.ts';
import { type Entries, locationText, type Seen, type Store } from '../store/store.ts';
import { isMapping, yamlMapping, yamlText } from '../yaml.ts';
import { byHandAdvice } from './expiry.ts';

export interface KubeletFiles {
  /** Kubeconfig of the kubelet: it names the API server and its CA. Absolute path. */
  readonly kubeletConf: string;
  /** Configuration of the kubelet: it names the CA of its clients. Absolute path. */
  readonly kubeletConfig: string;
  /** Path at which kubeadm puts the CA of the kubelet's clients. Absolute. */
  readonly usualAuthority: string;
}

/** A run on a worker. */
export interface WorkerHost extends KubeletFiles {
  /** The files of this host. */
  readonly store: Store;
  readonly lockDir: string;
  /** Time to wait for the API server, the approver and the signer together. */
  readonly waitMs: number;
  /** Only reports whether there is something to do. */
  readonly dryRun: boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export function kubeletFiles({ inventory, environment }: Pick<ToolConfig, 'inventory' | 'environment'>): KubeletFiles {
  const { kubernetesDir = '', pkiDir = '', kubeletDir = '' } = allDirectories(inventory, environment.directories ?? {});
  return {
    kubeletConf: join(kubernetesDir, 'kubelet.conf'),
    kubeletConfig: join(kubeletDir, 'config.yaml'),
    usualAuthority: join(pkiDir, 'ca.crt'),
  };
}

interface Replacement {
  readonly entries: Entries;
  readonly seen: Seen;
  readonly onWritten?: () => void;
}

/**
 * Writes the replacement of each file as it is once the lock is held; undefined where another run was faster. Returns
 * whether any was written. Throws WriteFailed.
 */
export async function replaceLocked(
  locations: readonly DiskLocation[],
  { store, lockDir, clock, signal }: WorkerHost,
  replacementOf: (location: DiskLocation) => Promise<Replacement | undefined>,
): Promise<boolean> {
  const lock = await lockHost({ lockDir, directories: fileDirectories(locations), once: true, clock, signal });
  let hasWritten = false;
  try {
    for (const location of locations) {
      const next = await replacementOf(location);
      if (next === undefined) continue;
      await lock.confirm();
      const outcome = await store.write(location, { entries: next.entries, annotations: {} }, next.seen, signal);
      const message = `Cannot renew ${locationText(location)}: it has just been changed; run it again`;
      if (outcome === 'conflict') throw new RecoveryError('WriteFailed', message);
      hasWritten = true;
      next.onWritten?.();
    }
    return hasWritten;
  } finally {
    await lock.release();
  }
}

/** Location of the kubelet's certificate and key. Throws ConfigInvalid, ReadFailed. */
export async function kubeletIdentity(kubeletConf: string): Promise<DiskLocation> {
  const what = `kubeconfig "${kubeletConf}"`;
  const bytes = await attempt({ code: 'ReadFailed', action: 'read', what, directory: dirname(kubeletConf) }, () =>
    readRegularFile(realDisk, kubeletConf),
  );
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError('ConfigInvalid', `Cannot renew the kubelet's certificate: ${what} ${problem}`);
  const view = readKubeconfigView(kubeletConf, bytes, {});
  if ('problem' in view) throw refuse(`cannot be used, ${view.problem}; ${byHandAdvice()}`);
  if ('foreign' in view) throw refuse(`is not that of a kubelet with a certificate, ${view.foreign}`);
  const { certificate, key } = view;
  if (certificate.kind === 'file' && key.kind === 'file') {
    // Compared by real path, as a link to a dated file has a name of its own.
    const [real, realOfKey] = await Promise.all([certificate, key].map(({ file }) => realFile(realDisk, file)));
    if (real === realOfKey) return { kind: 'combinedPem', file: certificate.file };
    return { kind: 'pemPair', certFile: certificate.file, keyFile: key.file };
  }
  const file = '/var/lib/kubelet/pki/kubelet-client-current.pem';
  const wanted = `put them into "${file}" and name that in client-certificate and client-key, as kubeadm does`;
  throw refuse(`holds certificate or key in itself, and a kubelet renews files only; ${wanted}`);
}

/**
 * Files that hold CAs on a worker: kubelet.conf or the file that it names, and the file of the CA of the kubelet's
 * clients.
 */
export async function authorityLocations({
  kubeletConf,
  kubeletConfig,
  usualAuthority,
}: KubeletFiles): Promise<Readonly<Record<'own' | 'all', readonly DiskLocation[]>>> {
  const bytes = await readIfThere(kubeletConf);
  const view = bytes && readKubeconfigView(kubeletConf, bytes, {});
  if (view === undefined || !('authority' in view)) return { own: [], all: [] };
  const { authority } = view;
  const own: readonly DiskLocation[] =
    authority.kind === 'data'
      ? [{ kind: 'kubeconfig', file: kubeletConf, endpoint: 'controlPlane' }]
      : authority.kind === 'file'
        ? [{ kind: 'pemFile', file: authority.file }]
        : [];
  const clients = (await clientAuthority(kubeletConfig)) ?? usualAuthority;
  const locations = [...own, { kind: 'pemFile', file: clients } as const];
  return {
    own,
    all: locations.filter((one, at) => locations.findIndex((other) => pathOf(other) === pathOf(one)) === at),
  };
}

async function readIfThere(path: string): Promise<Buffer | undefined> {
  return attempt({ code: 'ReadFailed', action: 'read', what: `"${path}"`, directory: dirname(path) }, () =>
    readRegularFile(realDisk, path),
  ).catch(() => undefined);
}

/** `authentication.x509.clientCAFile` of a KubeletConfiguration; undefined where the field cannot be read. */
async function clientAuthority(kubeletConfig: string): Promise<string | undefined> {
  const bytes = await readIfThere(kubeletConfig);
  let at: unknown = bytes && yamlMapping(yamlText(bytes));
  for (const field of ['authentication', 'x509', 'clientCAFile']) at = isMapping(at) ? at[field] : undefined;
  return typeof at === 'string' && at !== '' ? resolve(dirname(kubeletConfig), at) : undefined;
}
