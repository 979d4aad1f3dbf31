// The names and addresses by which clients know a server of this machine, and the certificate that kube-apiserver shows
// for a name. Pure.
import { isIP } from 'node:net';
import { hostOfUrl, isLoopbackHost } from '../address.ts';
import { hostPathOf } from '../inventory/discover/component-settings.ts';
import { firstServiceIp } from '../inventory/discover/service-range.ts';
import { dnsNameCovers } from '../pki/names.ts';
import type { NameRule } from './relations.ts';
import { certificatesAt, type Side, type TrustFacts, valuesOf } from './trust-facts.ts';

const kas = 'kube-apiserver';

const hostsOf = (urls: readonly string[]): readonly string[] =>
  urls.flatMap((list) => list.split(',')).flatMap((url) => hostOfUrl(url) ?? []);

const rules: Readonly<Record<NameRule, (facts: TrustFacts) => readonly string[]>> = {
  // Pods take the address of the service from their environment, and its name from DNS.
  inCluster: (facts) => [
    ...valuesOf(facts, { component: kas, flag: 'service-cluster-ip-range' })
      .slice(-1)
      .flatMap((ranges) => firstServiceIp(ranges) ?? []),
    'kubernetes.default.svc',
  ],
  // Which address of a Node the API server takes is in the API; a kubelet may be told.
  node: (facts) =>
    valuesOf(facts, { component: 'kubelet', flag: 'node-ip' })
      .slice(-1)
      .flatMap((addresses) => addresses.split(','))
      .filter((address) => isIP(address) !== 0 && address !== '0.0.0.0' && address !== '::'),
  // Others of these URLs lead to other members.
  etcdServers: (facts) => {
    const own = ['advertise-client-urls', 'listen-client-urls'].flatMap((flag) =>
      hostsOf(valuesOf(facts, { component: 'etcd', flag })),
    );
    return hostsOf(valuesOf(facts, { component: kas, flag: 'etcd-servers' })).filter(
      (host) => isLoopbackHost(host) || own.includes(host),
    );
  },
  etcdPeers: (facts) => hostsOf(valuesOf(facts, { component: 'etcd', flag: 'initial-advertise-peer-urls' }).slice(-1)),
};

/** Returns the names that the certificate must have; none where they are not known on this machine. */
export const namesMet = (rule: NameRule | undefined, facts: TrustFacts): readonly string[] =>
  rule === undefined ? [] : [...new Set(rules[rule](facts))];

/**
 * Returns the certificate that kube-apiserver shows for a name (--tls-sni-cert-key), also for an address (k8s.io/apiserver:
 * pkg/server/dynamiccertificates, getConfigForClient); undefined: that of --tls-cert-file.
 */
export function sniFor(name: string, facts: TrustFacts): (Side & { readonly file: string }) | undefined {
  const flag = { component: kas, flag: 'tls-sni-cert-key' } as const;
  const here = facts.settings[kas];
  if (here === undefined) return undefined;
  for (const value of here.values.get(flag.flag) ?? []) {
    const [pair = '', given] = value.split(':', 2);
    const path = hostPathOf(pair.split(',')[0], here);
    if (path === undefined) continue;
    const file = facts.moved(path);
    const names = given === undefined ? namesIn(facts, file) : given.split(',');
    const isFor = names.some((one) => one === name || (isIP(name) === 0 && dnsNameCovers(one, name)));
    if (isFor) return { name: `${kas} --${flag.flag}`, file };
  }
  return undefined;
}

function namesIn(facts: TrustFacts, file: string): readonly string[] {
  const [leaf] = certificatesAt(facts, file).value ?? [];
  return leaf === undefined ? [] : [leaf.facts.commonName, ...leaf.facts.hostnames];
}

/** Whether a host of a kubeconfig's URL is this machine. */
export function isOfMachine(host: string, facts: TrustFacts): boolean {
  const advertised = valuesOf(facts, { component: kas, flag: 'advertise-address' });
  return isLoopbackHost(host) || facts.own.includes(host) || advertised.at(-1) === host;
}
