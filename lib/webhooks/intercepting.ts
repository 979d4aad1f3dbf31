// Which admission webhooks could stand between recovery and its objects. A webhook with failurePolicy Fail whose backend
// is down, or whose certificate has expired, refuses every write, and its backend may itself wait for this recovery.
// Pure. A webhook that can only be judged by evaluating CEL (matchConditions) counts as one that could.
import {
  covers,
  nameLabel,
  type NamespaceLabels,
  reaches,
  type Rule,
  type Selector,
  type WrittenObject,
} from './matching.ts';

export interface WebhookConfiguration {
  readonly metadata?: { readonly name?: string };
  readonly webhooks?: readonly {
    readonly name: string;
    readonly failurePolicy?: string;
    readonly rules?: readonly Rule[];
    readonly namespaceSelector?: Selector;
    readonly objectSelector?: Selector;
  }[];
}

export interface WebhookQuestion {
  readonly kind: 'MutatingWebhookConfiguration' | 'ValidatingWebhookConfiguration';
  readonly configurations: readonly WebhookConfiguration[];
  readonly objects: readonly WrittenObject[];
  readonly namespaceLabels: NamespaceLabels;
}

export interface WebhookFinding {
  /** `ValidatingWebhookConfiguration "policy"`, `ValidatingAdmissionPolicyBinding "policy"`. */
  readonly configuration: string;
  /** Its name, or that of the policy that is bound. */
  readonly webhook: string;
  /** A policy has no backend: its own expressions decide, which are not evaluated here. */
  readonly isPolicy?: true;
  /** False: when it cannot be reached, the write goes through after its time-out. */
  readonly blocks: boolean;
  readonly namespaces: readonly string[];
  /** What to add to the webhook, or to `matchResources` of the binding, so that it leaves recovery alone. */
  readonly exemption: { readonly namespaceSelector: Selector };
}

export function interceptingWebhooks({
  kind,
  configurations,
  objects,
  namespaceLabels,
}: WebhookQuestion): WebhookFinding[] {
  return configurations.flatMap(({ metadata, webhooks = [] }) =>
    webhooks.flatMap((webhook): WebhookFinding[] => {
      const hit = objects.filter(
        (object) =>
          (webhook.rules ?? []).some((rule) => covers(rule, object.location)) &&
          reaches(webhook, object, namespaceLabels),
      );
      if (hit.length === 0) return [];
      return [
        {
          configuration: `${kind} "${metadata?.name ?? ''}"`,
          webhook: webhook.name,
          blocks: webhook.failurePolicy !== 'Ignore',
          ...exempting(hit),
        },
      ];
    }),
  );
}

/** Where they lie, and what leaves them out. */
export function exempting(hit: readonly WrittenObject[]): Pick<WebhookFinding, 'namespaces' | 'exemption'> {
  const namespaces = [...new Set(hit.map(({ location }) => location.namespace))].toSorted();
  const matchExpressions = [{ key: nameLabel, operator: 'NotIn', values: namespaces }];
  return { namespaces, exemption: { namespaceSelector: { matchExpressions } } };
}

/** One line for a person: what the webhook does to recovery, and what to do about it. */
export function webhookText({ configuration, webhook, isPolicy, blocks, exemption }: WebhookFinding): string {
  if (isPolicy === true) {
    return `${configuration}: policy "${webhook}" judges these objects and may refuse what recovery writes; see that it allows that, or add to matchResources of the binding: ${JSON.stringify(exemption)}`;
  }
  const effect = blocks ? 'stops recovery when its backend is down' : 'delays recovery when its backend is down';
  return `${configuration}: webhook "${webhook}" intercepts these objects and ${effect}; add to it: ${JSON.stringify(exemption)}`;
}
