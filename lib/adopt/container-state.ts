// State of the containers of an adopted machine: whether the API shows each running, whether it reports ready itself,
// and whether its tokens are still accepted. A pod may be Running and all certificates valid for weeks while nothing
// would renew them.
import { get } from 'node:http';
import { join } from 'node:path';
import { bounds } from '../bounds.ts';
import { getIfPresent, objectPath } from '../kube/objects.ts';
import { errorText, isCode } from '../errors.ts';
import type { StaticPod } from '../components.ts';
import { podContainers } from '../install/accounts.ts';
import { type Api } from '../install/apply.ts';
import { namesIn } from '../install/existing-files.ts';
import { digestAnnotation } from '../install/install-record.ts';
import { readBy } from '../inventory/component-view.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { isFile, isObject } from '../inventory/places.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Pod } from '../kube/received.ts';
import type { AdoptionRecord } from './record.ts';
import { containerName } from '../install/own-container.ts';
import { digestOf, type PodAddition, type PodManifest } from './static-pods.ts';
import { adoptAgain } from './adopt-again.ts';

/** `wrong`: needs the administrator. `waiting`: runs but is not ready, which may pass. */
interface ContainerState {
  readonly state: 'ready' | 'waiting' | 'wrong' | 'unknown';
  /** One sentence: why it is not ready. */
  readonly message: string;
}

interface PodState extends ContainerState {
  readonly pod: string;
}

interface AdoptedLook {
  readonly record: AdoptionRecord;
  readonly resolved: Resolved;
  /** Connection that may get pods, or the reason why there is none. */
  readonly pods: KubeConnection | { readonly problem: string };
  /** Connects with a kubeconfig of our containers. */
  readonly connect: (kubeconfig: string) => Promise<KubeConnection>;
  readonly signal: AbortSignal;
}

/** One state for each static pod, in their order. Never rejects. */
export function lookAtPods(look: AdoptedLook): Promise<readonly PodState[]> {
  return Promise.all(look.record.additions.map((addition) => lookAtPod(addition, look)));
}

async function lookAtPod(addition: PodAddition, look: AdoptedLook): Promise<PodState> {
  const { pod } = addition;
  const [byApi, unready, refused] = await Promise.all([
    seenInApi(addition, look),
    askReady(podContainers[pod].healthPort, look.signal),
    refusedIdentities(addition, look),
  ]);
  const again = `run "${adoptAgain(addition)}"`;
  if (byApi.state === 'wrong') return { pod, ...byApi };
  if (refused.length > 0) return { pod, state: 'wrong', message: `${refused.join('; ')}; ${again}` };
  if (byApi.state === 'unknown') return { pod, ...byApi };
  return unready === undefined
    ? { pod, state: 'ready', message: 'runs and is ready' }
    : { pod, state: 'waiting', message: unready };
}

/** Mirror pod: a static pod as the kubelet shows it in the API. */
export type MirrorPod = Omit<Pod, 'spec'> & Partial<Pick<PodManifest, 'spec'>>;

export function readMirrorPod(api: Api, pod: StaticPod, nodeName: string): Promise<MirrorPod | undefined> {
  return getIfPresent<MirrorPod>(api, `/api/v1/namespaces/kube-system/pods/${pod}-${nodeName}`);
}

async function seenInApi(addition: PodAddition, { record, pods, signal }: AdoptedLook): Promise<ContainerState> {
  if ('problem' in pods) return { state: 'unknown', message: `whether it runs is not known: ${pods.problem}` };
  const name = `kube-system/${addition.pod}-${record.nodeName}`;
  try {
    return judgePod(await readMirrorPod({ connection: pods, signal }, addition.pod, record.nodeName), addition, name);
  } catch (err) {
    return { state: 'unknown', message: `whether it runs is not known: ${errorText(err)}` };
  }
}

/** Pure. `name`: name of the pod for the message. */
export function judgePod(found: MirrorPod | undefined, addition: PodAddition, name: string): ContainerState {
  const wrong = (message: string): ContainerState => ({ state: 'wrong', message });
  if (found === undefined) return wrong(`Pod "${name}" is not in the API: the kubelet does not run its manifest`);
  const own = found.status?.containerStatuses?.find((one) => one.name === containerName);
  if (own === undefined)
    return wrong(`Pod "${name}" has no container "${containerName}": nothing renews what it reads`);
  const why = own.state?.waiting?.reason ?? own.state?.terminated?.reason;
  if (why !== undefined) {
    const image = why.includes('Image') ? ` (image "${addition.image}")` : '';
    const look = 'look at it (kubectl describe, crictl logs)';
    return wrong(`Container "${containerName}" of Pod "${name}" does not run: ${why}${image}; ${look}`);
  }
  if (found.metadata?.annotations?.[digestAnnotation] !== digestOf(addition)) {
    return wrong(`Pod "${name}" is not what the last adoption made of it; run "${adoptAgain(addition)}"`);
  }
  return own.ready
    ? { state: 'ready', message: '' }
    : { state: 'waiting', message: `Container "${containerName}" of Pod "${name}" is not ready` };
}

const askMs = 5_000;

/** Tries each token on one object that its process reads; an API out of reach is no refusal. */
async function refusedIdentities(addition: PodAddition, look: AdoptedLook): Promise<readonly string[]> {
  const { credentials } = addition.layout;
  const identities = await namesIn(credentials).catch((): readonly string[] => []);
  const asked = identities.map(async (identity): Promise<readonly string[]> => {
    const kubeconfig = join(credentials, identity, 'kubeconfig');
    let connection: KubeConnection | undefined;
    try {
      connection = await look.connect(kubeconfig);
      const path = firstRead(identity, addition, look.resolved);
      await getIfPresent({ connection, signal: AbortSignal.any([look.signal, AbortSignal.timeout(askMs)]) }, path);
      return [];
    } catch (err) {
      const isUntrusted = isCode(err, 'KubeUnavailable') && err.details['untrusted'] === true;
      const isRefused = isUntrusted || isCode(err, 'KubeUnauthorized', 'KubeForbidden', 'ConfigInvalid');
      return isRefused ? [`mode ${identity} cannot work: ${errorText(err)}`] : [];
    } finally {
      await connection?.close();
    }
  });
  return (await Promise.all(asked)).flat();
}

/** Path of an object that a process of this identity may get by name. */
function firstRead(identity: string, { pod }: PodAddition, resolved: Resolved): string {
  if (identity === 'approver') return '/apis/certificates.k8s.io/v1/certificatesigningrequests?limit=1';
  const { artefacts } = identity === 'regen' ? resolved : readBy(resolved, podContainers[pod].components);
  const isRead = ({ location, published }: ResolvedArtefact): boolean =>
    !isFile(location) && (identity === 'regen' || published !== undefined);
  const { location } = artefacts.find(isRead) ?? {};
  return location !== undefined && isObject(location) ? objectPath(location) : '/version';
}

const answerMs = 5_000;

/** Returns undefined when the container at this port reports ready, else the reason in one line. Never rejects. */
export async function askReady(port: number, signal: AbortSignal): Promise<string | undefined> {
  const url = `http://127.0.0.1:${port}/readyz`;
  try {
    const { status, body } = await answerOf(url, signal);
    if (status === 200) return undefined;
    const failed = [...body.matchAll(/^\[-\](.+)$/gm)].map(([, line = '']) => line);
    return `${url} answers ${status}: ${failed.length > 0 ? failed.join('; ') : 'no check is named'}`;
  } catch (err) {
    return `${url} does not answer: ${errorText(err)}`;
  }
}

function answerOf(url: string, signal: AbortSignal): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false, timeout: answerMs, signal }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => (body = `${body}${text}`.slice(0, bounds.readiness.most.characters)));
      response.once('end', () => resolve({ status: response.statusCode ?? 0, body }));
      response.once('error', reject);
    });
    request.once('timeout', () => request.destroy(new Error(`no answer for ${answerMs / 1000} s`)));
    request.once('error', reject);
  });
}
