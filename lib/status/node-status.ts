// Looks at one kubeadm machine: files, plan, and what its servers show. Needs no API, no kubeconfig, no network.
import { RecoveryError } from '../errors.ts';
import { gather } from '../plan/gather.ts';
import { plan } from '../plan/plan.ts';
import { certificateKey } from '../store/store.ts';
import type { AdoptedSight } from './adopted.ts';
import { askServers, localServers } from './local-servers.ts';
import { nodeReport, type NodeStatus } from './node-report.ts';
import type { StatusOptions } from './status.ts';

export interface NodeOptions extends Pick<
  StatusOptions,
  'resolved' | 'store' | 'policy' | 'clockFacts' | 'clock' | 'at' | 'signal'
> {
  /** What else is to be known about this machine, in plain sentences. */
  readonly notes?: readonly string[];
  /** Whether something on this machine carries out the plan before the kubelet starts. Default: true. */
  readonly isArmed?: boolean;
  /** Whether this process may read everything: what it may not read is then a fault. Default: true. */
  readonly isRoot?: boolean;
  /** Of an adopted machine. */
  readonly adopted?: AdoptedSight;
}

/** Throws ReadFailed where root's files are asked for by somebody else. */
export async function runNodeStatus(options: NodeOptions): Promise<NodeStatus> {
  const {
    resolved,
    store,
    policy,
    clockFacts,
    clock,
    at,
    signal,
    notes = [],
    adopted,
    isArmed,
    isRoot = true,
  } = options;
  const present = clock.now();
  const now = at ?? present;
  const { facts, found, failures } = await gather({ resolved, store, now: present, signal });
  const isShutOut = [...failures.values()].some(({ details }) => details['system'] === 'EACCES');
  if (isShutOut && !isRoot) {
    const message = 'Cannot look at this machine: its keys and kubeconfigs are readable by root only; run it as root';
    throw new RecoveryError('ReadFailed', message);
  }
  const served = at === undefined ? await askServers(localServers(resolved), { facts, found, clock, signal }) : [];
  const keyOnly = resolved.artefacts
    .filter(({ name, location }) => {
      const entries = found.get(name)?.entries;
      return location.kind === 'pemPair' && entries !== undefined && entries[certificateKey] === undefined;
    })
    .map(({ name }) => name);
  return nodeReport({
    resolved,
    facts,
    plan: plan({ resolved, facts, policy, clock: clockFacts, now }),
    now,
    isForecast: at !== undefined,
    keyOnly: new Set(keyOnly),
    served,
    notes,
    ...(isArmed !== undefined && { isArmed }),
    ...(adopted !== undefined && { adopted }),
  });
}
