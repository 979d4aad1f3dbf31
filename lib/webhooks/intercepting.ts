// Which admission webhooks could block writes of recovery. A webhook with failurePolicy Fail whose backend is down, or
// whose certificate has expired, refuses every write, and its backend may itself wait for this recovery. Pure. A
// webhook that can only be judged by evaluating CEL (matchConditions) counts as blocking.
import type { ApiLocation } from '../inventory/model.ts';
import type {
  AdmissionPolicy,
  AdmissionPolicyBinding,
  AdmissionRule,
  LabelSelector,
  MatchResources,
  WebhookConfiguration,
} from '../kube/admission.ts';

/** Objects that recovery writes. */
interface Written {
  readonly objects: readonly WrittenObject[];
  readonly namespaceLabels: NamespaceLabels;
}

interface WebhookQuestion extends Written {
  readonly kind: 'MutatingWebhookConfiguration' | 'ValidatingWebhookConfiguration';
  readonly configurations: readonly WebhookConfiguration[];
}

export interface WebhookFinding {
  /** `ValidatingWebhookConfiguration "policy"`, `ValidatingAdmissionPolicyBinding "policy"`. */
  readonly configuration: string;
  /** Its name, or the name of the bound policy. */
  readonly webhook: string;
  /** A policy has no backend: its own expressions decide, which are not evaluated here. */
  readonly isPolicy?: true;
  /** False: when it cannot be reached, the write succeeds after its time-out. */
  readonly blocks: boolean;
  readonly namespaces: readonly string[];
  /** Selector for the webhook, or for `matchResources` of the binding, that exempts recovery. */
  readonly exemption: { readonly namespaceSelector: LabelSelector };
}

export function interceptingWebhooks({
  kind,
  configurations,
  objects,
  namespaceLabels,
}: WebhookQuestion): WebhookFinding[] {
  return configurations.flatMap(({ metadata, webhooks = [] }) =>
    webhooks.flatMap((webhook) => {
      const hit = objects.filter(
        (object) => coversAny(webhook.rules, object) && reaches(webhook, object, namespaceLabels),
      );
      const configuration = `${kind} "${metadata?.name ?? ''}"`;
      return findingOn(hit, { configuration, webhook: webhook.name, blocks: webhook.failurePolicy !== 'Ignore' });
    }),
  );
}

/**
 * Findings on matching objects, with their namespaces and a selector that excludes them; none where no object matches.
 */
function findingOn(
  hit: readonly WrittenObject[],
  found: Omit<WebhookFinding, 'namespaces' | 'exemption'>,
): WebhookFinding[] {
  if (hit.length === 0) return [];
  const namespaces = [...new Set(hit.map(({ location }) => location.namespace))].toSorted();
  const matchExpressions = [{ key: nameLabel, operator: 'NotIn', values: namespaces }];
  return [{ ...found, namespaces, exemption: { namespaceSelector: { matchExpressions } } }];
}

/** One line for the administrator: the effect of the webhook on recovery, and the remedy. */
export function webhookText({ configuration, webhook, isPolicy, blocks, exemption }: WebhookFinding): string {
  if (isPolicy === true) {
    return `${configuration}: policy "${webhook}" judges these objects and may refuse what recovery writes; see that it allows that, or add to matchResources of the binding: ${JSON.stringify(exemption)}`;
  }
  const effect = blocks ? 'stops recovery when its backend is down' : 'delays recovery when its backend is down';
  return `${configuration}: webhook "${webhook}" intercepts these objects and ${effect}; add to it: ${JSON.stringify(exemption)}`;
}

// Scope of selectors and rules of admission webhooks and policies, among the objects that recovery writes. Pure.

type Labels = Readonly<Record<string, string>>;

/** An object that recovery writes. */
export interface WrittenObject {
  readonly location: ApiLocation;
  /** Present labels, and future ones: a selector is matched with the object before the write and after it. */
  readonly labels: readonly Labels[];
}

/** Labels by namespace; an unknown namespace has only its name. */
type NamespaceLabels = ReadonlyMap<string, Labels>;

const nameLabel = 'kubernetes.io/metadata.name';

type Reach = Pick<MatchResources, 'namespaceSelector' | 'objectSelector'>;

/** Whether both selectors match the object. */
function reaches(
  { namespaceSelector, objectSelector }: Reach,
  { location, labels }: WrittenObject,
  namespaces: NamespaceLabels,
): boolean {
  const { namespace } = location;
  return (
    selects(namespaceSelector, { [nameLabel]: namespace, ...namespaces.get(namespace) }) &&
    labels.some((each) => selects(objectSelector, each))
  );
}

export const isRestricting = ({ matchLabels = {}, matchExpressions = [] }: LabelSelector = {}): boolean =>
  Object.keys(matchLabels).length + matchExpressions.length > 0;

const has = (list: readonly string[], ...wanted: readonly string[]): boolean =>
  wanted.some((one) => list.includes(one));

const coversAny = (rules: readonly AdmissionRule[] | null | undefined, { location }: WrittenObject): boolean =>
  (rules ?? []).some((rule) => covers(rule, location));

function covers(
  { apiGroups = [], apiVersions = [], operations = [], resources = [], scope, resourceNames }: AdmissionRule,
  object: ApiLocation,
): boolean {
  const resource = object.kind === 'secret' ? 'secrets' : 'configmaps';
  return (
    scope !== 'Cluster' &&
    has(apiGroups, '', '*') &&
    has(apiVersions, 'v1', '*') &&
    has(operations, 'CREATE', 'UPDATE', '*') &&
    has(resources, resource, '*', '*/*') &&
    (!resourceNames?.length || resourceNames.includes(object.name))
  );
}

/** Matches like metav1.LabelSelectorAsSelector: an absent or empty selector selects everything. */
function selects({ matchLabels = {}, matchExpressions = [] }: LabelSelector = {}, labels: Labels): boolean {
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

// Which ValidatingAdmissionPolicies judge the objects that recovery writes. Their expressions (CEL) are not evaluated
// here, so a policy that can deny counts as denying. They have no backend that may be down. Pure.

export interface PolicyQuestion extends Written {
  readonly policies: readonly AdmissionPolicy[];
  readonly bindings: readonly AdmissionPolicyBinding[];
}

/**
 * Findings for bindings that deny: a policy without a binding has no effect, nor has one whose binding only warns or
 * audits.
 */
export function judgingPolicies({ policies, bindings, objects, namespaceLabels }: PolicyQuestion): WebhookFinding[] {
  return bindings.flatMap(({ metadata, spec: binding = {} }): WebhookFinding[] => {
    const { policyName = '', validationActions = [], matchResources } = binding;
    const constraints = policies.find((policy) => policy.metadata?.name === policyName)?.spec?.matchConstraints;
    if (constraints === undefined || !validationActions.includes('Deny')) return [];
    const hit = objects.filter(
      (object) =>
        takes(constraints, object, namespaceLabels) &&
        (matchResources === undefined || takes(matchResources, object, namespaceLabels, 'narrows')),
    );
    const configuration = `ValidatingAdmissionPolicyBinding "${metadata?.name ?? ''}"`;
    return findingOn(hit, { configuration, webhook: policyName, isPolicy: true, blocks: true });
  });
}

/** `narrows`: without rules of its own it matches all objects of the policy. */
function takes(
  resources: MatchResources,
  object: WrittenObject,
  labels: NamespaceLabels,
  narrows?: 'narrows',
): boolean {
  const { resourceRules, excludeResourceRules } = resources;
  return (
    ((narrows !== undefined && !resourceRules?.length) || coversAny(resourceRules, object)) &&
    !coversAny(excludeResourceRules, object) &&
    reaches(resources, object, labels)
  );
}
