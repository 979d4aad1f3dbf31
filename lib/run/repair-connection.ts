// The API server that is asked to repair an adopted machine: by which credential, and for how long it is waited for.
import { join } from 'node:path';
import { podLayout } from '../adopt/pod-files.ts';
import type { AdoptionRecord } from '../adopt/record.ts';
import { errorText, isCode, RecoveryError } from '../errors.ts';
import { kubeconfigFile } from '../install/layout.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { poll } from '../retry.ts';
import { connect, type Connecting } from './connections.ts';

/** Wait for an API server that has just restarted; an API server that is down waits for the next minute's run. */
const usualPatienceMs = 15_000;
const askAgainMs = 1000;
const answerMs = 5000;

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
