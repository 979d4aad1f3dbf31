// What follows a repair of this host's files: a store that notes what must be restarted, and after the pass the restarts
// and the proof that everything is in use. Notes are made by every pass; only one with --restart acts on them.
import type { RegenConfig } from '../lib/config/config.ts';
import type { RecoveryError } from '../lib/errors.ts';
import { serverAddress } from '../lib/kube/server-address.ts';
import type { RegenReport } from '../lib/regen/journal.ts';
import { type Component, componentsOf } from '../lib/restart/component.ts';
import { createMarkingStore } from '../lib/restart/marking-store.ts';
import { Markers } from '../lib/restart/markers.ts';
import { bootId } from '../lib/restart/processes.ts';
import { proveUse, servingName, waitForApi, type ProvingOptions, type Wanted } from '../lib/restart/prove.ts';
import { restartReaders, type RestartOutcome } from '../lib/restart/restart.ts';
import { isDue, loadUnproven, saveUnproven, type Unproven } from '../lib/restart/unproven.ts';
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
      // What could not be restarted must not wait for a proof once a minute.
      const isIdle = failures.length === outcomes.length && report.writes === 0;
      const fresh = isIdle ? [] : wantedOf(outcomes, clock.now());
      const notes = { directory: mode.lockDir, boot, onFailed, components };
      const unproven = await proveAll(fresh, notes, proving);
      return [...failures, ...unproven].map((message) => ({ message }));
    },
  };
}

function wantedOf(outcomes: readonly RestartOutcome[], now: Date): readonly Wanted[] {
  const restarted = outcomes.flatMap(({ component, since, failure }) =>
    failure === undefined ? [{ name: component.name, component, since }] : [],
  );
  return [{ name: servingName, since: now }, ...restarted];
}

interface Notes {
  readonly directory: string;
  readonly boot: string;
  readonly onFailed: (err: RecoveryError) => void;
  readonly components: readonly Component[];
}

/** Of what was proven to nobody before the pass fails until it is, although it is asked for ever rarer. */
const askAgainMs = 10_000;

/** What was not proven, one sentence each: by this pass, or by an earlier one that need not be asked again yet. */
export async function proveAll(
  fresh: readonly Wanted[],
  { directory, boot, onFailed, components }: Notes,
  proving: ProvingOptions,
): Promise<readonly string[]> {
  const now = proving.clock.now();
  const before = await loadUnproven(directory, boot);
  const others = before.filter(({ name }) => !fresh.some((one) => one.name === name));
  const [due, later] = [others.filter((one) => isDue(one, now)), others.filter((one) => !isDue(one, now))];
  const again = due.flatMap(({ name, since }): Wanted[] => {
    const component = components.find((one) => one.name === name);
    if (component === undefined && name !== servingName) return [];
    return [{ name, since, ...(component !== undefined && { component }), patienceMs: askAgainMs }];
  });
  const attempts = (name: string): number => (before.find((one) => one.name === name)?.attempts ?? 0) + 1;
  const noted = ({ name, since }: Wanted, message: string): Unproven => ({
    name,
    since,
    message,
    askedAt: now,
    attempts: attempts(name),
  });
  const wanted = [...fresh, ...again];
  const save = (unproven: readonly Unproven[]): Promise<void> => saveUnproven(directory, { boot, unproven, onFailed });
  // Before it is asked: a pass that is ended meanwhile has proven nothing.
  await save([...later, ...wanted.map((one) => noted(one, `${one.name}: its use has not been proven yet`))]);
  const failed = await proveUse(wanted, proving);
  const unproven = [...later, ...failed.map(({ wanted: one, message }) => noted(one, message))];
  await save(unproven);
  return unproven.map(({ message }) => message);
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
