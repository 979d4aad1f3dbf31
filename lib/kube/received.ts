// Objects of the API as they arrive in JSON, by the types of client-node, which cost nothing at run time.
import type {
  AdmissionregistrationV1WebhookClientConfig,
  KubernetesObject,
  V1APIService,
  V1CertificateSigningRequest,
  V1CustomResourceDefinition,
  V1EndpointSlice,
  V1Node,
  V1NodeList,
  V1Pod,
  V1PodList,
  V1ValidatingWebhookConfiguration,
} from '@kubernetes/client-node';

/**
 * Times are text, or null. Any field may be absent whatever its type says, and a few that Go has as pointers are null:
 * read all with `??` and `?.`.
 */
export type Received<T> = T extends Date
  ? string | null
  : T extends readonly (infer E)[]
    ? readonly Received<E>[]
    : T extends object
      ? { readonly [K in keyof T]?: Received<T[K]> | undefined }
      : T;

export type NodeObject = Received<V1Node>;
export type Pod = Received<V1Pod>;
export type PodList = Received<V1PodList>;
export type NodeList = Received<V1NodeList>;
export type EndpointSlice = Received<V1EndpointSlice>;
export type ApiService = Received<V1APIService>;
/** An object of any kind in which a caBundle may be. */
export type VerifyingObject = Received<V1APIService & V1CustomResourceDefinition & V1ValidatingWebhookConfiguration>;
/** How kube-apiserver verifies another server. */
export type VerifyingConfig = Received<V1APIService['spec'] & AdmissionregistrationV1WebhookClientConfig>;
export type ReceivedRequest = Received<V1CertificateSigningRequest>;
/** Object of a CustomResourceDefinition: a Machine. */
export type ReceivedObject = Received<KubernetesObject>;
