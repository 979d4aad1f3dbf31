// Whether this machine still has the address at which its API server and its etcd are reached.
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { bareHost, isLoopbackHost } from '../address.ts';

/** All present addresses, including those of the loopback interface. */
export const addressesNow = (): readonly string[] =>
  Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ address }) => address));

/**
 * A sentence where the machine has addresses, but lacks the address of its own endpoint. Without any address its
 * network is not up, which proves nothing. Pure.
 */
export function addressGone(endpoint: string | undefined, own: readonly string[]): string | undefined {
  const url = URL.parse(endpoint ?? '');
  const address = url === null ? '' : bareHost(url);
  if (isIP(address) === 0 || isLoopbackHost(address) || own.includes(address)) return undefined;
  const others = own.filter((one) => !isLoopbackHost(one) && !/^fe[89ab][\da-f]:/i.test(one));
  if (others.length === 0) return undefined;
  return (
    `${address} is no address of this machine, and its API server and etcd are reached at no other; give it that address ` +
    `back, or put another one (${others.join(', ')}) into --advertise-address, the URLs of etcd and the kubeconfigs: its ` +
    'certificates get it by the next run'
  );
}
