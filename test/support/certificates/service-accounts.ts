// The key of service accounts as kubeadm makes it, for machines that a test puts together.
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Writes sa.key and sa.pub. */
export async function createServiceAccountKey(directory: string): Promise<void> {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeFile(join(directory, 'sa.key'), privateKey.export({ format: 'pem', type: 'pkcs8' }), { mode: 0o600 });
  await writeFile(join(directory, 'sa.pub'), publicKey.export({ format: 'pem', type: 'spki' }));
}
