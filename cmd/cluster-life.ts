// How long certificates live that are renewed on a host of kubeadm: as long as the cluster says. The run that restarts asks
// the API server once a day and notes what it has heard beside the backups, for those that come before there is one.
import { readFile, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { CommonConfig } from '../lib/config/load.ts';
import type { RegenConfig } from '../lib/config/mode-settings.ts';
import { ensurePrivateDirectory, replaceFile } from '../lib/disk/files.ts';
import { durationText, parseDuration } from '../lib/duration.ts';
import { errorText, isCode, RecoveryError } from '../lib/errors.ts';
import {
  certificateValidity,
  kubeadmConfig,
  withCertificateValidity,
} from '../lib/inventory/discover/certificate-validity.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import type { ConfigMap } from '../lib/kube/kube.ts';
import { getIfPresent, objectPath } from '../lib/kube/objects.ts';
import type { AsHost } from './host-identity.ts';
import type { Runtime } from './runtime.ts';

type Configured = Pick<CommonConfig, 'inventory' | 'lives'>;
type Places = Pick<RegenConfig, 'backupDir' | 'lockDir'>;

const noteIn = ({ backupDir }: Pick<Places, 'backupDir'>): string => join(backupDir, 'certificate-validity');
const triedIn = ({ lockDir }: Places): string => join(lockDir, 'certificate-validity');
/** The cluster says nothing, so kubeadm's default counts. */
const silent = 'default';

const againMs = 24 * 3_600_000;
const afterFailureMs = 3_600_000;
const askMs = 3000;

/** With what was heard last; without it, and on what kubeadm did not make, as the inventory says. */
export async function withNotedLife(
  resolved: Resolved,
  { inventory, lives, ...places }: Configured & Pick<Places, 'backupDir'>,
): Promise<Resolved> {
  if (inventory.discover !== 'kubeadm') return resolved;
  const noted = await readFile(noteIn(places), 'utf8').catch(() => '');
  return withCertificateValidity(resolved, parseDuration(noted.trim()) || undefined, lives);
}

/** The same for a mode, which asks first where that is due and `asHost` is given. Never rejects. */
export async function withLifeOfCluster(mode: Places, runtime: Runtime, asHost: AsHost | undefined): Promise<Resolved> {
  const { resolved, config, clock } = runtime;
  if (asHost !== undefined && config.inventory.discover === 'kubeadm') {
    const now = clock.now();
    const isDue = (await isOld(noteIn(mode), againMs, now)) && (await isOld(triedIn(mode), afterFailureMs, now));
    if (isDue) await ask(asHost, mode, runtime);
  }
  return withNotedLife(resolved, { ...config, ...mode });
}

/** Also what is not there, or lies in the future. */
const isOld = (path: string, ageMs: number, now: Date): Promise<boolean> =>
  stat(path).then(
    ({ mtimeMs }) => mtimeMs > now.getTime() + 60_000 || now.getTime() - mtimeMs >= ageMs,
    () => true,
  );

async function ask(asHost: AsHost, places: Places, { clock, log, signal }: Runtime): Promise<void> {
  const note = async (path: string, directory: string, content: string): Promise<void> => {
    await ensurePrivateDirectory(directory);
    await replaceFile({ path, content, mode: 0o600, what: 'note' });
    await utimes(path, clock.now(), clock.now()); // also where it says the same as before
  };
  try {
    const found = await asHost((connection) =>
      getIfPresent<ConfigMap>({ connection, signal, timeoutMs: askMs }, objectPath(kubeadmConfig)),
    );
    const validity = certificateValidity(found?.data?.['ClusterConfiguration']);
    const told = validity === undefined ? silent : durationText(validity);
    const before = (await readFile(noteIn(places), 'utf8').catch(() => silent)).trim();
    await note(noteIn(places), places.backupDir, `${told}\n`);
    if (told !== before)
      log.info('life.followed', {
        message: `certificates live ${told}, as ConfigMap "kube-system/kubeadm-config" says`,
      });
  } catch (err) {
    const before = await readFile(triedIn(places), 'utf8').catch(() => '');
    const code = err instanceof RecoveryError ? err.code : 'unknown';
    await note(triedIn(places), places.lockDir, code).catch(() => undefined);
    if (!isCode(err, 'KubeForbidden') || before === code) return;
    const message = `the life of certificates in ConfigMap "kube-system/kubeadm-config" is not known: ${errorText(err)}; ${grant}`;
    log.warn('discovery.partial', { message });
  }
}

const grant = 'grant the right with "kube-cert-recovery init host" and the kubeconfig of an administrator';
