// Restarts of components that must read changed files again. On the host they follow a repair: a store notes what must be
// restarted, and after the pass come the restarts and the proof that everything is in use; notes are made by every pass,
// only one with --restart acts on them. In a pod the observer of files tells what has changed, each component has a
// restarter of its own, and kube-apiserver waits for its turn among the machines of the cluster.
import { join } from 'node:path';
import type { RegenConfig, SyncerConfig } from '../lib/config/config.ts';
import type { RecoveryError } from '../lib/errors.ts';
import type { RestartRequest } from '../lib/fileobserver/react.ts';
import { bootId } from '../lib/host/proc.ts';
import { componentsIn } from '../lib/inventory/resolve.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { serverAddress } from '../lib/address.ts';
import type { Log } from '../lib/log.ts';
import type { RegenReport } from '../lib/regen/journal.ts';
import { componentsOf } from '../lib/restart/decide.ts';
import { restartMarked, type RestartOutcome } from '../lib/restart/host-restarts.ts';
import { createMarkingStore, Markers } from '../lib/restart/markers.ts';
import {
  proveAll,
  type ProvingOptions,
  servingName,
  waitForApi,
  type WantedProof,
} from '../lib/restart/pending-proofs.ts';
import { PodRestarter } from '../lib/restart/pod-restarts.ts';
import { LeaseTurn, restartTurn } from '../lib/restart/turn.ts';
import type { Store } from '../lib/store/store.ts';
import type { Shared } from './shared.ts';
import { isUnmet, type UnmetCondition } from './unmet.ts';
import { version } from './version.ts';

interface HostRestarts {
  /** Of the files of this host. */
  readonly store: Store;
  finish(report: RegenReport): Promise<readonly UnmetCondition[]>;
}

export function createHostRestarts(mode: RegenConfig, disk: Store, shared: Shared): HostRestarts {
  const { resolved, clock, signal } = shared;
  const log = shared.log.with({ mode: 'regen' });
  const components = componentsOf(resolved);
  if (components.length === 0) return { store: disk, finish: () => Promise.resolve([]) };
  const boot = bootId();
  const onFailed = ({ code, message }: RecoveryError): void =>
    log.warn('restart.failed', { path: mode.lockDir, code, err: message });
  const markers = new Markers({ directory: mode.lockDir, onFailed });
  return {
    store: createMarkingStore({ store: disk, components, markers, boot }),
    async finish(report) {
      const proving = provingOptions(disk, shared);
      const unmet = new Set(report.artefacts.filter(isUnmet).map(({ artefact }) => artefact));
      const outcomes = await restartMarked({
        components,
        markers,
        boot,
        isReady: (artefact) => !unmet.has(artefact),
        apiAnswers: () => waitForApi(proving),
        clock,
        log,
        signal,
      });
      const failures = outcomes.flatMap(({ failure }) => failure ?? []);
      // What could not be restarted must not wait for a proof once a minute.
      const isIdle = failures.length === outcomes.length && report.writes === 0;
      const fresh = isIdle ? [] : wantedOf(outcomes, clock.now());
      const notes = { directory: mode.lockDir, boot, onFailed, components };
      const unproven = await proveAll(fresh, notes, proving);
      return [...failures, ...unproven].map((message) => ({ message }));
    },
  };
}

function wantedOf(outcomes: readonly RestartOutcome[], now: Date): readonly WantedProof[] {
  const restarted = outcomes.flatMap(({ component, since, failure }) =>
    failure === undefined ? [{ name: component.name, component, since }] : [],
  );
  return [{ name: servingName, since: now }, ...restarted];
}

function provingOptions(store: Store, { config, resolved, hostName, clock, log, signal }: Shared): ProvingOptions {
  const local = URL.parse(resolved.endpoints?.local ?? '');
  return {
    resolved,
    store,
    apiServer: config.apiServerAddress ?? (local ? serverAddress(local) : undefined),
    connect: async (kubeconfigFile) => {
      const { openConnection } = await import('../lib/kube/connection.ts');
      return openConnection({ kubeconfigFile, userAgent: `kube-cert-recovery/${version}`, clock, log });
    },
    hostName,
    clock,
    log: log.with({ mode: 'regen' }),
    signal,
  };
}

interface PodRestarts {
  /** Undefined: what needs a restart is only reported. */
  readonly restart?: (request: RestartRequest) => void;
  /** Until the signal aborts. */
  run(): Promise<void>;
}

interface PodRestarting extends Pick<Shared, 'clock' | 'signal' | 'hostName'> {
  readonly connection: KubeConnection;
  /** What this mode publishes and observes. */
  readonly resolved: Resolved;
  readonly log: Log;
}

const readyMs = 5_000;

export function createPodRestarts(mode: SyncerConfig, options: PodRestarting): PodRestarts {
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
  const restarters = new Map(
    componentsIn(resolved).map((component) => {
      const turn =
        component === 'kube-apiserver'
          ? new LeaseTurn({ connection, lease: restartTurn, holder: hostName, clock, signal })
          : undefined;
      const manifest = manifestsDir && join(manifestsDir, `${component}.yaml`);
      const own = { component, manifest, hasShortBackOff, isApiReady, clock, log, signal };
      return [component, new PodRestarter({ ...own, ...(turn !== undefined && { turn }) })];
    }),
  );
  return {
    restart: (change) => restarters.get(change.component)?.notice(change),
    run: async () => {
      await Promise.all([...restarters.values()].map((restarter) => restarter.run()));
    },
  };
}
