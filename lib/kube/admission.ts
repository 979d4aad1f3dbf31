// Admission objects of the API server, reduced to the parts of webhooks and policies that determine which writes they
// intercept (staging/src/k8s.io/api/admissionregistration/v1/types.go).
import type {
  V1LabelSelector,
  V1MatchResources,
  V1NamedRuleWithOperations,
  V1ObjectMeta,
  V1ValidatingAdmissionPolicy,
  V1ValidatingAdmissionPolicyBinding,
  V1ValidatingWebhook,
} from '@kubernetes/client-node';

export type LabelSelector = V1LabelSelector;
/** `resourceNames` exist in policies only; empty or absent: all names. */
export type AdmissionRule = V1NamedRuleWithOperations;
export type MatchResources = V1MatchResources;
export type AdmissionPolicy = Partial<V1ValidatingAdmissionPolicy>;
export type AdmissionPolicyBinding = Partial<V1ValidatingAdmissionPolicyBinding>;

/** Mutating or validating configuration. */
export interface WebhookConfiguration {
  readonly metadata?: Pick<V1ObjectMeta, 'name'>;
  readonly webhooks?: readonly Pick<
    V1ValidatingWebhook,
    'name' | 'failurePolicy' | 'rules' | 'namespaceSelector' | 'objectSelector'
  >[];
}
