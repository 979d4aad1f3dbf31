// The address by which this machine's API server and etcd are reached, from files next to the manifests: servers of
// kubeconfigs and names of certificates. Pure. Kubeconfigs and certificates also name load balancers and the service
// network, so an address counts only where this machine has it, or where a kubeconfig and a certificate of etcd, which
// names no load balancer, agree.
import { isIP } from 'node:net';
import { bareHost, isLoopbackHost } from '../../address.ts';
import { wholeCertificates } from '../../pki/certificate.ts';
import { kubeconfigOf } from './documents.ts';

export interface AddressWitnesses {
  /** Texts of kubeconfigs, the components' own first. */
  readonly kubeconfigs: readonly (string | undefined)[];
  /** Texts of certificates that name this machine alone. */
  readonly etcdCertificates: readonly (string | undefined)[];
  readonly apiServerCertificate: string | undefined;
  /** Addresses that this machine has now. */
  readonly own: readonly string[];
}

/** Returns the addresses that witnesses agree on, the best witnessed first. */
export function witnessedAddresses(witnesses: AddressWitnesses): readonly string[] {
  const { kubeconfigs, etcdCertificates, apiServerCertificate, own } = witnesses;
  const servers = serversIn(kubeconfigs).map((url) => bareHost(url));
  const ofEtcd = etcdCertificates.flatMap((text) => addressesIn(text));
  const all = [...servers, ...ofEtcd, ...addressesIn(apiServerCertificate)];
  const confirmed = [...all.filter((host) => own.includes(host)), ...servers.filter((host) => ofEtcd.includes(host))];
  return [...new Set(confirmed.filter((host) => isIP(host) !== 0 && !isLoopbackHost(host)))];
}

/** Whether a machine has an address that a flag of it names, or another of its files names it as its own. */
export function isConfirmedBy(witnesses: AddressWitnesses, address: string): boolean {
  if (isLoopbackHost(address) || witnesses.own.includes(address)) return true;
  return witnessedAddresses({ ...witnesses, own: [address] }).includes(address);
}

/** Returns the port of the first kubeconfig that names a server at this address. */
export function witnessedPort(kubeconfigs: AddressWitnesses['kubeconfigs'], address: string): string | undefined {
  const port = serversIn(kubeconfigs).find((url) => bareHost(url) === address)?.port;
  return port === '' ? undefined : port;
}

const serversIn = (kubeconfigs: AddressWitnesses['kubeconfigs']): readonly URL[] =>
  kubeconfigs.flatMap((yaml) => {
    const url = URL.parse(kubeconfigOf(yaml ?? '')?.server ?? '');
    return url?.protocol === 'https:' ? [url] : [];
  });

/** Returns addresses in the first certificate of a text; none where it cannot be read. */
const addressesIn = (pem: string | undefined): readonly string[] =>
  wholeCertificates(pem)[0]?.facts.hostnames.filter((name) => isIP(name) !== 0) ?? [];
