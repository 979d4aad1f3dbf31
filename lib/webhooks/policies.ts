// Which ValidatingAdmissionPolicies judge the objects that recovery writes. Their expressions (CEL) are not evaluated here,
// so one that can deny counts as one that could. They have no backend that may be down. Pure.
import { exempting, type WebhookFinding } from './intercepting.ts';
import { covers, type NamespaceLabels, reaches, type Reach, type Rule, type WrittenObject } from './matching.ts';

/** MatchResources (staging/src/k8s.io/api/admissionregistration/v1/types.go). */
interface MatchResources extends Reach {
  readonly resourceRules?: readonly Rule[] | null;
  readonly excludeResourceRules?: readonly Rule[] | null;
}
export interface AdmissionPolicy {
  readonly metadata?: { readonly name?: string };
  readonly spec?: { readonly matchConstraints?: MatchResources };
}
export interface AdmissionPolicyBinding {
  readonly metadata?: { readonly name?: string };
  readonly spec?: {
    readonly policyName?: string;
    readonly validationActions?: readonly string[];
    readonly matchResources?: MatchResources;
  };
}

export interface PolicyQuestion {
  readonly policies: readonly AdmissionPolicy[];
  readonly bindings: readonly AdmissionPolicyBinding[];
  readonly objects: readonly WrittenObject[];
  readonly namespaceLabels: NamespaceLabels;
}

/** A policy without a binding does nothing, nor does one whose binding only warns or audits. */
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
    if (hit.length === 0) return [];
    const configuration = `ValidatingAdmissionPolicyBinding "${metadata?.name ?? ''}"`;
    return [{ configuration, webhook: policyName, isPolicy: true, blocks: true, ...exempting(hit) }];
  });
}

/** `narrows`: without rules of its own it leaves all that the policy takes. */
function takes(
  resources: MatchResources,
  object: WrittenObject,
  labels: NamespaceLabels,
  narrows?: 'narrows',
): boolean {
  const rules = resources.resourceRules ?? [];
  const isCovered = (list: readonly Rule[]): boolean => list.some((rule) => covers(rule, object.location));
  return (
    ((narrows !== undefined && rules.length === 0) || isCovered(rules)) &&
    !isCovered(resources.excludeResourceRules ?? []) &&
    reaches(resources, object, labels)
  );
}
