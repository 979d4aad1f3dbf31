// What a host of the control plane may ask of the API: granted by `init host` as an administrator, and where that was not
// possible, or somebody has removed it, by a run of the timer, which is root and has kubeadm's administrator before it.
import { basename, join } from 'node:path';
import { isRecent } from '../lib/clock.ts';
import type { ToolConfig } from '../lib/config/load.ts';
import type { RegenConfig } from '../lib/config/mode-settings.ts';
import { errorText, isCode, RecoveryError } from '../lib/errors.ts';
import { forgetNote, readNote, writeNote } from '../lib/host/notes.ts';
import { applyManifests } from '../lib/install/apply.ts';
import { missingRights } from '../lib/install/missing-rights.ts';
import { allDirectories } from '../lib/inventory/located.ts';
import { nextCommand } from '../lib/next-command.ts';
import type { Store } from '../lib/store/store.ts';
import { hostsGroup, hostUser } from '../lib/well-known.ts';
import { lifeNote } from './cluster-life.ts';
import { type AsHost, hostIdentity, type HostLook, nodeNameHere, unlessStarting } from './host-identity.ts';
import { hostManifests } from '../lib/install/rbac.ts';
import type { HostGrant } from '../lib/install/rules.ts';
import { clusterInfoText } from '../lib/kube/cluster-info.ts';
import { leaseText } from '../lib/kube/leases.ts';
import { renewalLease } from '../lib/restart/machine-lease.ts';
import { connectingOf, withConnection } from './connections.ts';
import { administrator } from './read-config.ts';
import type { Io, Runtime } from './runtime.ts';

export const grantOf = ({ inventory, policy }: Pick<ToolConfig, 'inventory' | 'policy'>): HostGrant => ({
  inventory,
  renewsAhead: policy.ahead !== undefined,
});

/**
 * What a host asks of the API: none of it is needed for a repair, so a cluster that is away now does not keep the units from
 * being written.
 */
export async function grantRights(config: ToolConfig, io: Io): Promise<void> {
  const grant = grantOf(config);
  const manifests = hostManifests(grant);
  if (manifests.length === 0) return;
  const kubeconfig = config.kubeconfig ?? administratorOf(config);
  const print = (line: string): void => void io.stdout.write(`${line}\n`);
  try {
    await withConnection(kubeconfig, connectingOf(config, io), (connection) =>
      applyManifests({ connection, signal: io.signal }, manifests, print),
    );
  } catch (err) {
    const lease = grant.renewsAhead ? `take ${leaseText(renewalLease)}, ` : '';
    const without = grant.renewsAhead ? 'control-plane nodes wait until a tenth of --renew-before is left, ' : '';
    io.stderr.write(
      `The right of this host to ${lease}release its stale leader Leases, to read kubeadm's configuration and\n` +
        `to write ${clusterInfoText} is not granted:\n` +
        `${errorText(err)}.\nUntil it is, ${without}a control plane waits for stale Leases after a boot,\n` +
        'certificates live a year whatever kubeadm says, and workers and new nodes get no CA that was renewed here. A run of\n' +
        `the timer grants it by "${administratorOf(config)}" when the API server answers; "${nextCommand('status')}" says\n` +
        'whether that was so. By another administrator: set KUBECONFIG, and run this again.\n',
    );
  }
}

interface RightsLook {
  readonly grant: HostGrant;
  readonly asHost: AsHost;
  readonly signal: AbortSignal;
}

const askMs = 3000;

const askMissing = ({ grant, asHost, signal }: RightsLook): Promise<readonly string[]> =>
  asHost((connection) => missingRights(grant, { connection, signal, timeoutMs: askMs }));

/** The same once an API server that has just started knows what it allows. */
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

/** Asked once a day and boot, and once an hour while some are missing. Never rejects: no repair needs them. */
export async function keepRights(
  { lockDir, policy }: Pick<RegenConfig, 'lockDir' | 'policy'>,
  runtime: Runtime,
  asHost: AsHost,
): Promise<void> {
  const { config, clock, log, signal } = runtime;
  const now = clock.now();
  const note = await readNote(lockDir, noteName);
  const grant = grantOf({ inventory: config.inventory, policy });
  const granted = grant.renewsAhead ? 'granted, with renewal' : 'granted';
  const isOfKubeadm = config.inventory.discover === 'kubeadm';
  const waitMs = note?.text === granted ? againMs : afterFailureMs;
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
      // What was refused is asked for at once.
      await forgetNote(lockDir, lifeNote);
    }
    await writeNote(lockDir, noteName, granted, now);
  } catch (err) {
    if (isCode(err, 'KubeUnavailable') || signal.aborted) return; // the next run asks
    const text = errorText(err);
    // Where no identity can be signed, as with an external CA, nothing is asked of the API at all.
    const isOfApi = isCode(err, 'KubeForbidden', 'KubeUnauthorized', 'KubeRejected', 'KubeConflict');
    if (isOfApi && note?.text !== text) log.warn('rights.missing', { message: text });
    await writeNote(lockDir, noteName, text, now);
  }
}

const advice = `run "${nextCommand('init host')}" with KUBECONFIG of an administrator`;

const administratorOf = ({ inventory, environment }: Pick<ToolConfig, 'inventory' | 'environment'>): string =>
  join(allDirectories(inventory, environment.directories ?? {})['kubernetesDir'] ?? '', basename(administrator));

function grantAs(kubeconfig: string, grant: HostGrant, { clock, log, signal }: HostLook): Promise<void> {
  const connecting = { config: {}, clock, log, signal };
  const print = (): void => undefined;
  return withConnection(kubeconfig, connecting, (connection) =>
    applyManifests({ connection, signal }, hostManifests(grant), print),
  );
}

/** For `status`: what is missing, as a sentence; undefined where nothing is, or where it cannot be asked. Never rejects. */
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
