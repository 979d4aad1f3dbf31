// Restarts of the components beside us, for the observer of files: it tells what has changed, each component has a
// reaction of its own. kube-apiserver waits for its turn among the machines of the cluster.
import { join } from 'node:path';
import type { SyncerConfig } from '../lib/config/config.ts';
import type { RestartRequest } from '../lib/fileobserver/react.ts';
import { componentsIn } from '../lib/inventory/resolve.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { LeaseTurn, restartTurn } from '../lib/leases/turn.ts';
import type { Log } from '../lib/log.ts';
import { RestartReaction } from '../lib/restart/reactions.ts';
import type { Shared } from './shared.ts';

export interface RestartReactions {
  /** Undefined: what needs a restart is only reported. */
  readonly restart?: (request: RestartRequest) => void;
  /** Until the signal aborts. */
  run(): Promise<void>;
}

export interface Reacting extends Pick<Shared, 'clock' | 'signal' | 'hostName'> {
  readonly connection: KubeConnection;
  /** What this mode publishes and observes. */
  readonly resolved: Resolved;
  readonly log: Log;
}

const readyMs = 5_000;

export function createRestartReactions(mode: SyncerConfig, options: Reacting): RestartReactions {
  if (mode.restart === undefined) return { run: () => Promise.resolve() };
  const { connection, resolved, hostName, clock, log, signal } = options;
  const { manifestsDir, hasShortBackOff } = mode.restart;
  const isApiReady = async (): Promise<boolean> => {
    const request = { method: 'GET', path: '/readyz', answer: 'text', timeoutMs: readyMs, signal } as const;
    return connection.request(request).then(
      () => true,
      () => false,
    );
  };
  const reactions = new Map(
    componentsIn(resolved).map((component) => {
      const turn =
        component === 'kube-apiserver'
          ? new LeaseTurn({ connection, lease: restartTurn, holder: hostName, clock, signal })
          : undefined;
      const manifest = manifestsDir && join(manifestsDir, `${component}.yaml`);
      const own = { component, manifest, hasShortBackOff, isApiReady, clock, log, signal };
      return [component, new RestartReaction({ ...own, ...(turn !== undefined && { turn }) })];
    }),
  );
  return {
    restart: (change) => reactions.get(change.component)?.notice(change),
    run: async () => {
      await Promise.all([...reactions.values()].map((reaction) => reaction.run()));
    },
  };
}
