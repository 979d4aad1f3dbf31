// What follows a repair of this host's files: a store that notes what must be restarted, and after the pass the restarts
// and the proof that everything is in use. Notes are made by every pass; only one with --restart acts on them.
import type { RegenConfig } from '../lib/config-types.ts';
import { serverAddress } from '../lib/kube/server-address.ts';
import type { RegenReport } from '../lib/regen/journal.ts';
import { componentsOf } from '../lib/restart/component.ts';
import { createMarkingStore } from '../lib/restart/marking-store.ts';
import { Markers } from '../lib/restart/markers.ts';
import { bootId } from '../lib/restart/processes.ts';
import { proveRecovered, waitForApi, type ProvingOptions } from '../lib/restart/prove.ts';
import { restartReaders } from '../lib/restart/restart.ts';
import type { Store } from '../lib/store/store.ts';
import type { Shared } from './shared.ts';
import { isShort, type Shortfall } from './shortfalls.ts';
import { version } from './version.ts';

export interface Restarts {
  /** Of the files of this host. */
  readonly store: Store;
  finish(report: RegenReport): Promise<readonly Shortfall[]>;
}

export async function createRestarts(mode: RegenConfig, disk: Store, shared: Shared): Promise<Restarts> {
  const { resolved, clock, signal } = shared;
  const log = shared.log.with({ mode: 'regen' });
  const components = componentsOf(resolved);
  if (components.length === 0) return { store: disk, finish: () => Promise.resolve([]) };
  const boot = await bootId();
  const onFailed = ({ code, message }: { code: string; message: string }): void =>
    log.warn('restart.failed', { path: mode.lockDir, code, err: message });
  const markers = new Markers({ directory: mode.lockDir, onFailed });
  return {
    store: createMarkingStore({ store: disk, components, markers, boot }),
    async finish(report) {
      const proving = provingOptions(disk, shared);
      const short = new Set(report.artefacts.filter(isShort).map(({ artefact }) => artefact));
      const outcomes = await restartReaders({
        components,
        markers: await markers.load(boot),
        boot,
        isReady: (artefact) => !short.has(artefact),
        apiAnswers: () => waitForApi(proving),
        clock,
        log,
        signal,
      });
      const failures = outcomes.flatMap(({ failure }) => failure ?? []);
      // Nothing has changed that could be proven: what could not be restarted must not wait for that once a minute.
      const isIdle = failures.length === outcomes.length && report.writes === 0;
      const unproven = isIdle ? [] : await proveRecovered(outcomes, proving);
      return [...failures, ...unproven].map((message) => ({ message }));
    },
  };
}

function provingOptions(store: Store, { config, resolved, hostName, clock, log, signal }: Shared): ProvingOptions {
  return {
    resolved,
    store,
    apiServer: apiServerOf(config.apiServerAddress, resolved.endpoints?.local),
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

function apiServerOf(
  configured: Shared['config']['apiServerAddress'],
  local: string | undefined,
): ProvingOptions['apiServer'] {
  const url = local === undefined ? null : URL.parse(local);
  const found = url === null ? undefined : serverAddress(url);
  const host = configured?.host ?? found?.host;
  return host === undefined ? undefined : { host, port: configured?.port ?? found?.port ?? 443 };
}
