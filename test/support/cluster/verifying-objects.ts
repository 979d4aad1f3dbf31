// Objects of the API with a caBundle, by which kube-apiserver verifies a server: of a webhook, of an aggregated API, and of
// the conversion of a kind.

const service = { namespace: 'default', name: 'away' };

/** Called for ConfigMaps with the label `policy: asked`. */
export const webhook = (url: string, caBundle: string): object => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingWebhookConfiguration',
  metadata: { name: 'policy' },
  webhooks: [
    {
      name: 'policy.example.com',
      clientConfig: { url, caBundle },
      objectSelector: { matchLabels: { policy: 'asked' } },
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
      sideEffects: 'None',
      timeoutSeconds: 1,
      admissionReviewVersions: ['v1'],
    },
  ],
});

export const apiService = (caBundle: string): object => ({
  apiVersion: 'apiregistration.k8s.io/v1',
  kind: 'APIService',
  metadata: { name: 'v1.example.com' },
  spec: { group: 'example.com', version: 'v1', groupPriorityMinimum: 10, versionPriority: 10, service, caBundle },
});

export const definition = (caBundle: string): object => {
  const schema = { openAPIV3Schema: { type: 'object' } };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'things.other.example.com' },
    spec: {
      group: 'other.example.com',
      scope: 'Namespaced',
      names: { plural: 'things', singular: 'thing', kind: 'Thing', listKind: 'ThingList' },
      versions: [{ name: 'v1', served: true, storage: true, schema }],
      conversion: {
        strategy: 'Webhook',
        webhook: { conversionReviewVersions: ['v1'], clientConfig: { service, caBundle } },
      },
    },
  };
};
