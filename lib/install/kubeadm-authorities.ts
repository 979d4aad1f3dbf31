// The CAs on a machine of kubeadm that its readers trust, for whoever compares them with those in the API.
import { join } from 'node:path';
import { trustedFiles } from './adopt-guard.ts';
import { readIfPresent } from './files.ts';

/** In PEM, by name below pkiDir; empty where there is none. Throws ReadFailed. */
export async function readAuthorities(pkiDir: string): Promise<ReadonlyMap<string, Uint8Array>> {
  const read = trustedFiles.map(async (file) => {
    const bytes = await readIfPresent(join(pkiDir, file), 'CA');
    return [file, bytes ?? new Uint8Array()] as const;
  });
  return new Map(await Promise.all(read));
}
