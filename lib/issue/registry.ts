// By what objects are known in OpenShift's TLS registry (openshift/origin tls/, openshift/library-go
// pkg/operator/certrotation/{annotations,label}.go): who owns them, what they are for, what kind of thing they are. People
// and reports read it; nothing here decides by it. Pure.
import type { DurationMs, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import { isFile } from '../inventory/places.ts';
import type { Metadata, Material } from '../store/store.ts';

const typeLabel = 'auth.openshift.io/managed-certificate-type';
const componentAnnotation = 'openshift.io/owning-component';
const descriptionAnnotation = 'openshift.io/description';
const refreshAnnotation = 'certificates.openshift.io/refresh-period';
const offlineAnnotation = 'certificates.openshift.io/auto-regenerate-after-offline-expiry';
const testAnnotation = 'certificates.openshift.io/test-name';
const annotations = [
  componentAnnotation,
  descriptionAnnotation,
  refreshAnnotation,
  offlineAnnotation,
  testAnnotation,
] as const;

/** Undefined where nothing is to be said. A copy says what its original says; `originalOfOthers`: as others have it. */
export function registryMetadata(
  artefact: ResolvedArtefact,
  { artefacts, tlsRegistry }: Pick<Resolved, 'artefacts' | 'tlsRegistry'>,
  originalOfOthers: Material | undefined,
): Metadata | undefined {
  if (isFile(artefact.location)) return undefined;
  const row = originalOf(artefacts, artefact) ?? artefact;
  if (row.kind === 'external') return known(originalOfOthers);
  if (tlsRegistry === undefined) return undefined;
  const type = typeOf(row);
  const { owningComponent, autoRegenerateAfterOfflineExpiry: shown } = tlsRegistry;
  return {
    labels: type === undefined ? {} : { [typeLabel]: type },
    annotations: {
      [componentAnnotation]: owningComponent,
      ...(row.description !== undefined && { [descriptionAnnotation]: row.description }),
      ...('refresh' in row && { [refreshAnnotation]: goDuration(row.refresh) }),
      ...(type !== undefined && shown !== undefined && { [offlineAnnotation]: shown }),
    },
  };
}

/** library-go's words. An intermediate CA is a target of the signer above it. Composed bundles have no type there. */
function typeOf(row: ResolvedArtefact): 'signer' | 'ca-bundle' | 'target' | undefined {
  if (row.kind === 'signer') return row.issuer === undefined ? 'signer' : 'target';
  if (row.kind === 'caBundle') return 'ca-bundle';
  return row.kind === 'target' ? 'target' : undefined;
}

function known(original: Material | undefined): Metadata | undefined {
  if (original === undefined) return undefined;
  // What has just been made says it in `metadata`.
  const all = { ...original.metadata?.annotations, ...original.annotations };
  const type = { ...original.metadata?.labels, ...original.labels }[typeLabel];
  return {
    labels: type === undefined ? {} : { [typeLabel]: type },
    annotations: Object.fromEntries(
      annotations.flatMap((key) => (all[key] === undefined ? [] : [[key, all[key]] as const])),
    ),
  };
}

/** As Go's time.Duration is written: `360h0m0s`. */
function goDuration(ms: DurationMs): string {
  const seconds = Math.floor(ms / 1000);
  return `${Math.floor(seconds / 3600)}h${Math.floor((seconds % 3600) / 60)}m${seconds % 60}s`;
}
