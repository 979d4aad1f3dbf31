// Parts that `uninstall` can remove separately, because each has other users: `modes` serve processes of `init`,
// `approver` approving processes, `workers` every worker that was given the token, `hosts` control-plane nodes with the
// units of `init host`, `node-ca` every node. Users of a part are named before it is removed.
import { getIfPresent } from '../kube/objects.ts';
import { readLease } from '../kube/leases.ts';
import type { NodeList } from '../kube/received.ts';
import { collectionPath } from '../kube/resources.ts';
import { isCode } from '../errors.ts';
import { type Given, nextCommand } from '../next-command.ts';
import { renewalLease } from '../restart/machine-lease.ts';
import { listed } from '../summary.ts';
import { accountName, tokenSecretName } from './accounts.ts';
import type { Api, Manifest } from './apply.ts';
import { adoptedNodes } from './install-record.ts';
import { nodeCaOfKubelets, nodeCaPod } from './node-ca-pod.ts';
import { hostsRole } from './rbac.ts';
import { controlPlaneLabel } from '../well-known.ts';
import { approverRecords } from './rules.ts';
import { staticApprovers } from './workers.ts';

export const uninstallParts = ['modes', 'approver', 'workers', 'hosts', 'node-ca'] as const;
export type UninstallPart = (typeof uninstallParts)[number];

const names: Readonly<Record<Exclude<UninstallPart, 'modes'>, readonly string[]>> = {
  approver: [
    ...(['approver', 'node-bootstrapper'] as const).flatMap((account) => [
      accountName(account),
      tokenSecretName(account),
    ]),
    ...approverRecords,
  ],
  workers: [accountName('worker'), tokenSecretName('worker')],
  hosts: [hostsRole],
  'node-ca': [nodeCaPod, nodeCaOfKubelets],
};

/** Part that an object of ours belongs to. Pure. */
export function partOf({ metadata: { name } }: Pick<Manifest, 'metadata'>): UninstallPart {
  return (['approver', 'workers', 'hosts', 'node-ca'] as const).find((part) => names[part].includes(name)) ?? 'modes';
}

interface Tenants {
  readonly part: UninstallPart;
  /** Users of the part, and the consequence for them. */
  readonly who: string;
}

interface Looking {
  readonly api: Api;
  readonly parts: readonly UninstallPart[];
  /** Our existing objects. */
  readonly objects: readonly Manifest[];
  /** Whether the units of `init host` are on this machine. */
  readonly isHost: boolean;
  /** Flags of the command line except the parts, for the command that spares the parts in use. */
  readonly typed: Given;
}

/** Users of each part, and the commands that remove the unused parts or all; undefined: no users. */
export async function whoIsLeft(looking: Looking): Promise<string | undefined> {
  const { parts, objects } = looking;
  const there = new Set(objects.map(partOf));
  const found = (await Promise.all(parts.filter((part) => there.has(part)).map((part) => tenantsOf(part, looking))))
    .flat()
    .map(({ part, who }) => `  ${part}: ${who}`);
  if (found.length === 0) return undefined;
  const free = parts.filter((part) => !found.some((line) => line.startsWith(`  ${part}:`)));
  const { '--purge': purge = false, '--dry-run': _dryRun, ...given } = looking.typed;
  const others = nextCommand('uninstall', {
    '--part': free.join(','),
    '--purge': free.includes('modes') && purge,
    ...given,
  });
  const isAll = parts.length === uninstallParts.length;
  const part = isAll ? undefined : parts.join(',');
  const all = nextCommand('uninstall', { '--part': part, '--purge': purge, ...given, '--force': true });
  const rest = free.length === 0 ? [] : [`Without them: ${others}`];
  return ['somebody still lives on it', ...found, ...rest, `All the same: ${all}`].join('\n');
}

async function tenantsOf(part: UninstallPart, looking: Looking): Promise<readonly Tenants[]> {
  const who = await tenant[part](looking);
  return who === undefined ? [] : [{ part, who }];
}

const tenant: Readonly<Record<UninstallPart, (looking: Looking) => Promise<string | undefined>>> = {
  async modes({ api }) {
    const nodes = await adoptedNodes(api);
    if (nodes.length === 0) return undefined;
    return (
      `static pods of ${nodes.join(', ')}. Without these identities nothing renews their certificates, and the control ` +
      `plane ends with the first that expires; run "${nextCommand('uninstall adopt')}" there first, and delete the Node ` +
      'of a machine that is gone for good'
    );
  },
  async approver({ api }) {
    const pods = await staticApprovers(api);
    const all = [...pods, ...(await adoptedNodes(api)).map((node) => `static pods of ${node}`)];
    return all.length === 0
      ? undefined
      : `${all.join(', ')}; later requests of kubelets would stay pending. A pod whose manifest was removed is gone in seconds`;
  },
  async workers({ api, objects }) {
    const workers = await workerNodes(api);
    if (workers.length === 0) return undefined;
    const token = objects.find(({ kind, metadata: { name } }) => kind === 'Secret' && names.workers.includes(name));
    const used = token?.metadata.labels?.[lastUsedLabel];
    const state = used === undefined ? 'not used yet' : `last used ${used}`;
    return `Nodes ${listed(workers)} may have the token (${state}), and could not ask for a certificate any more`;
  },
  async hosts({ api, isHost }) {
    const taken = await lastTaken(api);
    if (!isHost && taken === undefined) return undefined;
    const here = isHost ? 'the units of init host on this machine' : '';
    const lease = taken === undefined ? '' : `the Lease of renewals was last taken ${taken}`;
    const lost = `their rights would be granted again by the next run of such a machine; run "${nextCommand('uninstall host')}" there first`;
    return `${[here, lease].filter((text) => text !== '').join('; ')}; ${lost}`;
  },
  // Its pods go with it, and the files of the nodes stay as they are.
  'node-ca': () => Promise.resolve(undefined),
};

/** Last day of use, set by the API server on a non-expiring token (serviceaccount, LastUsedLabelKey). */
const lastUsedLabel = 'kubernetes.io/legacy-token-last-used';

async function workerNodes(api: Api): Promise<readonly string[]> {
  const nodes = await getIfPresent<NodeList>(api, collectionPath('Node'));
  return (nodes?.items ?? []).flatMap(({ metadata }) =>
    controlPlaneLabel in (metadata?.labels ?? {}) ? [] : [metadata?.name ?? ''],
  );
}

/** Time and holder of the last renewal, from the Lease. */
async function lastTaken(api: Api): Promise<string | undefined> {
  const lease = await readLease({ ...api, lease: renewalLease }).catch((err: unknown) => {
    if (!isCode(err, 'KubeNotFound')) throw err;
  });
  const { renewTime, holderIdentity } = lease?.spec ?? {};
  if (typeof renewTime !== 'string') return undefined;
  return `at ${renewTime}${holderIdentity ? ` by ${holderIdentity}` : ''}`;
}
