// Files of a machine of etcd -> parameters of its inventory. Every source may be missing or garbage: then the next one
// counts. The administrator's values beat all of them. The parameters serve only where a certificate is lost and it has
// no backup. Sources of each value, best first:
//
//   memberName       ETCD_NAME of the environment file, the present certificates, the host name
//   memberHostnames  hosts of the URLs in the environment file, the present certificates
import { dirname, join } from 'node:path';
import { hostOfUrl } from '../../address.ts';
import { wholeCertificates } from '../../pki/certificate.ts';
import type { Inventory, Parameters } from '../model.ts';
import { checkedHostname } from '../values.ts';
import { RecoveryError } from '../../errors.ts';
import { allDirectories } from '../places.ts';
import type { Environment } from '../resolve.ts';
import { type Discovered, isOnMachine, readerBelow } from './machine-files.ts';

/** The texts of files; undefined where there is none. */
interface EtcdFiles {
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
  const held = certificates.flatMap((pem) => wholeCertificates(pem).slice(0, 1));
  const names = [variable('ETCD_NAME'), ...held.map(({ facts }) => facts.commonName), hostname?.trim().toLowerCase()];
  const urls = urlVariables.flatMap((name) => (variable(name) ?? '').split(','));
  const hosts = [...urls.flatMap((url) => hostOfUrl(url) ?? []), ...held.flatMap(({ facts }) => facts.hostnames)];
  const known = hosts
    .flatMap((host) => checkedHostname(host) ?? [])
    .filter((host) => host !== '0.0.0.0' && host !== '::');
  return {
    memberName: names.flatMap((name) => (name === undefined ? [] : (checkedHostname(name) ?? []))).slice(0, 1),
    memberHostnames: [...new Set(known)].toSorted(),
    ...given,
  };
}

/** Discovers an etcd. Throws PreconditionFailed on a machine that has no etcd of etcdadm. */
export async function discoverEtcd(inventory: Inventory, given: Environment, root = '/'): Promise<Discovered> {
  const { etcdPkiDir = '/etc/etcd/pki' } = allDirectories(inventory, given.directories ?? {});
  const pki = (name: string): string => join(etcdPkiDir, name);
  const signs = ['ca.crt', 'server.crt', 'peer.crt'].map(pki);
  const there = await Promise.all(signs.map((path) => isOnMachine(join(root, path))));
  if (!there.includes(true)) {
    const message =
      `Cannot find an etcd of etcdadm on this machine: there is no "${pki('ca.crt')}" and no certificate of a member ` +
      'beside it, so nothing is here to be recovered; run this on a machine of etcd, or say where the files are ' +
      '(directories.etcdPkiDir)';
    throw new RecoveryError('PreconditionFailed', message);
  }
  const { text, unread } = readerBelow(root);
  const parameters = decideEtcd(
    {
      // Next to pki/, at etcdadm's path (constants: EtcdEnvironmentFile). A static pod has none.
      environment: await text(join(dirname(etcdPkiDir), 'etcd.env')),
      certificates: [await text(pki('server.crt')), await text(pki('peer.crt'))],
      hostname: (await text('/proc/sys/kernel/hostname')) ?? (await text('/etc/hostname')),
    },
    given.parameters ?? {},
  );
  return { environment: { ...given, parameters }, notes: unread };
}
