// The first address of a network, which Kubernetes gives to the API server's own service. Pure.
import { isIP } from 'node:net';
import { ipText, ipv6Bytes } from '../../pki/names.ts';

/**
 * Returns the address of the API server's service in `--service-cluster-ip-range`, which may name two networks: it is
 * in the first (kubernetes/kubernetes: cmd/kubeadm/app/constants, GetAPIServerVirtualIP). Undefined when that is no
 * network.
 */
export function firstServiceIp(ranges: string): string | undefined {
  const [, address = '', digits = ''] = /^\s*([^/,\s]+)\/(\d{1,3})\s*(?:,|$)/.exec(ranges) ?? [];
  const bytes = bytesOf(address);
  const prefix = Number(digits);
  if (bytes === undefined || prefix >= bytes.length * 8) return undefined;
  for (const [index, byte] of bytes.entries()) {
    const kept = Math.min(Math.max(prefix - index * 8, 0), 8);
    bytes[index] = byte & ~(0xff >> kept);
  }
  const last = bytes.length - 1;
  bytes[last] = (bytes[last] ?? 0) + 1;
  return ipText(bytes);
}

function bytesOf(address: string): Buffer | undefined {
  switch (isIP(address)) {
    case 4:
      return Buffer.from(address.split('.').map(Number));
    case 6:
      return address.includes('%') ? undefined : ipv6Bytes(address);
    default:
      return undefined;
  }
}
