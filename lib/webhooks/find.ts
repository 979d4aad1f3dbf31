// Asks the API server for its admission webhooks and says which of them could stand between recovery and its objects:
// `init` and `status` name them beforehand, while there is time to exempt the objects.
import { isCode } from '../errors.ts';
import type { ApiLocation, ResolvedArtefact } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { interceptingWebhooks, type WebhookConfiguration, type WebhookFinding } from './intercepting.ts';
import { isOnlyRead } from '../inventory/kinds.ts';
import { isFile } from '../inventory/places.ts';

export interface FindWebhooks {
  /** Of an administrator: the identities of the modes may not list webhooks. */
  readonly connection: KubeConnection;
  readonly artefacts: readonly ResolvedArtefact[];
  readonly signal: AbortSignal;
}

/** Objects that recovery writes. Key pairs and what others maintain are only read, and reading calls no webhook. */
function writtenObjects(artefacts: readonly ResolvedArtefact[]): ApiLocation[] {
  return artefacts.flatMap((artefact) => (isOnlyRead(artefact) || isFile(artefact.truth) ? [] : [artefact.truth]));
}

/** Throws what the API refuses, KubeForbidden above all. */
export async function findWebhooks({ connection, artefacts, signal }: FindWebhooks): Promise<WebhookFinding[]> {
  const objects = writtenObjects(artefacts);
  if (objects.length === 0) return [];
  const read = async <T>(path: string): Promise<T | undefined> => {
    try {
      return await connection.request<T>({ method: 'GET', path, signal });
    } catch (err) {
      if (isCode(err, 'KubeNotFound')) return undefined;
      throw err;
    }
  };
  const findings: WebhookFinding[] = [];
  const namespaceLabels = new Map<string, Readonly<Record<string, string>>>();
  for (const name of new Set(objects.map(({ namespace }) => namespace))) {
    const path = `/api/v1/namespaces/${name}`;
    const found = await read<{ metadata?: { labels?: Readonly<Record<string, string>> } }>(path);
    namespaceLabels.set(name, found?.metadata?.labels ?? {});
  }
  for (const kind of ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration'] as const) {
    const path = `/apis/admissionregistration.k8s.io/v1/${kind.toLowerCase()}s`;
    const list = await read<{ items?: readonly WebhookConfiguration[] }>(path);
    findings.push(...interceptingWebhooks({ kind, configurations: list?.items ?? [], objects, namespaceLabels }));
  }
  return findings;
}
