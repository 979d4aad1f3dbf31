// `init workers`: what workers ask with, in the API, and whether there is an approver that would approve what they ask for.
// Run again, it changes nothing that is as it should be.
import type { Clock } from '../clock.ts';
import { getIfPresent } from '../kube/objects.ts';
import { type Api, applyManifest, manifestText } from './apply.ts';
import { readToken } from './mode-credentials.ts';
import { workerManifests } from './rbac.ts';

interface PreparedWorkers {
  readonly created: readonly string[];
  readonly updated: readonly string[];
  readonly unchanged: readonly string[];
  /** What the workers are given. */
  readonly token: string;
  /** Pods that run mode approver. */
  readonly approvers: readonly string[];
}

/** `api`: as an administrator who may create RBAC. Throws what the API refuses. */
export async function prepareWorkers(api: Api, namespace: string, clock: Clock): Promise<PreparedWorkers> {
  const outcome = { created: [] as string[], updated: [] as string[], unchanged: [] as string[] };
  for (const manifest of workerManifests(namespace)) {
    outcome[await applyManifest(api, manifest)].push(manifestText(manifest));
  }
  const { token } = await readToken('worker', { api, namespace, clock });
  return { ...outcome, token, approvers: await approvers(api, namespace) };
}

interface Pods {
  readonly items?: readonly {
    readonly metadata?: { readonly namespace?: string; readonly name?: string };
    readonly status?: { readonly phase?: string };
    readonly spec?: {
      readonly containers?: readonly { readonly command?: readonly string[]; readonly args?: readonly string[] }[];
    };
  }[];
}

const isOfApprover = /^--mode[=\s](?:\S+,)?approver(?:,|$)/;

/** Static pods live in kube-system, a Deployment beside the accounts. One whose modes stand in a file is not seen. */
async function approvers(api: Api, namespace: string): Promise<string[]> {
  const found: string[] = [];
  for (const where of new Set(['kube-system', namespace])) {
    const pods = await getIfPresent<Pods>(api, `/api/v1/namespaces/${where}/pods`);
    for (const { metadata, status, spec } of pods?.items ?? []) {
      const runs = (spec?.containers ?? []).some(({ command = [], args = [] }) =>
        [...command, ...args].some((word) => isOfApprover.test(word)),
      );
      if (runs && status?.phase === 'Running') found.push(`${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`);
    }
  }
  return found;
}
