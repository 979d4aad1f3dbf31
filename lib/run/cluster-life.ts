// Validity period of certificates that are renewed on a host of kubeadm, as the ClusterConfiguration sets it. The run
// that restarts fetches it once a day, as its last step, and notes it next to the backups: the next run may start
// before there is an API.
import type { CommonConfig } from '../config/load.ts';
import type { RegenConfig } from '../config/mode-settings.ts';
import { isRecent } from '../clock.ts';
import { durationText, parseDuration } from '../duration.ts';
import { errorText, isCode, RecoveryError } from '../errors.ts';
import { RunState } from '../host/state.ts';
import {
  certificateValidity,
  kubeadmConfig,
  withCertificateValidity,
} from '../inventory/discover/certificate-validity.ts';
import type { Resolved } from '../inventory/model.ts';
import type { ConfigMap } from '../kube/kube.ts';
import { getIfPresent, objectPath } from '../kube/objects.ts';
import { type AsHost, unlessStarting } from './host-identity.ts';
import type { Runtime } from './runtime.ts';
import { nextCommand } from '../next-command.ts';

type Configured = Pick<CommonConfig, 'inventory' | 'lives'>;
type Places = Pick<RegenConfig, 'backupDir' | 'lockDir'>;

/**
 * Name of two notes: the validity period that was read (next to the backups), and the reason why the last read failed
 * (in the directory of the lock).
 */
export const lifeNote = 'certificate-validity';
/** State that outlasts a boot: the run before the kubelet has no API. */
const lifeIn = (backupDir: string): RunState => new RunState(backupDir, 'disk');
/** The ClusterConfiguration sets no validity period, so kubeadm's default counts. */
const silent = 'default';

const againMs = 24 * 3_600_000;
const afterFailureMs = 3_600_000;
const askMs = 3000;

/**
 * The inventory with the validity period noted last; without a note, and for artefacts that kubeadm did not make,
 * unchanged.
 */
export async function withNotedLife(
  resolved: Resolved,
  { inventory, lives, backupDir }: Configured & Pick<Places, 'backupDir'>,
): Promise<Resolved> {
  if (inventory.discover !== 'kubeadm') return resolved;
  const note = await lifeIn(backupDir).getText(lifeNote);
  return withCertificateValidity(resolved, parseDuration(note?.value ?? '') || undefined, lives);
}

/**
 * The inventory of a mode, likewise. Where no note exists, the validity period is fetched first, if `asHost` is given.
 * Never rejects.
 */
export async function withLifeOfCluster(mode: Places, runtime: Runtime, asHost: AsHost | undefined): Promise<Resolved> {
  if ((await lifeIn(mode.backupDir).getText(lifeNote)) === undefined) await askLife(mode, runtime, asHost);
  return withNotedLife(runtime.resolved, { ...runtime.config, ...mode });
}

/** Fetches the validity period for the next run, where that is due and `asHost` is given. Never rejects. */
export async function askLife(places: Places, runtime: Runtime, asHost: AsHost | undefined): Promise<void> {
  const { config, clock, log, signal } = runtime;
  const now = clock.now();
  if (asHost === undefined || config.inventory.discover !== 'kubeadm') return;
  const [life, state] = [lifeIn(places.backupDir), new RunState(places.lockDir)];
  const [heard, tried] = await Promise.all([life.getText(lifeNote), state.getText(lifeNote)]);
  if (isRecent(heard?.at, againMs, now) || isRecent(tried?.at, afterFailureMs, now)) return;
  try {
    const found = await asHost((connection) =>
      unlessStarting(
        () => getIfPresent<ConfigMap>({ connection, signal, timeoutMs: askMs }, objectPath(kubeadmConfig)),
        runtime,
      ),
    );
    const validity = certificateValidity(found?.data?.['ClusterConfiguration']);
    const told = validity === undefined ? silent : durationText(validity);
    await life.keep(lifeNote, told, now);
    if (told !== (heard?.value ?? silent))
      log.info('validity.changed', {
        message: `certificates live ${told}, as ConfigMap "kube-system/kubeadm-config" says`,
      });
  } catch (err) {
    const code = err instanceof RecoveryError ? err.code : 'unknown';
    await state.keep(lifeNote, code, now);
    if (!isCode(err, 'KubeForbidden') || tried?.value === code) return;
    const message = `the life of certificates in ConfigMap "kube-system/kubeadm-config" is not known: ${errorText(err)}; ${grant}`;
    log.warn('discovery.partial', { message });
  }
}

const grant = `grant the right with "${nextCommand('init host')}" on a control-plane node`;
