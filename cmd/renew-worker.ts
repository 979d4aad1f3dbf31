// `renew-worker`: the command in the units of a worker. Silent while certificate and CA are valid; from then on every
// step is logged. The CA comes first: an expired CA cannot verify any API server.
import { join, resolve } from 'node:path';
import { steadyMs, systemClock } from '../lib/clock.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { hintOf, realDisk } from '../lib/disk/disk.ts';
import { readRegularFile } from '../lib/disk/files.ts';
import { parseDuration } from '../lib/duration.ts';
import { defaultDirectory, hostLayout, workerTokenFile as usualTokenFile } from '../lib/install/layout.ts';
import { allDirectories } from '../lib/inventory/located.ts';
import { isCode, RecoveryError, systemCode } from '../lib/errors.ts';
import { createLog } from '../lib/log.ts';
import { type Problem, valueText } from '../lib/problems.ts';
import { version } from '../lib/program.ts';
import { createDiskStore } from '../lib/store/disk-store.ts';
import { connect } from '../lib/run/connections.ts';
import { exitCodes, exitOfFailure } from './exit-codes.ts';
import { type CommandLine, configInput, orKubeadm } from './read-config.ts';
import type { Io } from './io.ts';
import { nextCommand } from '../lib/next-command.ts';
import { tokenAccount } from '../lib/install/worker-host.ts';

type RenewLine = CommandLine & FlagsOf<'renew-worker'>;

const defaultWait = '40s';

/**
 * Account of the token, where readable. Throws ConfigInvalid, which explains where a token comes from: the connection
 * would only name the field of kubelet.conf.
 */
async function accountOf(path: string): Promise<string | undefined> {
  const text = await readRegularFile(realDisk, path).catch(systemCode);
  const problem = Buffer.isBuffer(text) ? (text.toString().trim() === '' ? 'is empty' : undefined) : hintOf(text ?? '');
  if (Buffer.isBuffer(text) && problem === undefined) return tokenAccount(text.toString().trim());
  const message = `Cannot ask for a certificate: the token of this worker, "${path}": ${problem}; run here what "${nextCommand('init workers')}" prints on a control-plane node`;
  throw new RecoveryError('ConfigInvalid', message);
}

export async function renewWorkerCommand(
  { workerTokenFile, wait = defaultWait, restartKubelet: restarts = false, ...line }: RenewLine,
  io: Io,
): Promise<number> {
  const waitMs = parseDuration(wait);
  const message = `must be a duration such as 40s or 5m, got ${valueText(wait)}`;
  const problems: Problem[] = waitMs === undefined ? [{ path: '--wait', kind: 'invalid', message }] : [];
  const config = parseToolConfig({ ...configInput(orKubeadm(line), io), problems });
  const { backupDir, lockDir, dryRun } = config;
  const {
    kubernetesDir = '',
    pkiDir = '',
    kubeletDir = '',
  } = allDirectories(config.inventory, config.environment.directories ?? {});
  const tokenFile = resolve(io.cwd, workerTokenFile ?? usualTokenFile(hostLayout(defaultDirectory)));
  const kubeletConf = join(kubernetesDir, 'kubelet.conf');
  const { signal } = io;
  const log = createLog({ ...config.log, write: (entry) => void io.stderr.write(entry) });
  const { renewWorker } = await import('../lib/worker/renew.ts');
  const { followAuthority } = await import('../lib/worker/follow.ts');
  const { readKubeconfig } = await import('../lib/kubeconfig/credentials.ts');
  const { restartNoted } = await import('../lib/worker/kubelet-restart.ts');
  const store = createDiskStore({
    backupDir,
    onBackupFailed: ({ code, message: err }) => log.warn('backup.failed', { path: backupDir, code, err }),
    onAttributesLost: ({ code, message: err }) => log.warn('attributes.lost', { code, err }),
  });
  const shared = { kubeletConf, store, lockDir, dryRun, clock: systemClock, log, signal };
  const began = steadyMs(systemClock);
  const failures: unknown[] = [];
  const failed = (err: unknown): void => void failures.push(err);
  const authority = await followAuthority({
    ...shared,
    kubeletConfig: join(kubeletDir, 'config.yaml'),
    usualAuthority: join(pkiDir, 'ca.crt'),
    userAgent: `kube-cert-recovery/${version}`,
    waitMs: waitMs ?? 0,
  }).catch(failed);
  if (authority === 'due') io.stdout.write('A CA of this worker ends: a later one would be asked for.\n');
  const outcome = await renewWorker({
    ...shared,
    connect: async () => {
      const account = await accountOf(tokenFile);
      const connection = await connect(kubeletConf, { config, tokenFile, clock: systemClock, log, signal });
      return { connection, account };
    },
    connectAs: async (clientCertificate) => {
      const { tlsServerNameOverride } = config;
      const server = await readKubeconfig(kubeletConf, { tokenFile, tlsServerNameOverride });
      const credentials = { ...server, token: undefined, clientCertificate };
      return connect(kubeletConf, { config, credentials, clock: systemClock, log, signal });
    },
    waitMs: Math.max(0, (waitMs ?? 0) - 1000 * Math.floor((steadyMs(systemClock) - began) / 1000)),
  }).catch((err: unknown) => {
    // Without a valid CA no API server can be verified: that was reported.
    if (failures.length === 0 || !isCode(err, 'KubeUnavailable')) failed(err);
  });
  if (outcome === 'lost')
    io.stdout.write("The kubelet's client certificate is lost: an earlier one, which is valid, would be put back.\n");
  if (outcome === 'expired')
    io.stdout.write("The kubelet's client certificate has expired: a new one would be asked for.\n");
  // Renewed files are put to use even when another step failed.
  const hasWritten = outcome === 'renewed' || authority === 'followed';
  if (!dryRun) await restartNoted({ restarts, hasWritten, lockDir, log, signal });
  return failures.map((err) => exitOfFailure(err, log))[0] ?? exitCodes.done;
}
