import { expect, it } from 'vitest';
import { defaultNamespace } from '../../lib/install/accounts.ts';
import { daemonSetManifests } from '../../scripts/daemonset.ts';
import { parseYaml } from '../../lib/yaml.ts';

interface Container {
  readonly securityContext: {
    readonly capabilities: { readonly drop: readonly string[]; readonly add?: readonly string[] };
    readonly [field: string]: unknown;
  };
  readonly volumeMounts: readonly { readonly mountPath: string; readonly readOnly?: boolean }[];
}
interface PodSpec {
  readonly initContainers: readonly Container[];
  readonly containers: readonly Container[];
  readonly [field: string]: unknown;
}

const files = daemonSetManifests('example.com/image', '1.2.3');
const { spec } = parseYaml(files['base/daemonset.yaml'] ?? '') as {
  readonly spec: { readonly template: { readonly spec: PodSpec } };
};
const pod = spec.template.spec;

it('has no capability, no token, and a container that stays and reads metrics', () => {
  expect(pod).toMatchObject({ automountServiceAccountToken: false });
  expect(pod).not.toHaveProperty('hostPID');
  for (const { securityContext } of [...pod.initContainers, ...pod.containers]) {
    expect(securityContext.capabilities).toEqual({ drop: ['ALL'] });
    expect(securityContext).toMatchObject({ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true });
    expect(securityContext).not.toHaveProperty('privileged');
  }
  const [stays, ...others] = pod.containers;
  expect(others).toEqual([]);
  expect(stays?.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 65_532 });
  expect(stays?.volumeMounts).toEqual([
    expect.objectContaining({ mountPath: '/var/lib/kube-cert-recovery/metrics', readOnly: true }),
  ]);
});

it('owns a namespace without the Secrets of the other parts, which "kubectl delete -k" would remove', () => {
  const { metadata } = parseYaml(files['base/namespace.yaml'] ?? '') as {
    readonly metadata: { readonly name: string };
  };
  expect(metadata.name).not.toBe(defaultNamespace);
  for (const path of ['base', 'secured-metrics'])
    expect(parseYaml(files[`${path}/kustomization.yaml`] ?? '')).toMatchObject({ namespace: metadata.name });
});

it('serves secured metrics on all addresses, also of IPv6, and has its pods replaced for another port', () => {
  const { data } = parseYaml(files['secured-metrics/configmap.yaml'] ?? '') as {
    readonly data: Record<string, string>;
  };
  expect(parseYaml(data['config.yaml'] ?? '')).toMatchObject({ metrics: { bindAddress: ':9793' } });
  expect(files['chart/templates/daemonset.yaml']).toContain('containerPort: {{ int .Values.metrics.securePort }}');
});
