// Looks at one kubeadm machine: files, plan, and what its servers show. Needs no API, no kubeconfig, no network.
import { gather } from '../plan/gather.ts';
import { plan } from '../plan/plan.ts';
import { certificateKey } from '../store/store.ts';
import { askServers, localServers } from './local-servers.ts';
import { nodeReport, type NodeStatus } from './node-report.ts';
import type { StatusOptions } from './status.ts';

export interface NodeOptions extends Pick<
  StatusOptions,
  'resolved' | 'store' | 'policy' | 'clockFacts' | 'clock' | 'at' | 'signal'
> {
  /** What else is to be known about this machine, in plain sentences. */
  readonly notes?: readonly string[];
}

export async function runNodeStatus(options: NodeOptions): Promise<NodeStatus> {
  const { resolved, store, policy, clockFacts, clock, at, signal, notes = [] } = options;
  const present = clock.now();
  const now = at ?? present;
  const { facts, found } = await gather({ resolved, store, now: present, signal });
  const served = at === undefined ? await askServers(localServers(resolved), { facts, found, clock, signal }) : [];
  const keyOnly = resolved.artefacts
    .filter(({ name, truth }) => {
      const entries = found.get(name)?.entries;
      return truth.kind === 'pemPair' && entries !== undefined && entries[certificateKey] === undefined;
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
  });
}
