// `init workers`: the identity with which workers make requests, in the API, and whether an approver exists for their
// requests. Running it again changes nothing that is already right.
import type { Clock } from '../clock.ts';
import { getIfPresent } from '../kube/objects.ts';
import type { Pod, PodList } from '../kube/received.ts';
import { staticPods } from '../components.ts';
import { podContainers } from './accounts.ts';
import { type Api, applyManifest, manifestText } from './apply.ts';
import { digestAnnotation } from './install-record.ts';
import { readToken } from './mode-credentials.ts';
import { workerManifests } from './rbac.ts';

interface PreparedWorkers {
  readonly created: readonly string[];
  readonly updated: readonly string[];
  readonly unchanged: readonly string[];
  /** Token for the workers. */
  readonly token: string;
  /** Pods that run mode approver. */
  readonly approvers: readonly string[];
}

/** `api`: connection of an administrator who may create RBAC. Throws the API's refusals. */
export async function prepareWorkers(api: Api, namespace: string, clock: Clock): Promise<PreparedWorkers> {
  const outcome = { created: [] as string[], updated: [] as string[], unchanged: [] as string[] };
  for (const manifest of workerManifests(namespace)) {
    outcome[await applyManifest(api, manifest)].push(manifestText(manifest));
  }
  const { token } = await readToken('worker', { api, namespace, clock });
  return { ...outcome, token, approvers: await approvers(api, namespace) };
}

const isOfApprover = /^--mode[=\s](?:\S+,)?approver(?:,|$)/;

/**
 * Pure. The approver of an adopted machine, whose modes come from a file, is found by our annotation on its
 * kube-apiserver. Other approvers are found only when their command names the mode.
 */
export function runsApprover({ metadata, status, spec }: Pod): boolean {
  const containers = spec?.containers ?? [];
  const isAdopted = digestAnnotation in (metadata?.annotations ?? {});
  const words = containers.flatMap(({ command = [], args = [] }) => [...command, ...args]);
  const isIts =
    (isAdopted && containers.some(({ name }) => name === approverPod)) || words.some((word) => isOfApprover.test(word));
  return isIts && status?.phase === 'Running';
}

const approverPod = staticPods.find((pod) => podContainers[pod].modes.includes('approver'));

/** Static pods live in kube-system, a Deployment next to the accounts. */
async function approvers(api: Api, namespace: string): Promise<string[]> {
  const found: string[] = [];
  for (const where of new Set([staticPodsNamespace, namespace])) {
    found.push(...(await approverPods(api, where)).map(podText));
  }
  return found;
}

const staticPodsNamespace = 'kube-system';

async function approverPods(api: Api, namespace: string): Promise<readonly Pod[]> {
  const pods = await getIfPresent<PodList>(api, `/api/v1/namespaces/${namespace}/pods`);
  return (pods?.items ?? []).filter(runsApprover);
}

const podText = ({ metadata }: Pod): string => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;

/** Static pods of `init approver`; pods of adopted machines are left out. */
export async function staticApprovers(api: Api): Promise<readonly string[]> {
  const pods = await approverPods(api, staticPodsNamespace);
  return pods.filter(({ metadata }) => !(digestAnnotation in (metadata?.annotations ?? {}))).map(podText);
}
