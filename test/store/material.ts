// Material for store tests: real pairs, made once per file by the openssl command line.
import { readFile } from 'node:fs/promises';
import type { Material } from '../../lib/store/store.ts';
import type { Pair } from '../support/certificates/certificates.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';

export async function pairMaterial(pair: Pair, annotations: Record<string, string> = {}): Promise<Material> {
  const entries = { [certificateKey]: await readFile(pair.cert), [privateKeyKey]: await readFile(pair.key) };
  return { entries, annotations };
}

export async function bundleMaterial(...files: readonly string[]): Promise<Material> {
  const certificates = await Promise.all(files.map((file) => readFile(file)));
  return { entries: { [caBundleKey]: Buffer.concat(certificates) }, annotations: {} };
}
