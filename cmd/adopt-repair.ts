// `init adopt --repair`: an adopted machine stays adopted. A timer runs it, so it is silent when nothing needs repair,
// and logs its actions.
import { join } from 'node:path';
import { machineLockDir } from '../lib/adopt/manifests-lock.ts';
import { podLayout } from '../lib/adopt/pod-files.ts';
import type { AdoptionRecord } from '../lib/adopt/record.ts';
import { runRepair } from '../lib/adopt/repair.ts';
import { parseRepairConfig } from '../lib/config/load.ts';
import { errorText, isCode, RecoveryError } from '../lib/errors.ts';
import { kubeconfigFile } from '../lib/install/layout.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import type { Problem } from '../lib/problems.ts';
import { poll } from '../lib/retry.ts';
import { connect, type Connecting, connectingOf } from '../lib/run/connections.ts';
import { exitCodes, exitOfError, exitOfFailure } from './exit-codes.ts';
import type { AdoptLine } from './init-adopt.ts';
import type { Io } from './io.ts';
import { configInput, installFlags, orKubeadm } from './read-config.ts';

/** Wait for an API server that has just restarted; an API server that is down waits for the next minute's run. */
const usualPatienceMs = 15_000;
const askAgainMs = 1000;
const answerMs = 5000;

export async function repairAdoptCommand({ image, ...line }: AdoptLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const all: Problem[] = [...problems];
  if (image !== undefined) {
    const message = 'must be left out: a repair adds what the last adoption did; adopt again for another image';
    all.push({ path: '--image', kind: 'conflict', message });
  }
  const config = parseRepairConfig({ ...configInput(orKubeadm(flags), io), problems: all });
  const connecting = connectingOf(config, io);
  const { directory } = options;
  const credentials = (record: AdoptionRecord): readonly string[] =>
    config.kubeconfig === undefined ? repairCredentials(record, directory) : [config.kubeconfig];
  try {
    const { failures } = await runRepair({
      ...connecting,
      directory,
      lockDir: machineLockDir,
      dryRun: config.dryRun,
      reach: (record) => reach(credentials(record), record, connecting),
    });
    return failures.length === 0 ? exitCodes.done : exitOfError(failures[0]);
  } catch (err) {
    return exitOfFailure(err, connecting.log);
  }
}

/** kubeadm's credential first: our containers do not mount it. It may be removed, or its CA a former one. */
export function repairCredentials({ kubernetesDir }: AdoptionRecord, directory: string): readonly string[] {
  return [join(kubernetesDir, 'admin.conf'), kubeconfigFile(podLayout(directory, 'kube-apiserver'), 'admin')];
}

interface Failure {
  readonly kubeconfig: string;
  readonly err: unknown;
}

/** Connection with the first credential that may read pods, else the errors. Tries each once. */
export async function connectFirst(
  kubeconfigs: readonly string[],
  { nodeName }: AdoptionRecord,
  connecting: Connecting,
): Promise<{ readonly connection: KubeConnection } | { readonly failures: readonly Failure[] }> {
  const { signal } = connecting;
  const path = `/api/v1/namespaces/kube-system/pods?fieldSelector=spec.nodeName%3D${nodeName}&limit=1`;
  const failures: Failure[] = [];
  for (const kubeconfig of kubeconfigs) {
    let connection: KubeConnection | undefined;
    try {
      connection = await connect(kubeconfig, connecting);
      await connection.request({ method: 'GET', path, timeoutMs: answerMs, signal });
      return { connection };
    } catch (err) {
      failures.push({ kubeconfig, err }); // the next one may be accepted, or the API server may answer in a moment
      await connection?.close();
    }
  }
  return { failures };
}

/** Connects with the first credential that may read pods; undefined: no API answers. Throws if each is refused. */
export async function reach(
  kubeconfigs: readonly string[],
  record: AdoptionRecord,
  connecting: Connecting,
  patienceMs = usualPatienceMs,
): Promise<KubeConnection | undefined> {
  const { clock, signal } = connecting;
  let failures: readonly Failure[] = [];
  // An API server that has just started may refuse valid credentials, so a refusal is not final before the timeout.
  const look = async (): Promise<KubeConnection | undefined> => {
    const tried = await connectFirst(kubeconfigs, record, connecting);
    if ('connection' in tried) return tried.connection;
    ({ failures } = tried);
    return undefined;
  };
  const found = await poll(look, { forMs: patienceMs, everyMs: askAgainMs, clock, signal });
  if (found !== undefined) return found;
  const answered = failures.find(({ err }) => !isAway(err) && !isCode(err, 'ConfigInvalid'));
  const [unreadable] = failures.some(({ err }) => isAway(err)) ? [] : failures;
  const refused = answered ?? unreadable;
  if (refused === undefined) return undefined;
  const { kubeconfig, err } = refused;
  const message = `Cannot repair static pods by kubeconfig "${kubeconfig}": ${errorText(err)}; name one that the API server knows (--kubeconfig), or mend this one`;
  throw new RecoveryError(err instanceof RecoveryError ? err.code : 'KubeUnavailable', message, { cause: err });
}

/** Whether no API server answered; an untrusted one did answer. */
function isAway(err: unknown): boolean {
  return isCode(err, 'KubeUnavailable', 'KubeWrongAnswer') && err.details['untrusted'] !== true;
}
