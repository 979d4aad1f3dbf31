import { describe, expect, it } from 'vitest';
import { interceptingWebhooks, type WebhookConfiguration } from '../../lib/webhooks/intercepting.ts';

type Webhook = NonNullable<WebhookConfiguration['webhooks']>[number];

const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['secrets'] };
const hook: Webhook = { name: 'w.example.com', failurePolicy: 'Fail', rules: [rule] };
const objects = [
  { kind: 'secret', namespace: 'one', name: 'a' },
  { kind: 'configMap', namespace: 'two', name: 'b' },
] as const;
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
