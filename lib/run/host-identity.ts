// Who a control-plane host is to the API server while a run of its timer lasts, and what it asks for as that: the Lease of
// renewals (host-restart.ts), the time that other machines show, stale leader Leases (lib/regen/boot-leases.ts), the life of
// certificates (cluster-life.ts), and what everybody joins by (publish-authority.ts). `init host` grants it.
import { isCode } from '../errors.ts';
import { isStaticPod } from '../components.ts';
import type { Artefact, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { inKubeconfig } from '../inventory/places.ts';
import { issueHostCredentials } from '../issue/host-credential.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { OtherClock } from '../plan/clock-rules.ts';
import { nodeNameIn } from '../proof/prove.ts';
import { createOtherClocks } from '../regen/other-clocks.ts';
import { type Component, componentsOf, ownKubeconfig } from '../restart/decide.ts';
import { retry } from '../retry.ts';
import type { Store } from '../store/store.ts';
import { withConnection } from './connections.ts';
import type { Runtime } from './runtime.ts';

/**
 * Runs one piece of work with a credential of some minutes. Rejects when none can be made, or with the error of the
 * work.
 */
export type AsHost = <T>(work: (connection: KubeConnection) => Promise<T>) => Promise<T>;

/** Parts of a runtime that determine who this host is. */
export type HostLook = Pick<Runtime, 'resolved' | 'clock' | 'log' | 'signal' | 'hostName'>;

export interface HostIdentity {
  /**
   * Kubeconfig of a component that talks to the API server of this machine; its server and CA serve this identity too.
   */
  readonly kubeconfig: string;
  readonly asHost: AsHost;
}

/**
 * Undefined where no component of this host talks to an API server: server and CA are taken from the kubeconfig of such
 * a component, preferably from a static pod's, which names the API server of this machine.
 */
export function hostIdentity(store: Store, runtime: HostLook): HostIdentity | undefined {
  const { resolved, clock, log, signal } = runtime;
  const own = talkers(resolved);
  const component = own.find((one) => isStaticPod(one.name)) ?? own[0];
  const kubeconfig = component && ownKubeconfig(component);
  const artefact = inKubeconfig(resolved.artefacts, kubeconfig);
  // Without the key of the CA a host has no identity of its own.
  if (kubeconfig === undefined || artefact?.kind === 'external') return undefined;
  const asHost: AsHost = async (work) => {
    const nodeName = await nodeNameHere(store, runtime);
    const credentials = await issueHostCredentials({ resolved, store, kubeconfig, nodeName, now: clock.now(), signal });
    return withConnection(kubeconfig, { config: {}, clock, log, signal, credentials }, work);
  };
  return { kubeconfig, asHost };
}

/**
 * An API server that has just been restarted refuses requests until it has loaded its RBAC: a refused request is
 * repeated for some seconds before the right counts as missing.
 */
export const unlessStarting = <T>(ask: () => Promise<T>, { clock, signal }: Pick<Runtime, 'clock' | 'signal'>) =>
  retry(ask, (err) => isCode(err, 'KubeForbidden', 'KubeUnauthorized'), { forMs: 5000, everyMs: 500, clock, signal });

const talkers = (resolved: Resolved): readonly Component[] =>
  componentsOf(resolved).filter((one) => ownKubeconfig(one) !== undefined);

/**
 * Unique name of this machine in the cluster. Where its kubelet's certificate does not name the node, the host name.
 */
export async function nodeNameHere(store: Store, { resolved, hostName, signal }: HostLook): Promise<string> {
  const kubelet = talkers(resolved).find(({ name }) => name === 'kubelet');
  const artefact = inKubeconfig(resolved.artefacts, kubelet?.file);
  return (artefact && (await nodeNameIn(artefact, { store, signal }))) ?? hostName;
}

/** Clocks of other machines that hold a leader Lease; none where the API cannot be read. */
export function clocksAskedAs(
  asHost: AsHost | undefined,
  { resolved, hostName, clock }: Runtime,
): ((signal: AbortSignal) => Promise<readonly OtherClock[]>) | undefined {
  const leases = leaderLeases(resolved.artefacts);
  if (asHost === undefined || leases.length === 0) return undefined;
  return (signal) =>
    asHost((connection) => createOtherClocks({ connection, leases, hostName, clock })(signal)).catch(() => []);
}

/** The leader-election Leases of a control plane, each once: those whose renewal proves the use of an artefact. */
export function leaderLeases(
  artefacts: readonly (Artefact | ResolvedArtefact)[],
): readonly { readonly namespace: string; readonly name: string }[] {
  const named = artefacts.flatMap(({ readers }) =>
    readers.flatMap(({ proof }) => (proof.kind === 'lease' ? [proof] : [])),
  );
  return [...new Map(named.map(({ namespace, name }) => [`${namespace}/${name}`, { namespace, name }])).values()];
}
