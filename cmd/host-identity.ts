// Who a control-plane host is to the API server while a run of its timer lasts, and what it asks for as that: the turn to renew
// (restarts.ts), the time that other machines show, stale leader Leases (lib/regen/boot-leases.ts) and the life of
// certificates (cluster-life.ts). `init host` grants it.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { RegenConfig } from '../lib/config/mode-settings.ts';
import { isStaticPod } from '../lib/components.ts';
import { ensurePrivateDirectory, replaceFile } from '../lib/disk/files.ts';
import { leaderLeases } from '../lib/inventory/leader-leases.ts';
import { issueHostKubeconfig } from '../lib/issue/host-credential.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import type { OtherClock } from '../lib/plan/clock-rules.ts';
import { createOtherClocks } from '../lib/regen/other-clocks.ts';
import { componentsOf, ownKubeconfig } from '../lib/restart/decide.ts';
import type { Store } from '../lib/store/store.ts';
import { withConnection } from './connections.ts';
import type { Runtime } from './runtime.ts';

/** One piece of work with a credential of some minutes. Rejects when none can be made, or with what the work rejects. */
export type AsHost = <T>(work: (connection: KubeConnection) => Promise<T>) => Promise<T>;

/**
 * `name`: of the credential, which no two pieces of work at the same time may share. Undefined where no component of this
 * host talks to an API server: its server and CA are those of one that does, best of the API server of this machine.
 */
export function hostIdentity(
  name: string,
  { lockDir }: Pick<RegenConfig, 'lockDir'>,
  store: Store,
  { resolved, hostName, clock, log, signal }: Runtime,
): AsHost | undefined {
  const own = componentsOf(resolved).filter((one) => ownKubeconfig(one) !== undefined);
  const component = own.find((one) => isStaticPod(one.name)) ?? own[0];
  const kubeconfig = component && ownKubeconfig(component);
  if (kubeconfig === undefined) return undefined;
  const path = join(lockDir, `${name}.kubeconfig`);
  return async (work) => {
    const issued = { resolved, store, kubeconfig, hostName, now: clock.now(), signal };
    await ensurePrivateDirectory(lockDir);
    await replaceFile({ path, content: await issueHostKubeconfig(issued), mode: 0o600, what: 'kubeconfig' });
    try {
      return await withConnection(path, { config: {}, clock, log, signal }, work);
    } finally {
      await rm(path, { force: true });
    }
  };
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
