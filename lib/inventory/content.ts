// The content of an artefact, and the keys of its entries. Pure.
import { contentIn, fileKinds } from './location-kinds.ts';
import type { Artefact, Kubeconfigs, ResolvedArtefact } from './model.ts';
import { originalOf } from './order.ts';

/** Keys of the entries, the same in every kind of location. */
export const certificateKey = fileKinds.pemPair.files.certFile;
export const privateKeyKey = fileKinds.pemPair.files.keyFile;
export const caBundleKey = fileKinds.pemFile.files.file;
export const registryAuthsKey = fileKinds.registryAuths.files.file;
/** Keys by which content is compared and copied. */
export const standardKeys = [caBundleKey, certificateKey, privateKeyKey, registryAuthsKey];

/** Required form of the content, where it is known here. */
export type ArtefactContent =
  /** A certificate and its key. */
  | { readonly kind: 'pair' }
  | { readonly kind: 'bundle' }
  /** A key pair without certificate. */
  | { readonly kind: 'keyPair'; readonly privateKey: string; readonly publicKey: string }
  /** Kubeconfigs, each an entry; all must be whole. */
  | { readonly kind: 'kubeconfigs'; readonly of: Kubeconfigs }
  /** Unknown, for its readers to judge: written unchanged, unless it holds a pair of contradicting halves. */
  | { readonly kind: 'opaque' };

/** Returns the content of an artefact; a copy, also of another copy, has its original's. */
export function artefactContent<T extends Artefact | ResolvedArtefact>(
  artefact: T,
  artefacts: readonly T[],
): ArtefactContent {
  const original: Artefact | ResolvedArtefact | undefined = originalOf(artefacts, artefact);
  switch (original?.kind) {
    case 'signer':
    case 'target':
      return { kind: 'pair' };
    case 'caBundle':
    case 'composedBundle':
      return { kind: 'bundle' };
    case 'external': {
      const kind = contentIn(original.location);
      return { kind: kind === 'bundle' || kind === 'pair' ? kind : 'opaque' };
    }
    case 'keyPair':
      return { kind: 'keyPair', privateKey: original.privateKey, publicKey: original.publicKey };
    case 'kubeconfigs':
      return { kind: 'kubeconfigs', of: original };
    case 'copy':
    case 'opaque':
    case undefined:
      return { kind: 'opaque' };
  }
}

/** Returns the required entries. */
export function keysOf(content: ArtefactContent): readonly string[] {
  switch (content.kind) {
    case 'pair':
      return [certificateKey, privateKeyKey];
    case 'bundle':
      return [caBundleKey];
    case 'keyPair':
      return [content.privateKey, content.publicKey];
    case 'kubeconfigs':
      return content.of.servers.map(({ key }) => key);
    case 'opaque':
      return [];
  }
}
