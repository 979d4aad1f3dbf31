import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../lib/config/load.ts';
import type { Manifest, RbacRule } from '../../lib/install/apply.ts';
import { nodeCaDaemonSet, nodeCaKubelets, nodeCaNamespace, nodeCaStaticPod } from '../../lib/install/node-ca-pod.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { parseYaml } from '../../lib/yaml.ts';

const image = 'example.com/kube-cert-recovery:0.1.0';
const namespace = 'kube-cert-recovery';
const server = 'https://control-plane.example.com:6443';

interface Named {
  readonly name: string;
}
interface Volume extends Named {
  readonly hostPath?: { readonly path: string; readonly type: string };
  readonly projected?: { readonly sources: readonly object[] };
}
interface PodSpec {
  readonly containers: readonly [
    {
      readonly args: readonly string[];
      readonly env: readonly object[];
      readonly livenessProbe: object;
      readonly securityContext: object;
      readonly volumeMounts: readonly (Named & { readonly mountPath: string; readonly readOnly?: boolean })[];
    },
  ];
  readonly volumes: readonly Volume[];
  readonly [field: string]: unknown;
}

const manifests = nodeCaDaemonSet({ image, namespace, server });
const ofKind = (kind: string, all: readonly Manifest[] = manifests): Manifest =>
  all.find((one) => one.kind === kind) ?? expect.unreachable(kind);
const daemonSet = ofKind('DaemonSet') as unknown as { spec: { template: { spec: PodSpec } } & object };
const { spec } = daemonSet.spec.template;
const staticPod = nodeCaStaticPod({ image, namespace }) as { spec: PodSpec };
const configuredBy = (args: readonly string[]) => {
  const flags = Object.fromEntries(
    args.map((arg) => {
      const [, name = '', value] = /^--([^=]+)(?:=(.*))?$/.exec(arg) ?? [];
      return [name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase()), value ?? true];
    }),
  );
  return parseConfig({ flags, env: {}, cwd: '/', presets: installedPresets });
};

const rightsOf = (all: readonly Manifest[]): readonly RbacRule[] =>
  all.flatMap(({ rules = [] }) => rules as readonly RbacRule[]);

describe.each([
  ['the DaemonSet', manifests, []],
  ['kubelets', nodeCaKubelets(namespace), ['follow']],
])('the rights of %s', (_, all, more) => {
  it('are to read one ConfigMap by its name, and to create Events beside it', () => {
    const verbs = ['get', 'list', 'watch', ...more];
    expect(rightsOf(all)).toEqual([
      { apiGroups: [''], resources: ['configmaps'], resourceNames: ['node-ca'], verbs },
      { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create'] },
    ]);
    expect(all.filter(({ kind }) => kind.startsWith('Cluster'))).toEqual([]);
    expect(new Set(all.map(({ metadata }) => metadata.namespace))).toEqual(new Set([namespace]));
  });
});

it('static pods ask as kubelets, the DaemonSet as an account of its own', () => {
  const subjects = (all: readonly Manifest[]): unknown => ofKind('RoleBinding', all)['subjects'];
  expect(subjects(nodeCaKubelets(namespace))).toMatchObject([{ kind: 'Group', name: 'system:nodes' }]);
  expect(subjects(manifests)).toMatchObject([{ kind: 'ServiceAccount', name: spec['serviceAccountName'] }]);
});

describe.each([
  ['the DaemonSet', spec, true],
  ['the static pod', staticPod.spec, false],
])('the pod of %s', (_, { containers: [container], volumes, ...pod }, isOfDaemonSet) => {
  it('runs on every node before anything that a node is to run, on its network and among its processes', () => {
    expect(pod).toMatchObject({
      hostNetwork: true,
      hostPID: true,
      dnsPolicy: 'Default',
      priorityClassName: 'system-node-critical',
      automountServiceAccountToken: false,
    });
    expect(pod['tolerations']).toEqual([{ operator: 'Exists' }]);
    expect('priority' in pod).toBe(!isOfDaemonSet);
  });

  it('has these directories of the machine, writes into three, and keeps no volume of other pods', () => {
    const paths = volumes.flatMap(({ name, hostPath }) => {
      const mount = container.volumeMounts.find((one) => one.name === name);
      return hostPath === undefined ? [] : [[hostPath.path, mount?.mountPath, mount?.readOnly === true]];
    });
    expect(paths).toEqual([
      ['/etc/kubernetes', '/etc/kubernetes', false],
      ['/var/lib/kubelet', '/var/lib/kubelet', true],
      ['/var/lib/kube-cert-recovery', '/var/lib/kube-cert-recovery', false],
      ['/run/kube-cert-recovery', '/run/kube-cert-recovery', false],
      ['/run/systemd/timesync', '/run/systemd/timesync', true],
    ]);
    const ofKubelet = container.volumeMounts.find(({ mountPath }) => mountPath === '/var/lib/kubelet');
    expect(ofKubelet).toMatchObject({ mountPropagation: 'HostToContainer' });
    expect(container.volumeMounts.map(({ name }) => name)).toEqual(volumes.map(({ name }) => name));
  });

  it('is root without capabilities, and may signal processes of the machine', () => {
    expect(container.securityContext).toMatchObject({
      runAsUser: 0,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
      appArmorProfile: { type: 'Unconfined' },
      seLinuxOptions: { type: 'spc_t', level: 's0' },
    });
    expect(JSON.stringify(container.securityContext)).not.toMatch(/"privileged"|"add"/);
  });

  it('makes runs again and again that restart, by the preset', () => {
    const { modes, inventory, once, healthProbeBindAddress } = configuredBy(container.args);
    const kubeconfig = isOfDaemonSet ? '/etc/kube-cert-recovery/kubeconfig' : '/etc/kubernetes/kubelet.conf';
    expect(modes).toMatchObject([{ mode: 'regen', restart: true, locations: 'all', kubeconfig }]);
    expect([inventory.name, once, healthProbeBindAddress]).toMatchObject(['node-ca', false, { port: 11450 }]);
    expect(container.livenessProbe).toMatchObject({ httpGet: { host: '127.0.0.1', port: 11450 } });
  });
});

describe('the identity of the DaemonSet', () => {
  it('is a token for an hour, and the CA of the cluster', () => {
    expect(spec.volumes.find(({ name }) => name === 'credential')?.projected).toEqual({
      sources: [
        { serviceAccountToken: { path: 'token', expirationSeconds: 3600 } },
        { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
      ],
    });
    expect(manifests.some(({ kind }) => kind === 'Secret')).toBe(false);
  });

  it('goes to the named server, with the mounted token and CA', () => {
    const { data } = ofKind('ConfigMap') as unknown as { data: { kubeconfig: string } };
    const { clusters, users } = parseYaml(data.kubeconfig) as { clusters: readonly object[]; users: readonly object[] };
    const mounted = '/var/run/secrets/kubernetes.io/serviceaccount';
    expect(clusters).toMatchObject([{ cluster: { server, 'certificate-authority': `${mounted}/ca.crt` } }]);
    expect(users).toMatchObject([{ user: { tokenFile: `${mounted}/token` } }]);
    expect(spec.containers[0].volumeMounts).toContainEqual({ name: 'credential', mountPath: mounted, readOnly: true });
  });
});

it('in another namespace the program is told', () => {
  const [other] = [nodeCaStaticPod({ image, namespace: 'elsewhere' }) as { spec: PodSpec }];
  const { inventory } = configuredBy(other.spec.containers[0].args);
  expect(inventory.artefacts[0]?.location).toMatchObject({ namespace: 'elsewhere', name: 'node-ca' });
  expect(nodeCaNamespace('elsewhere').metadata).toEqual({
    name: 'elsewhere',
    labels: { 'pod-security.kubernetes.io/enforce': 'privileged' },
  });
});

it('updates a tenth of the nodes at a time', () => {
  expect(daemonSet.spec).toMatchObject({ updateStrategy: { rollingUpdate: { maxUnavailable: '10%' } } });
});
