// How an artefact and what is done to it are named in log lines and Events. Pure.
import type { ResolvedArtefact } from '../inventory/model.ts';
import type { EventReason } from '../kube/events.ts';
import type { LogEvent, LogFields } from '../log.ts';

export const writtenEvents: Readonly<Record<ResolvedArtefact['kind'], LogEvent>> = {
  signer: 'signer.regenerated',
  caBundle: 'caBundle.updated',
  composedBundle: 'caBundle.updated',
  copy: 'copy.updated',
  target: 'target.regenerated',
  kubeconfigs: 'copy.updated',
  keyPair: 'target.regenerated',
  external: 'target.regenerated',
  opaque: 'target.regenerated',
};

/** As library-go names them; it has none for a copy. */
export function eventReason({ kind }: ResolvedArtefact): { readonly reason?: EventReason } {
  if (kind === 'signer') return { reason: 'SignerUpdateRequired' };
  if (kind === 'target') return { reason: 'TargetUpdateRequired' };
  return kind === 'caBundle' || kind === 'composedBundle' ? { reason: 'CABundleUpdateRequired' } : {};
}

export function fieldsOf({ name, location }: ResolvedArtefact): LogFields {
  const artefact = { artefact: name };
  switch (location.kind) {
    case 'secret':
      return { ...artefact, namespace: location.namespace, secret: location.name };
    case 'configMap':
      return { ...artefact, namespace: location.namespace, configMap: location.name };
    case 'pemPair':
      return { ...artefact, path: location.certFile };
    case 'pemFile':
    case 'combinedPem':
    case 'kubeconfig':
      break;
  }
  return { ...artefact, path: location.file };
}
