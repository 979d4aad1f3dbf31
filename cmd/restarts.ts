// Restarts of components that must read changed files again. On the host they follow a repair: a store notes what must be
// restarted, and after the pass come the restarts and the proof that everything is in use; notes are made by every pass,
// only one with --restart acts on them. In a pod the observer of files tells what has changed, each component has a
// restarter of its own, and kube-apiserver waits for the restart Lease of the cluster.
import { join } from 'node:path';
import type { RegenConfig, SyncerConfig } from '../lib/config/mode-settings.ts';
import type { RecoveryError } from '../lib/errors.ts';
import type { RestartRequest } from '../lib/fileobserver/react.ts';
import { bootId } from '../lib/host/proc.ts';
import { componentsIn } from '../lib/inventory/resolve.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { serverAddress } from '../lib/address.ts';
import type { RegenReport } from '../lib/regen/journal.ts';
import { type Component, componentsOf } from '../lib/restart/decide.ts';
import { lookForFormer, markFormer } from '../lib/restart/former-files.ts';
import { markLoopback } from '../lib/restart/loopback-restart.ts';
import { restartMarked, type RestartOutcome } from '../lib/restart/host-restarts.ts';
import { createMarkingStore, Markers, type RestartNotes } from '../lib/restart/markers.ts';
import {
  proveAll,
  type ProvingOptions,
  apiServerComponent,
  waitForApi,
  type WantedProof,
} from '../lib/restart/pending-proofs.ts';
import { proveEtcdHere, proveQuorumWithoutUs, proveServedHere } from '../lib/proof/prove.ts';
import { PodRestarter } from '../lib/restart/pod-restarts.ts';
import { MachineLease } from '../lib/restart/machine-lease.ts';
import { RenewalLease } from '../lib/restart/renewal-lease.ts';
import type { Store } from '../lib/store/store.ts';
import { connect } from './connections.ts';
import { isUnmet, type UnmetCondition } from './exit-codes.ts';
import { type HostIdentity, hostIdentity, nodeNameHere } from './host-identity.ts';
import { publishRenewed } from './publish-authority.ts';
import type { Runtime } from './runtime.ts';

export interface HostRestarts {
  /** Of the files of this host. */
  readonly store: Store;
  /** Taken before what is still valid is renewed; undefined where that is not done, or no API is known. */
  readonly renewalLease?: RenewalLease | undefined;
  finish(report: RegenReport): Promise<readonly UnmetCondition[]>;
  /** Notes for the run that restarts what lies here now, before processes start that read it. Never rejects. */
  observe(): Promise<void>;
  /** The end of what kube-apiserver serves, which is what lies on disk; undefined while that is not so. */
  servedNotAfter(): Promise<Date | undefined>;
  /** What kubeadm publishes for everybody has the CA of this machine. */
  publishAuthority(): Promise<void>;
}

export function createHostRestarts(mode: RegenConfig, disk: Store, runtime: Runtime): HostRestarts {
  const { resolved, clock, log, signal } = runtime;
  const components = componentsOf(resolved);
  const onFailed = ({ code, message }: RecoveryError): void =>
    log.warn('restart.failed', { path: mode.lockDir, code, err: message });
  const notes = { directory: mode.lockDir, boot: bootId(), onFailed };
  const markers = new Markers(notes);
  const identity = hostIdentity(disk, runtime);
  const lease = createRenewalLease(mode, identity, { store: disk, runtime, notes });
  const observe = (): ReturnType<typeof lookForFormer> => lookForFormer({ components, resolved, notes, clock }, 'keep');
  return {
    store: createMarkingStore(disk, components, markers),
    renewalLease: mode.policy.ahead === undefined ? undefined : lease,
    async observe() {
      await observe();
    },
    async finish(report) {
      const proving = provingOptions(disk, components, runtime);
      await markFormer(await observe(), { ...proving, markers });
      await markLoopback({ ...proving, markers, lease });
      const unmet = new Set(report.artefacts.filter(isUnmet).map(({ artefact }) => artefact));
      // What cannot be renewed here is no fault of this renewal.
      const hasFailed = report.artefacts.some(({ action, outcome }) => action === 'renew' && outcome === 'failed');
      const outcomes = await restartMarked({
        components,
        markers,
        isReady: (artefact) => !unmet.has(artefact),
        apiAnswers: () => waitForApi(proving),
        etcdProblem: () => etcdProblem(proving),
        quorumProblem: async () => {
          const quorum = await proveQuorumWithoutUs(quorumMs, proving);
          return quorum?.state === 'unproven' ? quorum.message : undefined;
        },
        clock,
        log,
        signal,
      });
      const failures = outcomes.flatMap(({ failure }) => failure ?? []);
      // What could not be restarted must not wait for a proof once a minute.
      const isIdle = failures.length === outcomes.length && report.writes === 0;
      const fresh = isIdle ? [] : wantedOf(outcomes, clock.now());
      const unproven = await proveAll(fresh, notes, proving);
      const all = [...failures, ...unproven];
      await lease?.settle(async () => all.length === 0 && !hasFailed && (await etcdProblem(proving)) === undefined);
      return all.map((message) => ({ message }));
    },
    async servedNotAfter() {
      const served = await proveServedHere(0, provingOptions(disk, components, runtime));
      return served?.state === 'proven' ? served.servedNotAfter : undefined;
    },
    async publishAuthority() {
      if (identity !== undefined) await publishRenewed({ mode, identity, store: disk, runtime });
    },
  };
}

const etcdHealthMs = 30_000;
/** A member that is away for longer is not about to come back; the next run asks again. */
const quorumMs = 10_000;

async function etcdProblem(proving: ProvingOptions): Promise<string | undefined> {
  const health = await proveEtcdHere(etcdHealthMs, proving);
  if (health?.state !== 'unproven') return undefined;
  proving.log.warn('proof.missing', { component: 'etcd', message: health.message });
  return health.message;
}

interface Renewing {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly notes: RestartNotes;
}

/**
 * Only a run that restarts and proves knows when it may be given back. Without renewals ahead of time it is taken for a
 * restart of kube-apiserver alone.
 */
function createRenewalLease(
  { restart }: RegenConfig,
  identity: HostIdentity | undefined,
  { store, runtime, notes }: Renewing,
): RenewalLease | undefined {
  const { hostName, once, clock, log, signal } = runtime;
  if (!restart || !once || identity === undefined) return undefined;
  const holder = (): Promise<string> => nodeNameHere(store, runtime);
  return new RenewalLease({ withConnection: identity.asHost, holder, hostName, notes, clock, log, signal });
}

function wantedOf(outcomes: readonly RestartOutcome[], now: Date): readonly WantedProof[] {
  const restarted = outcomes.flatMap(({ component, since, failure }) =>
    failure === undefined && component.name !== apiServerComponent && !component.isService
      ? [{ name: component.name, since }]
      : [],
  );
  return [{ name: apiServerComponent, since: now }, ...restarted];
}

function provingOptions(store: Store, components: readonly Component[], runtime: Runtime): ProvingOptions {
  const { config, resolved, hostName, clock, log, signal } = runtime;
  const local = URL.parse(resolved.endpoints?.local ?? '');
  return {
    resolved,
    components,
    store,
    apiServer: config.apiServerAddress ?? (local === null ? undefined : serverAddress(local)),
    connect: (kubeconfig) => connect(kubeconfig, { config: {}, clock, log, signal }),
    hostName,
    clock,
    log,
    signal,
  };
}

interface PodRestarts {
  /** Undefined: what needs a restart is only reported. */
  readonly restart?: (request: RestartRequest) => void;
  /** Until the signal aborts. */
  run(): Promise<void>;
}

/** `resolved`: what this mode publishes and observes. */
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
