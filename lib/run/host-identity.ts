// Who a control-plane host is to the API server while a run of its timer lasts, and what it asks for as that: the Lease of
// renewals (host-restart.ts), the time that other machines show, stale leader Leases (lib/regen/boot-leases.ts), the life of
// certificates (cluster-life.ts), and what everybody joins by (publish-authority.ts). `init host` grants it.
import { isCode } from '../errors.ts';
import { isStaticPod } from '../components.ts';
import type { Resolved } from '../inventory/model.ts';
import { leaderLeases } from '../inventory/leader-leases.ts';
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

/** One piece of work with a credential of some minutes. Rejects when none can be made, or with what the work rejects. */
export type AsHost = <T>(work: (connection: KubeConnection) => Promise<T>) => Promise<T>;

/** What it takes to know who this host is. */
export type HostLook = Pick<Runtime, 'resolved' | 'clock' | 'log' | 'signal' | 'hostName'>;

export interface HostIdentity {
  /** Of a component that talks to the API server of this machine: its server and CA are those of this identity. */
  readonly kubeconfig: string;
  readonly asHost: AsHost;
}

/**
 * Undefined where no component of this host talks to an API server: its server and CA are those of one that does, best of
 * the API server of this machine.
 */
export function hostIdentity(store: Store, runtime: HostLook): HostIdentity | undefined {
  const { resolved, clock, log, signal } = runtime;
  const own = talkers(resolved);
  const component = own.find((one) => isStaticPod(one.name)) ?? own[0];
  const kubeconfig = component && ownKubeconfig(component);
  if (kubeconfig === undefined) return undefined;
  const asHost: AsHost = async (work) => {
    const nodeName = await nodeNameHere(store, runtime);
    const credentials = await issueHostCredentials({ resolved, store, kubeconfig, nodeName, now: clock.now(), signal });
    return withConnection(kubeconfig, { config: {}, clock, log, signal, credentials }, work);
  };
  return { kubeconfig, asHost };
}

/**
 * An API server that has just been restarted refuses what it does not know yet to be allowed: what is refused is asked for
 * once more for some seconds, before it counts as a right that is missing.
 */
export const unlessStarting = <T>(ask: () => Promise<T>, { clock, signal }: Pick<Runtime, 'clock' | 'signal'>) =>
  retry(ask, (err) => isCode(err, 'KubeForbidden', 'KubeUnauthorized'), { forMs: 5000, everyMs: 500, clock, signal });

const talkers = (resolved: Resolved): readonly Component[] =>
  componentsOf(resolved).filter((one) => ownKubeconfig(one) !== undefined);

/** Of this machine in the cluster: no two have the same. Where its kubelet does not tell, its host name. */
export async function nodeNameHere(store: Store, { resolved, hostName, signal }: HostLook): Promise<string> {
  const kubelet = talkers(resolved).find(({ name }) => name === 'kubelet');
  const artefact = resolved.artefacts.find(({ location: at }) => at.kind === 'kubeconfig' && at.file === kubelet?.file);
  return (artefact && (await nodeNameIn(artefact, { store, signal }))) ?? hostName;
}

/** What other machines that lead show; nothing where they cannot be asked. */
export function clocksAskedAs(
  asHost: AsHost | undefined,
  { resolved, hostName, clock }: Runtime,
): ((signal: AbortSignal) => Promise<readonly OtherClock[]>) | undefined {
  const leases = leaderLeases(resolved.artefacts);
  if (asHost === undefined || leases.length === 0) return undefined;
  return (signal) =>
    asHost((connection) => createOtherClocks({ connection, leases, hostName, clock })(signal)).catch(() => []);
}
