import { describe, expect, it } from 'vitest';
import type { WebhookConfiguration } from '../../lib/kube/admission.ts';
import {
  interceptingWebhooks,
  judgingPolicies,
  type PolicyQuestion,
  webhookText,
  type WrittenObject,
} from '../../lib/webhooks/intercepting.ts';

type Webhook = NonNullable<WebhookConfiguration['webhooks']>[number];

const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['secrets'] };
const hook: Webhook = { name: 'w.example.com', failurePolicy: 'Fail', rules: [rule] };
const objects: readonly WrittenObject[] = [
  { location: { kind: 'secret', namespace: 'one', name: 'a' }, labels: [{}, { type: 'signer' }] },
  { location: { kind: 'configMap', namespace: 'two', name: 'b' }, labels: [{}] },
];
const namespaceLabels = new Map([['one', { tier: 'control-plane' }]]);

function namespacesHit(webhook: Webhook): readonly string[] {
  const configurations = [{ metadata: { name: 'c' }, webhooks: [webhook] }];
  const kind = 'ValidatingWebhookConfiguration';
  return interceptingWebhooks({ kind, configurations, objects, namespaceLabels }).flatMap(
    ({ namespaces }) => namespaces,
  );
}

describe('interceptingWebhooks()', () => {
  const named = 'kubernetes.io/metadata.name';
  const rows: Record<string, { readonly webhook: Partial<Webhook>; readonly hit: readonly string[] }> = {
    'Secrets on update': { webhook: {}, hit: ['one'] },
    everything: {
      webhook: { rules: [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*/*'], scope: '*' }] },
      hit: ['one', 'two'],
    },
    'deletion only': { webhook: { rules: [{ ...rule, operations: ['DELETE'] }] }, hit: [] },
    'another group': { webhook: { rules: [{ ...rule, apiGroups: ['apps'] }] }, hit: [] },
    'another resource': { webhook: { rules: [{ ...rule, resources: ['pods', 'secrets/status'] }] }, hit: [] },
    'cluster scope': { webhook: { rules: [{ ...rule, scope: 'Cluster' }] }, hit: [] },
    'no rule': { webhook: { rules: [] }, hit: [] },
    'a label of the namespace': {
      webhook: { namespaceSelector: { matchLabels: { tier: 'control-plane' } } },
      hit: ['one'],
    },
    'a label that the namespace has not': {
      webhook: { namespaceSelector: { matchLabels: { tier: 'apps' } } },
      hit: [],
    },
    'namespaces but ours': {
      webhook: { namespaceSelector: { matchExpressions: [{ key: named, operator: 'NotIn', values: ['one'] }] } },
      hit: [],
    },
    'ours by name': {
      webhook: { namespaceSelector: { matchExpressions: [{ key: named, operator: 'In', values: ['one'] }] } },
      hit: ['one'],
    },
    'namespaces with a label': {
      webhook: { namespaceSelector: { matchExpressions: [{ key: 'tier', operator: 'Exists' }] } },
      hit: ['one'],
    },
    'namespaces without a label': {
      webhook: { namespaceSelector: { matchExpressions: [{ key: 'tier', operator: 'DoesNotExist' }] } },
      hit: [],
    },
    'objects with a label that ours will have': {
      webhook: { objectSelector: { matchLabels: { type: 'signer' } } },
      hit: ['one'],
    },
    'objects without the label that ours will have: it has not got it yet': {
      webhook: { objectSelector: { matchExpressions: [{ key: 'type', operator: 'DoesNotExist' }] } },
      hit: ['one'],
    },
    'objects with a label': { webhook: { objectSelector: { matchLabels: { app: 'x' } } }, hit: [] },
    'objects without a label': {
      webhook: { objectSelector: { matchExpressions: [{ key: 'app', operator: 'DoesNotExist' }] } },
      hit: ['one'],
    },
  };
  it.each(Object.keys(rows))('judges a webhook on: %s', (name) => {
    expect(namespacesHit({ ...hook, ...rows[name]?.webhook })).toEqual(rows[name]?.hit);
  });

  it('gives an exemption that, added, keeps the webhook away', () => {
    const kind = 'MutatingWebhookConfiguration';
    const configurations = [{ metadata: { name: 'c' }, webhooks: [hook] }];
    const [finding] = interceptingWebhooks({ kind, configurations, objects, namespaceLabels });
    expect(finding).toMatchObject({ configuration: 'MutatingWebhookConfiguration "c"', blocks: true });
    expect(namespacesHit({ ...hook, ...finding?.exemption })).toEqual([]);
    expect(finding?.exemption.namespaceSelector.matchExpressions).toEqual([
      { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['one'] },
    ]);
  });
});

describe('judgingPolicies()', () => {
  const constraints = { resourceRules: [rule] };
  const judged = (policy: object, binding: object): readonly string[] =>
    judgingPolicies({
      policies: [{ metadata: { name: 'p' }, spec: { matchConstraints: { ...constraints, ...policy } } }],
      bindings: [{ metadata: { name: 'b' }, spec: { policyName: 'p', validationActions: ['Deny'], ...binding } }],
      objects,
      namespaceLabels,
    } satisfies PolicyQuestion).flatMap(({ namespaces }) => namespaces);

  it.each<[string, object, object, readonly string[]]>([
    ['Secrets on update', {}, {}, ['one']],
    ['Secrets but ours by name', { excludeResourceRules: [{ ...rule, resourceNames: ['a'] }] }, {}, []],
    ['one of ours by name', { resourceRules: [{ ...rule, resourceNames: ['a'] }] }, {}, ['one']],
    ['another by name', { resourceRules: [{ ...rule, resourceNames: ['x'] }] }, {}, []],
    ['what our objects carry', { objectSelector: { matchLabels: { type: 'signer' } } }, {}, ['one']],
    ['what our objects do not carry', { objectSelector: { matchLabels: { type: 'x' } } }, {}, []],
    [
      'a namespace that the binding narrows away',
      {},
      { matchResources: { namespaceSelector: { matchLabels: { tier: 'apps' } } } },
      [],
    ],
    ['a resource that the binding narrows away', {}, { matchResources: { excludeResourceRules: [rule] } }, []],
    ['nothing that it could refuse: it warns', {}, { validationActions: ['Warn', 'Audit'] }, []],
    ['nothing: the binding is of another policy', {}, { policyName: 'other' }, []],
  ])('tells a policy that judges %s', (_what, policy, binding, hit) => {
    expect(judged(policy, binding)).toEqual(hit);
  });

  it('gives an exemption that, added to the binding, keeps it away', () => {
    const [finding] = judgingPolicies({
      policies: [{ metadata: { name: 'p' }, spec: { matchConstraints: constraints } }],
      bindings: [{ metadata: { name: 'b' }, spec: { policyName: 'p', validationActions: ['Deny'] } }],
      objects,
      namespaceLabels,
    });
    expect(judged({}, { matchResources: finding?.exemption })).toEqual([]);
    expect(finding && webhookText(finding)).toContain(
      'ValidatingAdmissionPolicyBinding "b": policy "p" judges these objects and may refuse what recovery writes',
    );
  });
});
