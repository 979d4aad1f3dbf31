// `approver.addresses`: sources of the DNS names and IP addresses that belong to each node. Each entry is one source.
import { BlockList, isIP } from 'node:net';
import * as z from 'zod';
import { checkShape } from '../inventory/shape.ts';
import { checkedHostname, directoryPath, namespaceName, objectName } from '../inventory/values.ts';
import type { Problem } from '../problems.ts';

const addressWanted = 'a DNS name without wildcard or an IP address';
const address = z
  .string({ error: addressWanted })
  .refine((text) => isAddress(text), { error: addressWanted })
  .transform((text) => checkedHostname(text) ?? text);

function isAddress(text: string): boolean {
  const checked = checkedHostname(text);
  return checked !== undefined && !checked.startsWith('*');
}

/** Canonical names and addresses by node. */
export type NodeAddresses = Readonly<Record<string, readonly string[]>>;

const nodeAddresses = z.record(objectName, z.array(address)).superRefine((nodes, context) => {
  const owners = new Map<string, string>();
  for (const [node, addresses] of Object.entries(nodes)) {
    for (const [at, one] of addresses.entries()) {
      const owner = owners.get(one) ?? node;
      owners.set(one, owner);
      if (owner === node) continue;
      const message = `an address of one node (it is one of "${owner}", too)`;
      context.addIssue({ code: 'custom', path: [node, at], message, input: one });
    }
  }
});

const cidrWanted = 'an address range such as "192.0.2.0/24" or "2001:db8::/64"';
const cidr = z.string({ error: cidrWanted }).refine((text) => rangeOf(text) !== undefined, { error: cidrWanted });

interface Range {
  readonly network: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

/** Parses a range; one of all addresses is refused. */
function rangeOf(text: string): Range | undefined {
  const [, network = '', digits = ''] = /^([0-9A-Fa-f:.]+)\/(\d{1,3})$/.exec(text) ?? [];
  const version = isIP(network);
  const prefix = Number(digits);
  if (version === 0 || prefix < 1 || prefix > (version === 4 ? 32 : 128)) return undefined;
  return { network, prefix, family: version === 4 ? 'ipv4' : 'ipv6' };
}

/** Returns a check whether a canonical IP address lies in any of these ranges. */
export function inRanges(cidrs: readonly string[]): (ip: string) => boolean {
  const list = new BlockList();
  for (const text of cidrs) {
    const range = rangeOf(text);
    if (range !== undefined) list.addSubnet(range.network, range.prefix, range.family);
  }
  return (ip) => {
    const version = isIP(ip);
    return version !== 0 && list.check(ip, version === 4 ? 'ipv4' : 'ipv6');
  };
}

/** APIs of Machines. Newest version first; the fields that are read are the same in all. */
export const machineApis = {
  clusterAPI: { group: 'cluster.x-k8s.io', versions: ['v1beta2', 'v1beta1'] },
  openshift: { group: 'machine.openshift.io', versions: ['v1beta1'] },
} as const;

type MachineApi = keyof typeof machineApis;

const fields = z.strictObject({
  nodes: nodeAddresses.optional().describe('Names and addresses by node'),
  file: directoryPath.optional().describe('A YAML or JSON file with such a mapping, read again when it changes'),
  machines: z
    .enum(Object.keys(machineApis) as MachineApi[])
    .optional()
    .describe('Machines of Cluster API or of OpenShift: the addresses of the one whose nodeRef is the node'),
  kubeconfig: directoryPath.optional().describe('Of the cluster that has the Machines. Default: that of mode approver'),
  namespace: namespaceName.optional().describe('Of the Machines. Default: all namespaces'),
  served: z
    .strictObject({ caFile: directoryPath.describe('CAs by which the certificate must verify') })
    .optional()
    .describe('The names of the certificate, still valid, that the kubelet of the node serves now'),
  cidrs: z
    .array(cidr)
    .min(1)
    .optional()
    .describe('IP addresses in these ranges that the status of this Node has and that of no other'),
});

type Fields = z.output<typeof fields>;

/** Objects that a source reads with the credential of mode approver, beyond what every approver reads. */
interface AddressRead {
  readonly apiGroup: string;
  readonly resource: string;
  readonly verbs: readonly string[];
}

interface SourceKind<Settings> {
  /** Undefined: the entry is of another kind. */
  readonly settings: (source: Fields) => Settings | undefined;
  /** Files on this host that it reads. */
  readonly files: (settings: Settings) => readonly (string | undefined)[];
  readonly reads?: (settings: Settings) => readonly AddressRead[];
}

const kind = <Settings>(row: SourceKind<Settings>): SourceKind<Settings> => row;

export interface MachineSettings {
  readonly api: MachineApi;
  readonly kubeconfig?: string | undefined;
  readonly namespace?: string | undefined;
}

/** Kinds of source, in the order of messages. Their code is in `sources` of lib/approver/address-sources.ts. */
const kinds = {
  nodes: kind({ settings: ({ nodes }) => nodes && { nodes }, files: () => [] }),
  file: kind({
    settings: ({ file }) => (file === undefined ? undefined : { file }),
    files: ({ file }) => [file],
  }),
  machines: kind<MachineSettings>({
    settings: ({ machines: api, kubeconfig, namespace }) => api && { api, kubeconfig, namespace },
    files: ({ kubeconfig }) => [kubeconfig],
    // Those of another cluster are read with its credential.
    reads: ({ api, kubeconfig }) => {
      const machines = { apiGroup: machineApis[api].group, resource: 'machines', verbs: ['list', 'watch'] };
      return kubeconfig === undefined ? [machines] : [];
    },
  }),
  served: kind({ settings: ({ served }) => served, files: ({ caFile }) => [caFile] }),
  cidrs: kind<{ readonly cidrs: readonly string[] }>({
    settings: ({ cidrs }) => cidrs && { cidrs },
    files: () => [],
    reads: () => [{ apiGroup: '', resource: 'nodes', verbs: ['list'] }],
  }),
};

type Kind = keyof typeof kinds;
export const addressSourceKinds = Object.keys(kinds) as readonly Kind[];

type SettingsOf<K extends Kind> = (typeof kinds)[K] extends SourceKind<infer Settings> ? Readonly<Settings> : never;
export type AddressSettings = { [K in Kind]: { readonly kind: K } & SettingsOf<K> }[Kind];

const rowOf = (settings: AddressSettings): SourceKind<AddressSettings> =>
  kinds[settings.kind] as unknown as SourceKind<AddressSettings>;

/** Files on this host that a source reads. */
export const filesOfSource = (settings: AddressSettings): readonly string[] =>
  rowOf(settings)
    .files(settings)
    .filter((file) => file !== undefined);

export const readsOfSource = (settings: AddressSettings): readonly AddressRead[] =>
  rowOf(settings).reads?.(settings) ?? [];

const oneWanted = `a mapping with one of ${addressSourceKinds.join(', ')}`;

function settingsIn(source: Fields): readonly AddressSettings[] {
  return addressSourceKinds.flatMap((name) => {
    const settings = kinds[name].settings(source);
    return settings === undefined ? [] : [{ kind: name, ...settings } as AddressSettings];
  });
}

export const addressSources = z
  .array(
    fields.transform((source, context): AddressSettings => {
      const { machines, kubeconfig, namespace } = source;
      const [settings, ...others] = settingsIn(source);
      const isOne = settings !== undefined && others.length === 0;
      if (!isOne) context.addIssue({ code: 'custom', message: oneWanted, input: source });
      for (const [name, value] of Object.entries({ kubeconfig, namespace })) {
        if (value === undefined || machines !== undefined) continue;
        context.addIssue({ code: 'custom', path: [name], message: 'left out without machines', input: value });
      }
      return isOne ? settings : z.NEVER;
    }),
  )
  .default([])
  .describe('Who knows what names and addresses belong to a node, for serving certificates. Default: nobody');

/** Checks the content of a file of names and addresses by node. */
export function checkNodeAddresses(
  value: unknown,
): { readonly value: NodeAddresses } | { readonly problems: readonly Problem[] } {
  return checkShape<NodeAddresses>(nodeAddresses, value);
}
