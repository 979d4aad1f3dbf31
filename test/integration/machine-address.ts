// An address by which other machines know this one.
import { networkInterfaces } from 'node:os';

/** IPv4, of the first interface that has one. */
export function machineAddress(): string {
  const found = Object.values(networkInterfaces()).flat();
  const address = found.find((one) => one?.internal === false && one.family === 'IPv4')?.address;
  if (address === undefined) throw new Error('this machine has no IPv4 address but loopback');
  return address;
}
