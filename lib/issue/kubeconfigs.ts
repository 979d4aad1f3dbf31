// The content of kubeconfigs: several of one user in one Secret, for several ways to the API server; and the CA by
// which a single kubeconfig knows its server. Pure.
import { onlyEntries } from '../kubeconfig/document.ts';
import { RecoveryError } from '../errors.ts';
import type { Endpoints, Kubeconfigs } from '../inventory/model.ts';
import { encodeBundle } from '../pki/bundle.ts';
import { type Certificate, hasEnded, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged } from '../pki/damage.ts';
import { authorityKey, type Entries, locationText } from '../store/store.ts';
import { toYaml } from '../yaml.ts';
import type { Held, Issued } from './ingredients.ts';
import { annotationsOf, notAfterAnnotation, notBeforeAnnotation } from './metadata.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../inventory/content.ts';

interface EmbeddedKubeconfig {
  /** Names of its entries. */
  readonly cluster: string;
  readonly user: string;
  readonly server: string;
  readonly tlsServerName: string | undefined;
  /** PEM. */
  readonly ca: Uint8Array;
  readonly certificate: Uint8Array;
  readonly key: Uint8Array;
}

/** A kubeconfig of one user that names no file, as data. */
function embeddedKubeconfig(wanted: EmbeddedKubeconfig): object {
  const { cluster, user, server, tlsServerName, ca, certificate, key } = wanted;
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        cluster: {
          'certificate-authority-data': base64(ca),
          server,
          ...(tlsServerName !== undefined && { 'tls-server-name': tlsServerName }),
        },
        name: cluster,
      },
    ],
    contexts: [{ context: { cluster, user }, name: user }],
    'current-context': user,
    users: [{ name: user, user: { 'client-certificate-data': base64(certificate), 'client-key-data': base64(key) } }],
  };
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

interface KubeconfigsIssue {
  readonly artefact: Kubeconfigs;
  /** Entries of the target and of the bundle. */
  readonly client: Entries;
  readonly authority: Entries;
  readonly endpoints: Endpoints | undefined;
  /** Present entries: where an address is unknown now, the present one stays. */
  readonly former: Entries | undefined;
}

/** Throws SignFailed, MaterialInvalid. */
export function issueKubeconfigs({ artefact, client, authority, endpoints, former }: KubeconfigsIssue): Issued {
  const what = locationText(artefact.location);
  const { [certificateKey]: certificate, [privateKeyKey]: key } = client;
  const ca = authority[caBundleKey];
  if (certificate === undefined || key === undefined || ca === undefined) {
    throw new RecoveryError(
      'SignFailed',
      `Cannot make ${what}: "${artefact.client}" or "${artefact.authority}" is not whole`,
    );
  }
  const certificates = parseCertificates(certificate, `client of ${what}`);
  const { user } = artefact;
  const entries = artefact.servers.map(({ key: entry, cluster, server, tlsServerName }) => {
    const url = typeof server === 'string' ? server : (endpoints?.[server.endpoint] ?? serverIn(former?.[entry]));
    if (url === undefined) {
      throw new RecoveryError('SignFailed', `Cannot make ${what}: the server of "${entry}" is not known`);
    }
    const config = embeddedKubeconfig({ cluster, user, server: url, tlsServerName, ca, certificate, key });
    // Byte-equal to the operator's (bindata/assets/kube-apiserver/node-kubeconfigs.yaml): it overwrites any difference.
    return [entry, Buffer.from(toYaml(config, { indentSeq: false }))] as const;
  });
  const { [notBeforeAnnotation]: notBefore = '', [notAfterAnnotation]: notAfter = '' } = annotationsOf(
    artefact.location,
    certificates[0],
  );
  return {
    entries: Object.fromEntries(entries),
    annotations: { [notBeforeAnnotation]: notBefore, [notAfterAnnotation]: notAfter },
    certificates,
  };
}

function serverIn(bytes: Uint8Array | undefined): string | undefined {
  const server = bytes && onlyEntries(bytes).cluster?.['server'];
  return typeof server === 'string' ? server : undefined;
}

/** Returns the CA by which a kubeconfig knows its server, in a renewal of its credentials; undefined: it names none. */
export function authorityEntry(
  places: readonly (Held | undefined)[],
  live: Certificate,
  now: Date,
): Uint8Array | undefined {
  // The store's template: the present document, else the backup.
  const followed = places.find((one) => one && (one.problem === undefined || Object.keys(one.entries).length > 0));
  const present = followed?.entries[authorityKey];
  if (present === undefined) {
    return followed === undefined || followed.problem !== undefined ? Buffer.from(live.pem) : undefined;
  }
  const known = wholeCertificates(present);
  if (known.some(({ facts }) => facts.fingerprint === live.facts.fingerprint)) return present;
  return Buffer.from(encodeBundle([live, ...known.filter((ca) => !hasEnded(ca.facts, now) && !isDamaged(ca, known))]));
}
