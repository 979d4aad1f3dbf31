// Reads the admission webhooks and policies of the API server and finds those that could block writes of recovery:
// `init` and `status` name them beforehand, while there is time to exempt the objects.
import { isFile, isOnlyRead } from '../inventory/places.ts';
import type { ApiLocation, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { registryMetadata } from '../issue/metadata.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { getIfPresent, objectPath } from '../kube/objects.ts';
import type { AdmissionPolicy, AdmissionPolicyBinding, WebhookConfiguration } from '../kube/admission.ts';
import {
  interceptingWebhooks,
  isRestricting,
  judgingPolicies,
  type WebhookFinding,
  type WrittenObject,
} from './intercepting.ts';

interface FindWebhooks {
  /** An administrator's connection: the identities of the modes may not list webhooks. */
  readonly connection: KubeConnection;
  readonly resolved: Pick<Resolved, 'artefacts' | 'tlsRegistry'>;
  readonly signal: AbortSignal;
}

type Labels = Readonly<Record<string, string>>;

/** Objects that recovery writes. Key pairs and external objects are only read, and reading calls no webhook. */
function writtenArtefacts({ artefacts }: FindWebhooks['resolved']): (ResolvedArtefact & { location: ApiLocation })[] {
  return artefacts.filter((one): one is ResolvedArtefact & { location: ApiLocation } => {
    return !isOnlyRead(one) && !isFile(one.location);
  });
}

const registration = '/apis/admissionregistration.k8s.io/v1';

/** Throws errors of the API, KubeForbidden above all. */
export async function findWebhooks({ connection, resolved, signal }: FindWebhooks): Promise<WebhookFinding[]> {
  const written = writtenArtefacts(resolved);
  if (written.length === 0) return [];
  const read = <T>(path: string): Promise<T | undefined> => getIfPresent<T>({ connection, signal }, path);
  const listed = async <T>(resource: string): Promise<readonly T[]> =>
    (await read<{ items?: readonly T[] }>(`${registration}/${resource}`))?.items ?? [];
  const labelsOf = async (path: string): Promise<Labels> =>
    (await read<{ metadata?: { labels?: Labels } }>(path))?.metadata?.labels ?? {};

  const mutating = await listed<WebhookConfiguration>('mutatingwebhookconfigurations');
  const validating = await listed<WebhookConfiguration>('validatingwebhookconfigurations');
  const policies = await listed<AdmissionPolicy>('validatingadmissionpolicies');
  const bindings = await listed<AdmissionPolicyBinding>('validatingadmissionpolicybindings');

  const namespaceLabels = new Map<string, Labels>();
  for (const name of new Set(written.map(({ location }) => location.namespace))) {
    namespaceLabels.set(name, await labelsOf(`/api/v1/namespaces/${name}`));
  }
  // Present labels of objects are read only where a selector needs them: there are dozens of objects.
  const selectors = [
    ...[...mutating, ...validating].flatMap(({ webhooks = [] }) => webhooks.map((one) => one.objectSelector)),
    ...policies.map(({ spec }) => spec?.matchConstraints?.objectSelector),
    ...bindings.map(({ spec }) => spec?.matchResources?.objectSelector),
  ];
  const asksObjects = selectors.some(isRestricting);
  const objects: WrittenObject[] = [];
  for (const artefact of written) {
    const present = asksObjects ? await labelsOf(objectPath(artefact.location)) : {};
    const future = registryMetadata(artefact, resolved, undefined)?.labels ?? {};
    objects.push({ location: artefact.location, labels: [present, { ...present, ...future }, future] });
  }
  const all = { objects, namespaceLabels };
  return [
    ...interceptingWebhooks({ ...all, kind: 'MutatingWebhookConfiguration', configurations: mutating }),
    ...interceptingWebhooks({ ...all, kind: 'ValidatingWebhookConfiguration', configurations: validating }),
    ...judgingPolicies({ ...all, policies, bindings }),
  ];
}
