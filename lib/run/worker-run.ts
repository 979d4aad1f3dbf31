// The steps of a run on a worker, a node without the key of the CA. Silent while certificate and CA are valid; from
// then on every step is logged. The CA comes first: an expired CA cannot verify any API server.
import { steadyMs } from '../clock.ts';
import type { ToolConfig } from '../config/load.ts';
import { hintOf, realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { isCode, RecoveryError, systemCode } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { tokenAccount } from '../install/worker-host.ts';
import { nextCommand } from '../next-command.ts';
import { createMarkingStore, Markers } from '../restart/markers.ts';
import { createDiskStore } from '../store/disk-store.ts';
import type { Store } from '../store/store.ts';
import { kubeletFiles, type WorkerHost } from '../worker/kubelet-files.ts';
import { connect } from './connections.ts';
import { storeReports } from './runtime.ts';
import { type Step, takeSteps } from './steps.ts';

export interface WorkerMode extends Pick<WorkerHost, 'waitMs' | 'clock' | 'log' | 'signal'> {
  readonly config: ToolConfig;
  readonly tokenFile: string;
  /** Otherwise a kubelet that has read former content is left to a run that restarts it. */
  readonly restarts: boolean;
  /** Called with a sentence for each change that a dry run leaves out. */
  readonly announce: (sentence: string) => void;
}

interface WorkerRun extends WorkerMode, WorkerHost {
  readonly markers: Markers;
  readonly beganMs: number;
  /** The CA in kubelet.conf may verify no API server. */
  isShutOut: boolean;
}

const workerSteps: readonly Step<WorkerRun>[] = [
  {
    name: 'CA of the cluster',
    onFailure: 'defer',
    async run(run, signal) {
      const { followAuthority } = await import('../worker/follow.ts');
      run.isShutOut = true;
      const outcome = await followAuthority({ ...run, signal });
      run.isShutOut = false;
      if (outcome === 'due') run.announce('A CA of this worker ends: a later one would be asked for.');
    },
  },
  {
    name: 'client certificate of the kubelet',
    onFailure: 'defer',
    async run(run, signal) {
      const { clock, waitMs, beganMs } = run;
      const { renewWorker } = await import('../worker/renew.ts');
      const passedMs = 1000 * Math.floor((steadyMs(clock) - beganMs) / 1000);
      const left = { waitMs: Math.max(0, waitMs - passedMs), signal };
      try {
        const outcome = await renewWorker({ ...run, ...connectionsOf(run, signal), ...left });
        if (outcome === 'lost' || outcome === 'expired') run.announce(unrenewed[outcome]);
      } catch (err) {
        // Without a valid CA no API server can be verified: that is reported.
        if (!run.isShutOut || !isCode(err, 'KubeUnavailable')) throw err;
      }
    },
  },
  {
    name: 'restart of the kubelet',
    // Renewed files are put to use even when another step failed.
    when: ({ dryRun }) => !dryRun,
    onFailure: 'stop',
    async run(run, signal) {
      const { restartKubeletUnit } = await import('../restart/kubelet-unit.ts');
      await restartKubeletUnit({ ...run, signal });
    },
  },
];

const unrenewed = {
  lost: "The kubelet's client certificate is lost: an earlier one, which is valid, would be put back.",
  expired: "The kubelet's client certificate has expired: a new one would be asked for.",
} as const;

/** Rejects with the error of the first step that has failed; the others are logged. */
export async function runWorker(mode: WorkerMode): Promise<void> {
  const { config, clock, log } = mode;
  const { backupDir, lockDir, dryRun } = config;
  const files = kubeletFiles(config);
  const disk = createDiskStore({ backupDir, ...storeReports(backupDir, log) });
  const onFailed = ({ code, message: err }: RecoveryError): void =>
    log.warn('restart.failed', { path: lockDir, code, err });
  const markers = new Markers({ state: new RunState(lockDir), onFailed });
  const store = markingKubelet(disk, markers, files.kubeletConf);
  const run: WorkerRun = {
    ...mode,
    ...files,
    lockDir,
    dryRun,
    store,
    markers,
    beganMs: steadyMs(clock),
    isShutOut: false,
  };
  await takeSteps(workerSteps, run, mode);
}

/** A store that marks the kubelet at each write: the kubelet reads every file that this run writes at its start only. */
export const markingKubelet = (disk: Store, markers: Markers, file: string): Store => ({
  ...disk,
  write(location, next, seen, signal) {
    const kubelet = { name: 'kubelet', file, artefacts: [], locations: [location], isService: false } as const;
    return createMarkingStore(disk, [kubelet], markers).write(location, next, seen, signal);
  },
});

/** Connections by the token of this worker, and by an issued pair. */
function connectionsOf({ config, tokenFile, kubeletConf, clock, log }: WorkerRun, signal: AbortSignal) {
  const connecting = { config, clock, log, signal };
  return {
    connect: async () => {
      const account = await accountOf(tokenFile);
      return { connection: await connect(kubeletConf, { ...connecting, tokenFile }), account };
    },
    connectAs: async (clientCertificate: { readonly cert: Buffer; readonly key: Buffer }) => {
      const { readKubeconfig } = await import('../kubeconfig/credentials.ts');
      const { tlsServerNameOverride } = config;
      const server = await readKubeconfig(kubeletConf, { tokenFile, tlsServerNameOverride });
      return connect(kubeletConf, { ...connecting, credentials: { ...server, token: undefined, clientCertificate } });
    },
  };
}

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
