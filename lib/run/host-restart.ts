// Restarts on a host follow a repair: the store marks components that must read a changed file again, and after the
// pass come the restarts and the proof that everything is in use. Every pass marks; only a pass with --restart acts on
// the marks.
import type { RegenConfig } from '../config/mode-settings.ts';
import type { RecoveryError } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { serverAddress } from '../address.ts';
import type { RegenReport } from '../regen/journal.ts';
import { type Component, componentsOf } from '../restart/decide.ts';
import { lookForFormer, markFormer } from '../restart/former-files.ts';
import { markLoopback } from '../restart/loopback-restart.ts';
import { restartMarked, type RestartOutcome } from '../restart/host-restarts.ts';
import { createMarkingStore, Markers } from '../restart/markers.ts';
import {
  proveAll,
  type ProvingOptions,
  apiServerComponent,
  waitForApi,
  type WantedProof,
} from '../restart/pending-proofs.ts';
import { proveEtcdHere, proveQuorumWithoutUs, proveServedHere } from '../proof/prove.ts';
import { RenewalLease } from '../restart/renewal-lease.ts';
import type { Store } from '../store/store.ts';
import { connect } from './connections.ts';
import { isUnmet } from '../regen/unmet.ts';
import { type HostIdentity, nodeNameHere } from './host-identity.ts';
import type { Runtime } from './runtime.ts';

export interface HostRestarts {
  /** The files of this host; components whose files it replaces are marked for a restart. */
  readonly store: Store;
  /**
   * Taken before valid certificates are renewed; undefined where none are renewed ahead of time, or no API is known.
   */
  readonly renewalLease?: RenewalLease | undefined;
  /** Notes which files lie here now, before processes start that read them. Never rejects. */
  observe(): Promise<void>;
  /** Restarts the marked components, and components that have loaded a former file. */
  restart(report: RegenReport): Promise<readonly RestartOutcome[]>;
  /** One message for each restart that failed, and for each file whose use is not proven. */
  prove(outcomes: readonly RestartOutcome[], report: RegenReport): Promise<readonly string[]>;
  /** Gives the renewal Lease back when all has been proven and no renewal has failed. */
  returnLease(unproven: readonly string[], report: RegenReport): Promise<void>;
  /** notAfter of the certificate that kube-apiserver serves, when it is the one on disk. */
  servedNotAfter(): Promise<Date | undefined>;
}

/** `identity`: absent where no component of this host talks to an API server. */
export function createHostRestarts(
  mode: RegenConfig,
  disk: Store,
  { identity, ...runtime }: Runtime & { readonly identity: HostIdentity | undefined },
): HostRestarts {
  const { resolved, clock, log, signal } = runtime;
  const components = componentsOf(resolved);
  const onFailed = ({ code, message }: RecoveryError): void =>
    log.warn('restart.failed', { path: mode.lockDir, code, err: message });
  const state = new RunState(mode.lockDir);
  const notes = { state, onFailed };
  const markers = new Markers(notes);
  const lease = createRenewalLease(mode, identity, { store: disk, runtime, state });
  const observe = (): ReturnType<typeof lookForFormer> => lookForFormer({ components, resolved, state, clock }, 'keep');
  const proving = provingOptions(disk, components, runtime);
  const untilNews = runtime.news ? AbortSignal.any([signal, runtime.news]) : signal;
  return {
    store: createMarkingStore(disk, components, markers),
    renewalLease: mode.policy.ahead === undefined ? undefined : lease,
    async observe() {
      await observe();
    },
    async restart(report) {
      await markFormer(await observe(), { ...proving, markers });
      await markLoopback({ ...proving, markers, lease });
      const unmet = new Set(report.artefacts.filter(isUnmet).map(({ artefact }) => artefact));
      return restartMarked({
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
    },
    async prove(outcomes, { writes }) {
      const failures = outcomes.flatMap(({ failure }) => failure ?? []);
      // A component that could not be restarted must not wait for a proof once a minute.
      const isIdle = failures.length === outcomes.length && writes === 0;
      const fresh = isIdle ? [] : wantedOf(outcomes, clock.now());
      return [...failures, ...(await proveAll(fresh, notes, { ...proving, signal: untilNews }))];
    },
    async returnLease(unproven, { artefacts }) {
      // A certificate that cannot be renewed here is no fault of this renewal.
      const hasFailed = artefacts.some(({ action, outcome }) => action === 'renew' && outcome === 'failed');
      await lease?.settle(
        async () => unproven.length === 0 && !hasFailed && (await etcdProblem(proving)) === undefined,
      );
    },
    async servedNotAfter() {
      const served = await proveServedHere(0, proving);
      return served?.state === 'proven' ? served.servedNotAfter : undefined;
    },
  };
}

const etcdHealthMs = 30_000;
/** A member that is away for longer is not about to come back; the next run checks again. */
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
  readonly state: RunState;
}

/**
 * The renewal Lease for a run that restarts and proves: only such a run knows when it may be given back. Without
 * renewals ahead of time it is taken for a restart of kube-apiserver alone.
 */
function createRenewalLease(
  { restart }: RegenConfig,
  identity: HostIdentity | undefined,
  { store, runtime, state }: Renewing,
): RenewalLease | undefined {
  const { once, clock, log, signal } = runtime;
  if (!restart || !once || identity === undefined) return undefined;
  const holder = (): Promise<string> => nodeNameHere(store, runtime);
  return new RenewalLease({ withConnection: identity.asHost, holder, state, clock, log, signal });
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
