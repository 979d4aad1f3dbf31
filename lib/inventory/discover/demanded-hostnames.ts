// Addresses that the certificates of this machine must hold, whatever names people gave them: flags advertise them, and
// the components of this machine connect to them. Pure. An address counts that this machine has, or that another file
// names as its own: a manifest may come from another machine, and nothing is made for an address that it alone names.
import { isIP } from 'node:net';
import { bareHost, isLoopbackHost } from '../../address.ts';
import { checkedHostname } from '../values.ts';
import type { Artefact } from '../model.ts';
import type { ComponentServer } from './component-servers.ts';
import type { SettingsHere } from './named-files.ts';

interface Demanding {
  readonly settings: SettingsHere;
  readonly servers: readonly ComponentServer[];
  /** Whether this machine has an address that a flag of it names, or another file shows it as its own. */
  readonly isConfirmed: (address: string) => boolean;
  readonly own: readonly string[];
}

/** Returns demanded names by the name of the entry; without entries that have no demand. */
export function demandedHostnames(
  artefacts: readonly Artefact[],
  here: Demanding,
): Readonly<Record<string, readonly string[]>> {
  const found = artefacts.flatMap((artefact) => {
    if (artefact.kind !== 'target') return [];
    const names = (artefact.demandedBy ?? []).flatMap((demand) =>
      'flag' in demand ? byFlag(demand, here) : byKubeconfigs(demand.endpoint, here),
    );
    return names.length === 0 ? [] : [[artefact.name, [...new Set(names)].toSorted()] as const];
  });
  return Object.fromEntries(found);
}

function byFlag(
  { component, flag }: { readonly component: string; readonly flag: string },
  { settings, isConfirmed }: Demanding,
): readonly string[] {
  // The last value counts (pflag). Flags of etcd have lists of URLs.
  const texts = (settings[component]?.values.get(flag)?.at(-1) ?? '').split(',');
  return texts.flatMap((text) => addressIn(text.trim()) ?? []).filter(isConfirmed);
}

/**
 * Returns addresses in kubeconfigs of components. A load balancer elsewhere has the names that people gave the
 * certificate. So has one on the loopback interface, except for the port of the API server itself.
 */
function byKubeconfigs(endpoint: ComponentServer['endpoint'], { servers, settings, own }: Demanding): string[] {
  const port = settings['kube-apiserver']?.values.get('secure-port')?.at(-1) ?? '6443';
  return servers.flatMap((server) => {
    if (server.endpoint !== endpoint || !server.checksHost) return [];
    const address = addressIn(server.url);
    if (address === undefined) return [];
    const isHere = isLoopbackHost(address) ? (URL.parse(server.url)?.port || '443') === port : own.includes(address);
    return isHere ? [address] : [];
  });
}

function addressIn(text: string): string | undefined {
  const url = /^https?:\/\//.test(text) ? URL.parse(text) : null;
  const address = checkedHostname(url === null ? text : bareHost(url));
  const isUsable = address !== undefined && isIP(address) !== 0 && address !== '0.0.0.0' && address !== '::';
  return isUsable ? address : undefined;
}
