// Which admission webhooks could stand between recovery and its objects. A webhook with failurePolicy Fail whose backend
// is down, or whose certificate has expired, refuses every write, and its backend may itself wait for this recovery.
// Pure. A webhook that can only be judged by evaluating CEL (matchConditions) counts as one that could.
import type { ApiLocation } from '../inventory/model.ts';

interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[] | null;
}
interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly Requirement[];
}
interface WebhookRule {
  readonly apiGroups?: readonly string[];
  readonly apiVersions?: readonly string[];
  readonly operations?: readonly string[];
  readonly resources?: readonly string[];
  readonly scope?: string;
}
export interface WebhookConfiguration {
  readonly metadata?: { readonly name?: string };
  readonly webhooks?: readonly {
    readonly name: string;
    readonly failurePolicy?: string;
    readonly rules?: readonly WebhookRule[];
    readonly namespaceSelector?: Selector;
    readonly objectSelector?: Selector;
  }[];
}

export interface WebhookQuestion {
  readonly kind: 'MutatingWebhookConfiguration' | 'ValidatingWebhookConfiguration';
  readonly configurations: readonly WebhookConfiguration[];
  readonly objects: readonly ApiLocation[];
  /** Labels by namespace; one that is not known has only its name. */
  readonly namespaceLabels: ReadonlyMap<string, Readonly<Record<string, string>>>;
}

export interface WebhookFinding {
  /** `ValidatingWebhookConfiguration "policy"`. */
  readonly configuration: string;
  readonly webhook: string;
  /** False: when it cannot be reached, the write goes through after its time-out. */
  readonly blocks: boolean;
  readonly namespaces: readonly string[];
  /** What to add to the webhook so that it leaves recovery alone. */
  readonly exemption: { readonly namespaceSelector: Selector };
}

const nameLabel = 'kubernetes.io/metadata.name';

export function interceptingWebhooks({
  kind,
  configurations,
  objects,
  namespaceLabels,
}: WebhookQuestion): WebhookFinding[] {
  const labelsOf = (namespace: string): Readonly<Record<string, string>> => ({
    [nameLabel]: namespace,
    ...namespaceLabels.get(namespace),
  });
  return configurations.flatMap(({ metadata, webhooks = [] }) =>
    webhooks.flatMap((webhook): WebhookFinding[] => {
      // our objects carry no labels
      if (!selects(webhook.objectSelector, {})) return [];
      const hit = objects.filter(
        (object) =>
          (webhook.rules ?? []).some((rule) => covers(rule, object)) &&
          selects(webhook.namespaceSelector, labelsOf(object.namespace)),
      );
      if (hit.length === 0) return [];
      const namespaces = [...new Set(hit.map(({ namespace }) => namespace))].toSorted();
      const exemption = { matchExpressions: [{ key: nameLabel, operator: 'NotIn', values: namespaces }] };
      return [
        {
          configuration: `${kind} "${metadata?.name ?? ''}"`,
          webhook: webhook.name,
          blocks: webhook.failurePolicy !== 'Ignore',
          namespaces,
          exemption: { namespaceSelector: exemption },
        },
      ];
    }),
  );
}

/** One line for a person: what the webhook does to recovery, and what to do about it. */
export function webhookText({ configuration, webhook, blocks, exemption }: WebhookFinding): string {
  const effect = blocks ? 'stops recovery when its backend is down' : 'delays recovery when its backend is down';
  return `${configuration}: webhook "${webhook}" intercepts these objects and ${effect}; add to it: ${JSON.stringify(exemption)}`;
}

const has = (list: readonly string[], ...wanted: readonly string[]): boolean =>
  wanted.some((one) => list.includes(one));

function covers(
  { apiGroups = [], apiVersions = [], operations = [], resources = [], scope }: WebhookRule,
  object: ApiLocation,
): boolean {
  const resource = object.kind === 'secret' ? 'secrets' : 'configmaps';
  return (
    scope !== 'Cluster' &&
    has(apiGroups, '', '*') &&
    has(apiVersions, 'v1', '*') &&
    has(operations, 'CREATE', 'UPDATE', '*') &&
    has(resources, resource, '*', '*/*')
  );
}

/** As metav1.LabelSelectorAsSelector: an absent or empty selector selects everything. */
function selects(
  { matchLabels = {}, matchExpressions = [] }: Selector = {},
  labels: Readonly<Record<string, string>>,
): boolean {
  const expressions = matchExpressions.every(({ key, operator, values }) => {
    const value = labels[key];
    const isListed = value !== undefined && (values ?? []).includes(value);
    switch (operator) {
      case 'In':
        return isListed;
      case 'NotIn':
        return !isListed;
      case 'Exists':
        return value !== undefined;
      case 'DoesNotExist':
        return value === undefined;
      default:
        return true; // an operator of a later version: better a warning too many
    }
  });
  return expressions && Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
}
