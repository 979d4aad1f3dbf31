// Files of a machine of etcd -> parameters of its inventory. Pure. Every source may be missing or garbage: then the
// next one counts. The administrator's values beat all of them. The parameters serve only where a certificate is lost
// and it has no backup. Sources of each value, best first:
//
//   memberName       ETCD_NAME of the environment file, the present certificates, the host name
//   memberHostnames  hosts of the URLs in the environment file, the present certificates
import { bareHost } from '../../address.ts';
import { wholeCertificates } from '../../pki/certificate.ts';
import type { Parameters } from '../model.ts';
import { checkedHostname } from '../values.ts';

/** The texts of files; undefined where there is none. */
export interface EtcdFiles {
  /** Environment file of the unit: ETCD_NAME=..., one a line. */
  readonly environment?: string | undefined;
  /** Server and peer certificate of the member. */
  readonly certificates: readonly (string | undefined)[];
  readonly hostname?: string | undefined;
}

/** Hosts that etcdadm puts into server.crt and peer.crt (certs/pkiutil: GetEtcdServerAltNames and its like). */
const urlVariables = [
  'ETCD_LISTEN_CLIENT_URLS',
  'ETCD_ADVERTISE_CLIENT_URLS',
  'ETCD_LISTEN_PEER_URLS',
  'ETCD_INITIAL_ADVERTISE_PEER_URLS',
];

export function decideEtcd({ environment = '', certificates, hostname }: EtcdFiles, given: Parameters): Parameters {
  const variable = (name: string): string | undefined =>
    new RegExp(`^\\s*(?:export\\s+)?${name}=["']?([^"'\\n]*?)["']?\\s*$`, 'm').exec(environment)?.[1];
  const held = certificates.flatMap((pem) => wholeCertificates(Buffer.from(pem ?? '')).slice(0, 1));
  const names = [variable('ETCD_NAME'), ...held.map(({ facts }) => facts.commonName), hostname?.trim().toLowerCase()];
  const urls = urlVariables.flatMap((name) => (variable(name) ?? '').split(','));
  const hosts = [...urls.flatMap((url) => hostOf(url) ?? []), ...held.flatMap(({ facts }) => facts.hostnames)];
  const known = hosts
    .flatMap((host) => checkedHostname(host) ?? [])
    .filter((host) => host !== '0.0.0.0' && host !== '::');
  return {
    memberName: names.flatMap((name) => (name === undefined ? [] : (checkedHostname(name) ?? []))).slice(0, 1),
    memberHostnames: [...new Set(known)].toSorted(),
    ...given,
  };
}

function hostOf(url: string): string | undefined {
  const parsed = URL.parse(url.trim());
  return parsed === null || parsed.hostname === '' ? undefined : bareHost(parsed);
}
