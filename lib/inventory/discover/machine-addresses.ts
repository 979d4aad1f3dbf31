// Addresses of this machine, by interface, and the addresses by which other machines may reach it.
import { networkInterfaces } from 'node:os';

export type Addresses = Readonly<Record<string, readonly string[]>>;

/** Returns addresses without the loopback interface. */
export function addressesHere(): Addresses {
  const all = Object.entries(networkInterfaces()).map(([name, list = []]): [string, string[]] => [
    name,
    list.filter(({ internal }) => !internal).map(({ address }) => address),
  ]);
  return Object.fromEntries(all);
}

/** Interfaces of container runtimes, network plugins, kube-proxy, hypervisors and overlays, by their name prefixes. */
const virtual =
  /^(docker|br-[\da-f]{12}$|cni|podman|veth|kube-|cali|vxlan|tunl|flannel|cilium|lxc|weave|antrea|ovn|nodelocaldns|virbr|tailscale)/;

/** Returns the addresses of all other interfaces, except link-local ones. Pure. */
export const candidateAddresses = (addresses: Addresses): readonly string[] =>
  Object.entries(addresses).flatMap(([name, list]) =>
    virtual.test(name) ? [] : list.filter((one) => !isLinkLocal(one)),
  );

const isLinkLocal = (address: string): boolean => /^(fe[89ab][\da-f]:|169\.254\.)/i.test(address);

/** Returns kubeadm's choice: the address of the interface that has the default route (/proc/net/route). Pure. */
export function defaultAddress(routes: string, addresses: Addresses): string | undefined {
  const rows = routes.split('\n').map((line) => line.trim().split(/\s+/));
  const name = rows.find(([, destination]) => destination === '00000000')?.[0];
  return name === undefined ? undefined : addresses[name]?.find((address) => !isLinkLocal(address));
}
