// Whom a control-plane host is to the API server, where it needs to be somebody: a client certificate of minutes that it
// signs itself (lib/issue/host-credential.ts), for one piece of work.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isStaticPod } from '../lib/components.ts';
import type { RegenConfig } from '../lib/config/mode-settings.ts';
import { replaceFile } from '../lib/disk/files.ts';
import { issueHostKubeconfig } from '../lib/issue/host-credential.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { type Component, ownKubeconfig } from '../lib/restart/decide.ts';
import type { Store } from '../lib/store/store.ts';
import { withConnection } from './connections.ts';
import type { Runtime } from './runtime.ts';

export interface HostIdentity {
  /** Of a component that talks to the API server of this machine: its server and CA are those of this identity. */
  readonly kubeconfig: string;
  readonly withConnection: <T>(work: (connection: KubeConnection) => Promise<T>) => Promise<T>;
}

/** `store`: of the files of this host. Undefined where no component here talks to an API server. */
export function hostIdentity(
  { lockDir }: Pick<RegenConfig, 'lockDir'>,
  store: Store,
  { components, runtime }: { readonly components: readonly Component[]; readonly runtime: Runtime },
): HostIdentity | undefined {
  const { resolved, hostName, clock, log, signal } = runtime;
  const own = components.filter((one) => ownKubeconfig(one) !== undefined);
  const component = own.find(({ name }) => isStaticPod(name)) ?? own[0];
  const kubeconfig = component && ownKubeconfig(component);
  if (kubeconfig === undefined) return undefined;
  const path = join(lockDir, 'host.kubeconfig');
  return {
    kubeconfig,
    async withConnection(work) {
      const issued = { resolved, store, kubeconfig, hostName, now: clock.now(), signal };
      await replaceFile({ path, content: await issueHostKubeconfig(issued), mode: 0o600, what: 'kubeconfig' });
      try {
        return await withConnection(path, { config: {}, clock, log, signal }, work);
      } finally {
        await rm(path, { force: true });
      }
    },
  };
}
