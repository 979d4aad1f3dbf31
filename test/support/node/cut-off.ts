// What a machine that comes back may have to do without: registries, names, the configuration of its network, holders of
// leases. Taken away before its container runtime starts, and looked at afterwards.
import type { Cluster } from './cluster.ts';
import type { Node } from './node.ts';

/** For documentation only (RFC 5737): no host has it. */
const nameServer = '192.0.2.53';
const rules = ['-o lo -d 127.0.0.11 -j DROP', '-p udp --dport 53 -j DROP', '-p tcp --dport 53 -j DROP'];

/** What leaves for another network than that of the machines is lost without an answer: so pulls and lookups hang. */
const uplink = ({ address }: Node): string => `-o eth0 ! -d ${address.slice(0, address.lastIndexOf('.'))}.0/24 -j DROP`;

/** At its next boot the machine has no uplink and no names. It has both again at the one after that. */
export async function cutOffAtBoot(node: Node): Promise<void> {
  const all = [...rules, uplink(node)].map((rule) => `iptables -A OUTPUT ${rule}`);
  const names = `printf 'nameserver ${nameServer}\\noptions timeout:1 attempts:1\\n' > /etc/resolv.conf`;
  const done = 'echo "cut-off $(date +%s%3N)" >> /run/machine/times';
  await node.atBoot(['set -e', names, ...all, done].join('\n'));
}

/** When that was done, in milliseconds since the epoch; rejects when it is not so any more. */
export async function cutOffSince(node: Node): Promise<number> {
  const checks = [...rules, uplink(node)].map((rule) => `iptables -C OUTPUT ${rule}`);
  const names = `[ "$(grep ^nameserver /etc/resolv.conf)" = 'nameserver ${nameServer}' ]`;
  const done = 'grep ^cut-off /run/machine/times';
  return Number((await node.sh(['set -e', ...checks, names, done].join('\n'))).split(' ')[1]);
}

/** Whether a name that only the network knows (Docker gives each container that of its identifier) is resolved. */
export async function resolvesNames(node: Node): Promise<boolean> {
  const id = "sed -n 's|.*/containers/\\([0-9a-f]\\{12\\}\\).*|\\1|p' /proc/self/mountinfo | head -n 1";
  const { code } = await node.run(`id=$(${id}) && [ -n "$id" ] || exit 7; timeout 5 getent hosts "$id"`);
  if (code === 7) throw new Error(`${node.name} does not know its identifier`);
  return code === 0;
}

/** Images that the container runtime was asked to pull since the boot, one line each. */
export async function pulls(node: Node): Promise<readonly string[]> {
  const text = await node.sh(String.raw`grep -o 'PullImage .*' /var/log/containerd.log || true`);
  return text.split('\n').filter((line) => line !== '');
}

/** When the configuration of the network was brought, in milliseconds since the epoch. */
export async function networkSince(node: Node): Promise<number> {
  return Number(await node.sh('date -r /etc/cni/net.d/10-bridge.conflist +%s%3N'));
}

export const leaderLeases = ['kube-controller-manager', 'kube-scheduler'] as const;

export interface LeaderLease {
  readonly holderIdentity: string;
  readonly acquireTime: string;
  readonly renewTime: string;
  readonly leaseTransitions: number;
}

/** By name of the component. */
export async function leaders(cluster: Cluster, node = cluster.node): Promise<ReadonlyMap<string, LeaderLease>> {
  const read = async (name: string): Promise<[string, LeaderLease]> => {
    const path = `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/${name}`;
    const { body } = await cluster.api(path, { node });
    return [name, (body as { spec: LeaderLease }).spec];
  };
  return new Map(await Promise.all(leaderLeases.map(read)));
}
