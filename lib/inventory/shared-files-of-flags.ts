// Files that flags name for more than one purpose: the key of two certificates, two files for one key, certificate and
// key in one file. Pure.
import type { Artefact } from './model.ts';

interface NamedPair {
  readonly file: string;
  readonly keyFile?: string;
}

/**
 * Returns a target with the sharing of its files. A new key would leave another certificate with the former one, or the
 * former key with the new certificate: then a renewal keeps the key.
 */
export function withSharedFiles(artefact: Artefact, named: readonly NamedPair[]): Artefact {
  if (artefact.kind !== 'target' || artefact.location.kind !== 'pemPair') return artefact;
  const { certFile, keyFile } = artefact.location;
  if (certFile === keyFile) return { ...artefact, location: { kind: 'combinedPem', file: certFile } };
  const isShared = named.some(
    (one) => one.keyFile !== undefined && (one.file === certFile) !== (one.keyFile === keyFile),
  );
  const shared = { ...artefact, sharesKey: true } as const;
  return isShared ? shared : artefact;
}
