// Metadata of TLS objects in the API next to their bytes. People and reports read it; nothing here decides by it. Pure.
import { secondsText } from '../clock.ts';
import type { DurationMs, Location, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import { isFile } from '../inventory/places.ts';
import type { Certificate } from '../pki/certificate.ts';
import type { Material, Metadata } from '../store/store.ts';

export const notBeforeAnnotation = 'auth.openshift.io/certificate-not-before';
export const notAfterAnnotation = 'auth.openshift.io/certificate-not-after';
const issuerAnnotation = 'auth.openshift.io/certificate-issuer';
const hostnamesAnnotation = 'auth.openshift.io/certificate-hostnames';

/**
 * Returns the annotations that users of OpenShift read (`oc get secret -o jsonpath`), written in step with the first
 * certificate of a pair. Files have no annotations.
 */
export function annotationsOf(
  location: Location,
  certificate: Certificate | undefined,
): Readonly<Record<string, string>> {
  if (certificate === undefined || isFile(location)) return {};
  const { facts, fields } = certificate;
  return {
    [notBeforeAnnotation]: secondsText(facts.notBefore),
    [notAfterAnnotation]: secondsText(facts.notAfter),
    [issuerAnnotation]: fields.issuer.commonName,
    ...(facts.hostnames.length > 0 && { [hostnamesAnnotation]: facts.hostnames.join(',') }),
  };
}

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

/**
 * Returns the entry of an object in OpenShift's TLS registry (openshift/origin tls/, openshift/library-go
 * pkg/operator/certrotation/{annotations,label}.go): its owner, its purpose and its type. Undefined where there is
 * none. A copy has the entry of its original; `originalOfOthers`: an external original, whose entry is kept.
 */
export function registryMetadata(
  artefact: ResolvedArtefact,
  { artefacts, tlsRegistry }: Pick<Resolved, 'artefacts' | 'tlsRegistry'>,
  originalOfOthers: Material | undefined,
): Metadata | undefined {
  if (isFile(artefact.location)) return undefined;
  const original = originalOf(artefacts, artefact) ?? artefact;
  if (original.kind === 'external') return known(originalOfOthers);
  if (tlsRegistry === undefined) return undefined;
  const type = typeOf(original);
  const { owningComponent, autoRegenerateAfterOfflineExpiry: shown } = tlsRegistry;
  return {
    labels: type === undefined ? {} : { [typeLabel]: type },
    annotations: {
      [componentAnnotation]: owningComponent,
      ...(original.description !== undefined && { [descriptionAnnotation]: original.description }),
      ...('refresh' in original && { [refreshAnnotation]: goDuration(original.refresh) }),
      ...(type !== undefined && shown !== undefined && { [offlineAnnotation]: shown }),
    },
  };
}

/** library-go's words. An intermediate CA is a target of the signer above it. Composed bundles have no type there. */
function typeOf(artefact: ResolvedArtefact): 'signer' | 'ca-bundle' | 'target' | undefined {
  if (artefact.kind === 'signer') return artefact.issuer === undefined ? 'signer' : 'target';
  if (artefact.kind === 'caBundle') return 'ca-bundle';
  return artefact.kind === 'target' ? 'target' : undefined;
}

function known(original: Material | undefined): Metadata | undefined {
  if (original === undefined) return undefined;
  // Material that has just been made has its annotations in `metadata`.
  const all = { ...original.metadata?.annotations, ...original.annotations };
  const type = { ...original.metadata?.labels, ...original.labels }[typeLabel];
  return {
    labels: type === undefined ? {} : { [typeLabel]: type },
    annotations: Object.fromEntries(
      annotations.flatMap((key) => (all[key] === undefined ? [] : [[key, all[key]] as const])),
    ),
  };
}

/** Formats like Go's time.Duration: `360h0m0s`. */
function goDuration(ms: DurationMs): string {
  const seconds = Math.floor(ms / 1000);
  return `${Math.floor(seconds / 3600)}h${Math.floor((seconds % 3600) / 60)}m${seconds % 60}s`;
}
