// The annotations that users of OpenShift read on TLS objects (`oc get secret -o jsonpath`), written in step with the
// certificate. They inform people and other tools; nothing here ever decides by them.
import type { Location } from '../inventory/model.ts';
import type { Certificate } from '../pki/certificate.ts';
import { isFile } from '../inventory/places.ts';

export const notBeforeAnnotation = 'auth.openshift.io/certificate-not-before';
export const notAfterAnnotation = 'auth.openshift.io/certificate-not-after';
export const issuerAnnotation = 'auth.openshift.io/certificate-issuer';
export const hostnamesAnnotation = 'auth.openshift.io/certificate-hostnames';

/** What is said about the first certificate of a pair. Files have no annotations. */
export function annotationsOf(
  location: Location,
  certificate: Certificate | undefined,
): Readonly<Record<string, string>> {
  if (certificate === undefined || isFile(location)) return {};
  const { facts, fields } = certificate;
  return {
    [notBeforeAnnotation]: rfc3339(facts.notBefore),
    [notAfterAnnotation]: rfc3339(facts.notAfter),
    [issuerAnnotation]: fields.issuer.commonName,
    ...(facts.hostnames.length > 0 && { [hostnamesAnnotation]: facts.hostnames.join(',') }),
  };
}

/** Go's time.RFC3339: no parts of a second. */
function rfc3339(date: Date): string {
  return date.toISOString().replace(/\.\d{3}Z$/, 'Z');
}
