// A power loss while the kubelet takes a new certificate leaves the link of its present one without a file, or with one that is
// empty: client-go does not sync it (util/certificate/certificate_store.go, Update). The pair before it still lies beside it.
import { join } from 'node:path';
import { type Disk, realDisk } from '../disk/disk.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { DiskLocation } from '../inventory/model.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { keyMatches, parsePrivateKey } from '../pki/key.ts';
import { datedBeside } from '../store/dated-files.ts';
import type { Entries, Store } from '../store/store.ts';

/** Of dated files beside the one that is named, the newest whose certificate and key belong together; undefined: none. */
export async function earlierPair(
  location: DiskLocation,
  store: Pick<Store, 'read'>,
  signal: AbortSignal,
  disk: Disk = realDisk,
): Promise<Entries | undefined> {
  if (location.kind !== 'combinedPem') return undefined;
  const { directory, names } = await datedBeside(disk, location.file);
  for (const name of names) {
    const file = join(directory, name);
    const entries = (await store.read({ kind: 'combinedPem', file }, signal).catch(() => undefined))?.entries;
    if (entries !== undefined && isPair(entries, file)) return entries;
  }
  return undefined;
}

function isPair({ [certificateKey]: certificate, [privateKeyKey]: key }: Entries, what: string): boolean {
  if (certificate === undefined || key === undefined) return false;
  try {
    const [leaf] = parseCertificates(certificate, what, 'skipped');
    return leaf !== undefined && keyMatches(leaf, parsePrivateKey(key, what));
  } catch {
    return false; // another one may be whole
  }
}
