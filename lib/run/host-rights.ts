// Rights of a control-plane host in the API: granted by `init host` as an administrator, and where that was not
// possible, or another client has removed them, by a run of the timer, which is root and can read kubeadm's admin.conf.
import { join } from 'node:path';
import { isRecent } from '../clock.ts';
import type { ToolConfig } from '../config/load.ts';
import type { RegenConfig } from '../config/mode-settings.ts';
import { errorText, isCode, RecoveryError } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { applyManifests } from '../install/apply.ts';
import { missingRights } from '../install/missing-rights.ts';
import { allDirectories } from '../inventory/places.ts';
import { nextCommand } from '../next-command.ts';
import type { Store } from '../store/store.ts';
import { hostsGroup, hostUser } from '../well-known.ts';
import { lifeNote } from './cluster-life.ts';
import { type AsHost, hostIdentity, type HostLook, nodeNameHere, unlessStarting } from './host-identity.ts';
import { hostManifests } from '../install/rbac.ts';
import type { HostGrant } from '../install/rules.ts';
import { withConnection } from './connections.ts';
import type { Runtime } from './runtime.ts';

export const grantOf = ({ inventory, policy }: Pick<ToolConfig, 'inventory' | 'policy'>): HostGrant => ({
  inventory,
  renewsAhead: policy.ahead !== undefined,
});

interface RightsLook {
  readonly grant: HostGrant;
  readonly asHost: AsHost;
  readonly signal: AbortSignal;
}

const askMs = 3000;

const askMissing = ({ grant, asHost, signal }: RightsLook): Promise<readonly string[]> =>
  asHost((connection) => missingRights(grant, { connection, signal, timeoutMs: askMs }));

/** Missing rights, once an API server that has just started has loaded its RBAC. */
async function settledMissing(look: RightsLook & Pick<HostLook, 'clock'>): Promise<readonly string[]> {
  let missing: readonly string[] = [];
  const ask = async (): Promise<void> => {
    missing = await askMissing(look);
    if (missing.length > 0) throw new RecoveryError('KubeForbidden', missing.join('; '));
  };
  await unlessStarting(ask, look).catch((err: unknown) => {
    if (missing.length === 0) throw err;
  });
  return missing;
}

const noteName = 'rights';
const againMs = 24 * 3_600_000;
const afterFailureMs = 3_600_000;

/** Checks once a day and boot, and once an hour while some are missing. Never rejects: no repair needs these rights. */
export async function keepRights(
  { lockDir, policy }: Pick<RegenConfig, 'lockDir' | 'policy'>,
  runtime: Runtime,
  asHost: AsHost,
): Promise<void> {
  const { config, clock, log, signal } = runtime;
  const now = clock.now();
  const state = new RunState(lockDir);
  const note = await state.getText(noteName);
  const grant = grantOf({ inventory: config.inventory, policy });
  const granted = grant.renewsAhead ? 'granted, with renewal' : 'granted';
  const isOfKubeadm = config.inventory.discover === 'kubeadm';
  const waitMs = note?.value === granted ? againMs : afterFailureMs;
  if (!isOfKubeadm || isRecent(note?.at, waitMs, now)) return;
  const kubeconfig = administratorOf(config);
  try {
    const missing = await settledMissing({ grant, asHost, signal, clock });
    if (missing.length > 0) {
      const how = `by "${kubeconfig}": ${missing.join('; ')}`;
      await unlessStarting(() => grantAs(kubeconfig, grant, runtime), runtime).catch((err: unknown) => {
        if (isCode(err, 'KubeUnavailable')) throw err;
        throw new RecoveryError('KubeForbidden', `cannot be granted ${how} (${errorText(err)}); ${advice}`);
      });
      log.info('rights.granted', { message: `granted ${how}` });
      // The next run fetches the validity period again.
      await state.forget(lifeNote);
    }
    await state.keep(noteName, granted, now);
  } catch (err) {
    if (isCode(err, 'KubeUnavailable') || signal.aborted) return; // the next run checks again
    const text = errorText(err);
    // Where no identity can be signed, as with an external CA, no request reached the API.
    const isOfApi = isCode(err, 'KubeForbidden', 'KubeUnauthorized', 'KubeRejected', 'KubeConflict');
    if (isOfApi && note?.value !== text) log.warn('rights.missing', { message: text });
    await state.keep(noteName, text, now);
  }
}

const advice = `run "${nextCommand('init host')}" with KUBECONFIG of an administrator`;

export const administratorOf = ({ inventory, environment }: Pick<ToolConfig, 'inventory' | 'environment'>): string =>
  join(allDirectories(inventory, environment.directories ?? {})['kubernetesDir'] ?? '', 'admin.conf');

function grantAs(kubeconfig: string, grant: HostGrant, { clock, log, signal }: HostLook): Promise<void> {
  const connecting = { config: {}, clock, log, signal };
  const print = (): void => undefined;
  return withConnection(kubeconfig, connecting, (connection) =>
    applyManifests({ connection, signal }, hostManifests(grant), print),
  );
}

/**
 * Missing rights, as a sentence for `status`; undefined where none are missing, or the API cannot be read. Never
 * rejects.
 */
export async function rightsNote(config: ToolConfig, store: Store, look: HostLook): Promise<string | undefined> {
  if (config.inventory.discover !== 'kubeadm') return undefined;
  const identity = hostIdentity(store, look);
  if (identity === undefined) return undefined;
  const { asHost } = identity;
  const missing = await askMissing({ grant: grantOf(config), asHost, signal: look.signal }).catch(() => []);
  if (missing.length === 0) return undefined;
  const who = hostUser(await nodeNameHere(store, look));
  return (
    `this host (user ${who}, group ${hostsGroup}) lacks rights in the API: ${missing.join('; ')}. The timer's run ` +
    `grants them by "${administratorOf(config)}"; without it ${advice}`
  );
}
