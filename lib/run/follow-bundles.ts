// The CAs of every node (preset node-ca) on a machine with the units of `init host`: where the cluster grants it, a run of
// the timer ends in a run of that preset, which asks as the kubelet of this machine. It is the last step, and begins once
// the API server has answered: nothing waits for one, and without one no file changes.
import { existsSync } from 'node:fs';
import type { RegenConfig } from '../config/mode-settings.ts';
import { errorFields } from '../errors.ts';
import { Health } from '../health.ts';
import { RunState } from '../host/state.ts';
import { mayDo } from '../install/missing-rights.ts';
import { followVerb } from '../install/rules.ts';
import { discoverEnvironment } from '../inventory/discover/discover.ts';
import type { Resolved } from '../inventory/model.ts';
import { isObject } from '../inventory/places.ts';
import { withPreset } from '../inventory/preset.ts';
import { resolve } from '../inventory/resolve.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Log } from '../log.ts';
import { noMetrics } from '../metrics.ts';
import type { UnmetCondition } from '../regen/unmet.ts';
import { filesPatienceMs } from '../regen/waits.ts';
import { locationText } from '../store/store.ts';
import { credentialOfKubelet } from './as-kubelet.ts';
import { withConnection } from './connections.ts';
import type { Connected, Runtime } from './runtime.ts';

type TakeRun = (mode: RegenConfig, runtime: Connected) => Promise<readonly UnmetCondition[]>;

/** Most clusters have no such ConfigMap: a machine asks once an hour. */
const pace = { againMs: 3_600_000, afterFailureMs: 30_000 };
const askMs = 5000;

/** Returns what that run has left undone. Rejects with the error of a step that stops it. */
export async function followBundles(
  mode: RegenConfig,
  runtime: Runtime,
  takeRun: TakeRun,
): Promise<readonly UnmetCondition[]> {
  const { clock, log, signal } = runtime;
  const config = withPreset(runtime.config, 'node-ca', { namespace: runtime.config.namespace });
  const input = config.inventory.artefacts.map(({ location }) => location).find(isObject);
  if (input === undefined) return [];
  const { key: _ofOne, ...source } = input;
  const { namespace, name } = source;
  const right = { namespace, group: '', resource: 'configmaps', name, verb: followVerb };
  const asking: Asking = { what: locationText(source), state: new RunState(mode.lockDir), runtime };
  let isFollowing = false;
  let unmet: readonly UnmetCondition[] = [];
  const askAndFollow = async (connection: KubeConnection, kubeconfig: string, resolved: Resolved) => {
    if (!(await mayDo(right, { connection, signal, timeoutMs: askMs }))) return refused(asking);
    await granted(asking);
    isFollowing = true;
    const files = { ...mode, ...alreadyReported, kubeconfig, locations: 'all', sources: {}, deliveries: {} } as const;
    const own = { config, resolved, connection, log: withoutAnswers(log), health: new Health(), ...asLaterRun };
    unmet = await takeRun({ ...files, machine: undefined }, { ...runtime, ...own });
    return 'open';
  };
  await asking.state.whenDue('node-ca', asking.what, { ...pace, clock }, async () => {
    const { environment } = await discoverEnvironment(config.inventory, config.environment);
    const resolved = resolve(config.inventory, environment);
    const kubeconfig = credentialOfKubelet({ resolved });
    if (kubeconfig === undefined || !existsSync(kubeconfig)) return 'open'; // no node
    try {
      return await withConnection(kubeconfig, { config: { once: true }, clock, log, signal }, (connection) =>
        askAndFollow(connection, kubeconfig, resolved),
      );
    } catch (err) {
      if (isFollowing || signal.aborted) throw err;
      return unread(asking, err);
    }
  });
  return unmet;
}

/** The run before has written the file of metrics, and warned of what expires. */
const alreadyReported = { metricsFile: undefined, warnBefore: Number.NEGATIVE_INFINITY };

/** A run of each minute would record the same Events again. Both inventories have entries of the same names. */
const asLaterRun = {
  events: { record: () => undefined, flush: () => Promise.resolve(0) },
  metrics: noMetrics,
  // The next run of the timer, which repairs, waits for the end of this one.
  apiPatienceMs: filesPatienceMs,
};

/** An API server that answers each minute is no news. */
const withoutAnswers = (log: Log): Log => ({
  ...log,
  info: (event, fields) => log[event === 'api.answered' ? 'debug' : 'info'](event, fields),
});

interface Asking {
  readonly what: string;
  readonly state: RunState;
  readonly runtime: Runtime;
}

/** Note that the right was granted in this boot: from then on it is a problem that it cannot be used. */
const grantedNote = 'node-ca-granted';

async function granted({ state, what }: Asking): Promise<void> {
  if ((await state.getText(grantedNote)) === undefined) await state.keep(grantedNote, what);
}

async function refused({ state, what, runtime: { clock, log } }: Asking): Promise<'done' | 'failed'> {
  // An API server that is starting refuses what it allows a second later: the next run asks once more.
  if (await state.isNews('node-ca-refused', what, clock.now())) return 'failed';
  if ((await state.getText(grantedNote)) !== undefined) {
    const err = `Cannot follow ${what}: the right to ${followVerb} it was taken away; the files stay as they are`;
    log.warn('bundles.failed', { err, code: 'KubeForbidden' });
    await state.forget(grantedNote);
  }
  return 'done';
}

async function unread({ state, runtime: { clock, log } }: Asking, cause: unknown): Promise<'failed'> {
  const fields = errorFields(cause);
  const isProblem = (await state.getText(grantedNote)) !== undefined;
  if (isProblem && (await state.isNews('node-ca-failure', fields.err, clock.now()))) log.warn('bundles.failed', fields);
  return 'failed';
}
