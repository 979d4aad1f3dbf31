// Restarts in a pod: the observer of files reports changes, each component has a restarter of its own, and
// kube-apiserver waits for the restart Lease of the cluster.
import { join } from 'node:path';
import type { SyncerConfig } from '../config/mode-settings.ts';
import type { RestartRequest } from '../fileobserver/react.ts';
import { componentsIn } from '../inventory/component-view.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { MachineLease } from '../restart/machine-lease.ts';
import { PodRestarter } from '../restart/pod-restarts.ts';
import type { Runtime } from './runtime.ts';

interface PodRestarts {
  /** Undefined: needed restarts are only reported. */
  readonly restart?: (request: RestartRequest) => void;
  /** Runs until the signal aborts. */
  run(): Promise<void>;
}

/** `resolved`: the inventory that this mode publishes and observes. */
interface PodRestarting extends Pick<Runtime, 'config' | 'resolved' | 'clock' | 'log' | 'signal' | 'hostName'> {
  readonly connection: KubeConnection;
}

const readyMs = 5_000;

export function createPodRestarts(mode: SyncerConfig, options: PodRestarting): PodRestarts {
  if (mode.restart === undefined) return { run: () => Promise.resolve() };
  const { connection, config, resolved, hostName, clock, log, signal } = options;
  // The pod knows its node by the downward API.
  const holder = config.identity.nodeName ?? hostName;
  const { manifestsDir, hasShortBackOff } = mode.restart;
  const isApiReady = async (): Promise<boolean> => {
    const request = { method: 'GET', path: '/readyz', answer: 'text', timeoutMs: readyMs, signal } as const;
    return connection.request(request).then(
      () => true,
      () => false,
    );
  };
  const restarters = new Map(
    componentsIn(resolved).map((component) => {
      const lease =
        component === 'kube-apiserver' ? new MachineLease({ connection, holder, clock, signal }) : undefined;
      const manifest = manifestsDir && join(manifestsDir, `${component}.yaml`);
      const own = { component, manifest, hasShortBackOff, isApiReady, lease, clock, log, signal };
      return [component, new PodRestarter(own)];
    }),
  );
  return {
    restart: (change) => restarters.get(change.component)?.notice(change),
    run: async () => {
      await Promise.all([...restarters.values()].map((restarter) => restarter.run()));
    },
  };
}
