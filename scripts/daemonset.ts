// The DaemonSet that runs `init host` on each control-plane node and stays as an exporter of its metrics: a kustomize base
// with a component, and a Helm chart, of one description. Pure.
import { nodeCaNamespace } from '../lib/install/node-ca-pod.ts';
import { hostPath, leastPrivileges, type Mounted } from '../lib/install/own-container.ts';
import { pathsOfPod } from '../lib/install/command-of-pod.ts';
import { apiVersion, controlPlaneLabel, defaultBackupDir } from '../lib/well-known.ts';
import { toYaml } from '../lib/yaml.ts';
import { dirname } from 'node:path';

const name = 'kube-cert-recovery-host';
/** Of its own: it goes with these manifests, and other parts keep their secrets in theirs. */
const namespace = name;
const metrics = hostPath('metrics', `${dirname(defaultBackupDir)}/metrics`, {
  readOnly: true,
  type: 'DirectoryOrCreate',
});
const metricsFile = `--metrics-file=${String(metrics.mount['mountPath'])}/certs.prom`;
const ports = { probes: 11451, metrics: 9793 };
const configDirectory = '/etc/kube-cert-recovery';
const certificates = `${configDirectory}-metrics`;
const labels = { 'app.kubernetes.io/name': name };
const nobody = 65_532;

interface Values {
  readonly repository: string;
  readonly tag: string;
  readonly pullPolicy: string;
  /** Arguments of the container that installs. */
  readonly install: readonly string[];
  readonly nodeSelector: unknown;
  readonly tolerations: unknown;
  readonly probePort: number | string;
  /** Items of the lists for metrics over TLS. */
  readonly whenSecured: <T>(items: readonly T[]) => readonly (T | string)[];
}

/** What the list of each field gets for metrics over TLS. `secret`: its name. */
const securedParts = (secret: string, port: number | string) => {
  const [config, keys]: readonly Mounted[] = [
    volumeOf('config', { configMap: { name } }, configDirectory),
    volumeOf('certificates', { secret: { secretName: secret, defaultMode: 0o440 } }, certificates),
  ] as const;
  const mounted = [config, keys].flatMap((one) => one ?? []);
  return {
    args: [`--config=${configDirectory}/config.yaml`],
    // Of the file that is read at the start alone: so another port is another pod.
    ports: [{ name: 'metrics', containerPort: port }],
    volumeMounts: mounted.map(({ mount }) => mount),
    volumes: mounted.map(({ volume }) => volume),
  };
};

function volumeOf(which: string, source: object, mountPath: string): Mounted {
  return { volume: { name: which, ...source }, mount: { name: which, mountPath, readOnly: true } };
}

const inNamespace = (kind: string, version = 'v1') => ({ apiVersion: version, kind, metadata: { name, labels } });

const account = () => ({ ...inNamespace('ServiceAccount'), automountServiceAccountToken: false });

const securedConfig = (port: number | string) => ({
  ...inNamespace('ConfigMap'),
  data: {
    'config.yaml': toYaml({
      apiVersion,
      kind: 'Configuration',
      preset: 'kubeadm',
      metrics: {
        bindAddress: `:${port}`,
        certFile: `${certificates}/tls.crt`,
        keyFile: `${certificates}/tls.key`,
        clientCaFile: `${certificates}/ca.crt`,
      },
    }),
  },
});

function daemonSet(values: Values, secured: ReturnType<typeof securedParts>): object {
  const { whenSecured, probePort: port } = values;
  const image = { image: `${values.repository}:${values.tag}`, imagePullPolicy: values.pullPolicy };
  const common = { terminationMessagePolicy: 'FallbackToLogsOnError' };
  // Without SELinux the label has no effect. systemd takes calls from no other domain of containers.
  const seLinuxOptions = { type: 'spc_t', level: 's0' };
  const shared = pathsOfPod.map((path) =>
    hostPath(path.slice(1).replaceAll('/', '-'), path, {
      readOnly: false,
      type: path.startsWith('/run/systemd') ? 'Directory' : 'DirectoryOrCreate',
    }),
  );
  const install = {
    name: 'install',
    ...image,
    args: values.install,
    resources: { requests: { cpu: '10m', memory: '64Mi' }, limits: { memory: '250Mi' } },
    securityContext: {
      runAsUser: 0,
      runAsGroup: 0,
      ...leastPrivileges,
      seLinuxOptions,
      appArmorProfile: { type: 'Unconfined' },
    },
    ...common,
    volumeMounts: shared.map(({ mount }) => mount),
  };
  const probe = (path: string) => ({
    httpGet: { host: '127.0.0.1', path, port },
    periodSeconds: 30,
    timeoutSeconds: 15,
  });
  const exporter = {
    name: 'exporter',
    ...image,
    args: ['exporter', metricsFile, `--health-probe-bind-address=127.0.0.1:${port}`, ...whenSecured(secured.args)],
    ports: [{ name: 'probes', containerPort: port }, ...whenSecured(secured.ports)],
    livenessProbe: { ...probe('/livez'), failureThreshold: 4 },
    readinessProbe: { ...probe('/readyz'), periodSeconds: 10 },
    resources: { requests: { cpu: '5m', memory: '48Mi' }, limits: { memory: '128Mi' } },
    securityContext: { runAsNonRoot: true, runAsUser: nobody, runAsGroup: nobody, ...leastPrivileges, seLinuxOptions },
    ...common,
    volumeMounts: [metrics.mount, ...whenSecured(secured.volumeMounts)],
  };
  const spec = {
    serviceAccountName: name,
    automountServiceAccountToken: false,
    hostNetwork: true,
    priorityClassName: 'system-node-critical',
    nodeSelector: values.nodeSelector,
    tolerations: values.tolerations,
    securityContext: { fsGroup: nobody },
    initContainers: [install],
    containers: [exporter],
    volumes: [...[...shared, metrics].map(({ volume }) => volume), ...whenSecured(secured.volumes)],
  };
  return {
    ...inNamespace('DaemonSet', 'apps/v1'),
    spec: {
      selector: { matchLabels: labels },
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1 } },
      template: { metadata: { labels }, spec },
    },
  };
}

const initHost = ['init', 'host', '--from-pod', metricsFile];
const defaults = {
  pullPolicy: 'IfNotPresent',
  nodeSelector: { [controlPlaneLabel]: '' },
  tolerations: [{ operator: 'Exists' }],
};
const secretName = `${name}-metrics`;

/** Files by path below manifests/daemonset. `image`: without a tag. */
export function daemonSetManifests(image: string, version: string): Readonly<Record<string, string>> {
  return { ...kustomize(image, version), ...chart(image, version) };
}

function kustomize(image: string, tag: string): Readonly<Record<string, string>> {
  const secured = securedParts(secretName, ports.metrics);
  const values = { ...defaults, repository: image, tag, install: initHost, probePort: ports.probes };
  const base = daemonSet({ ...values, whenSecured: () => [] }, secured);
  const add = (path: string, items: readonly unknown[]) =>
    items.map((value) => ({ op: 'add', path: `/spec/template/spec/${path}/-`, value }));
  const patch = [
    ...add('containers/0/args', secured.args),
    ...add('containers/0/ports', secured.ports),
    ...add('containers/0/volumeMounts', secured.volumeMounts),
    ...add('volumes', secured.volumes),
  ];
  return {
    'base/kustomization.yaml': `\
# kubectl apply -k: "init host" on each control-plane node, and an exporter of its metrics. See docs/fleet.md.
# Name your image in a kustomization of your own:
#
#   resources: [..., this directory]
#   images: [{ name: ${image}, newName: example.org/kube-cert-recovery, newTag: ${tag} }]
${toYaml({
  apiVersion: 'kustomize.config.k8s.io/v1beta1',
  kind: 'Kustomization',
  namespace,
  resources: ['namespace.yaml', 'serviceaccount.yaml', 'daemonset.yaml'],
})}`,
    'base/namespace.yaml': toYaml(nodeCaNamespace(namespace)),
    'base/serviceaccount.yaml': toYaml(account()),
    'base/daemonset.yaml': toYaml(base),
    'secured-metrics/kustomization.yaml': `\
# Metrics for a Prometheus on another machine, which shows a certificate: tls.crt, tls.key and ca.crt (of its clients)
# are in the Secret ${secretName}. See docs/fleet.md.
${toYaml({
  apiVersion: 'kustomize.config.k8s.io/v1alpha1',
  kind: 'Component',
  namespace,
  resources: ['configmap.yaml'],
  patches: [{ target: { kind: 'DaemonSet', name }, path: 'patch.yaml' }],
})}`,
    'secured-metrics/configmap.yaml': toYaml(securedConfig(ports.metrics)),
    'secured-metrics/patch.yaml': toYaml(patch),
  };
}

/** Lines of a template that stand for more than a text. The indentation is that of the line. */
const blocksOfTemplate: readonly (readonly [line: RegExp, block: (indent: string, key: string) => string])[] = [
  [
    /^( *)- FLAGS$/gm,
    (indent) =>
      [
        '{{- range .Values.flags }}',
        '{{- if hasPrefix "--metrics-file" . }}',
        '{{- fail "flags: must leave out --metrics-file: the exporter reads the one that the chart names" }}',
        '{{- end }}',
        '- {{ . | quote }}',
        '{{- end }}',
      ]
        .map((line) => `${indent}${line}`)
        .join('\n'),
  ],
  [/^( *)- IF_SECURED$/gm, (indent) => `${indent}{{- if .Values.metrics.secret }}`],
  [/^( *)- IF_UNINSTALL$/gm, (indent) => `${indent}{{- if .Values.uninstall }}`],
  [/^( *)- ELSE$/gm, (indent) => `${indent}{{- else }}`],
  [/^( *)- END$/gm, (indent) => `${indent}{{- end }}`],
  [
    /^( *)(\w+): VALUE$/gm,
    (indent, key) => `${indent}${key}:\n${indent}  {{- toYaml .Values.${key} | nindent ${indent.length + 2} }}`,
  ],
  [/"\{\{ int (.*) \}\}"/g, (value) => `{{ int ${value} }}`],
];

const template = (object: object): string =>
  blocksOfTemplate.reduce(
    (text, [line, block]) => text.replaceAll(line, (_, indent: string, key: string) => block(indent, key)),
    toYaml(object),
  );

function chart(image: string, version: string): Readonly<Record<string, string>> {
  const securePort = '{{ int .Values.metrics.securePort }}';
  const secured = securedParts('{{ .Values.metrics.secret }}', securePort);
  const probePort = '{{ int .Values.metrics.probePort }}';
  const values: Values = {
    repository: '{{ .Values.image.repository }}',
    tag: '{{ .Values.image.tag | default .Chart.AppVersion }}',
    pullPolicy: '{{ .Values.image.pullPolicy }}',
    install: ['IF_UNINSTALL', 'uninstall', 'host', '--from-pod', 'ELSE', ...initHost, 'FLAGS', 'END'],
    nodeSelector: 'VALUE',
    tolerations: 'VALUE',
    probePort,
    whenSecured: (items) => ['IF_SECURED', ...items, 'END'],
  };
  return {
    'chart/Chart.yaml': toYaml({
      apiVersion: 'v2',
      name: 'kube-cert-recovery',
      description: 'Zero-touch certificate recovery on each control-plane node',
      type: 'application',
      version,
      appVersion: version,
    }),
    'chart/values.yaml': `\
image:
  repository: ${image}
  tag: '' # that of the chart's version
  pullPolicy: ${defaults.pullPolicy}
# Flags of "init host" (docs/reference.md), such as --renew-before=30d, but for --metrics-file. A flag that is taken
# away here stays in the units: give --renew-before=none.
flags: []
# Has each node run "uninstall host" in place of it. Afterwards remove the release.
uninstall: false
metrics:
  # On the loopback address of the node: probes, and metrics for this node alone.
  probePort: ${ports.probes}
  # Secret with tls.crt, tls.key and ca.crt: then metrics are served at securePort to clients of that CA.
  secret: ''
  securePort: ${ports.metrics}
${toYaml({ nodeSelector: defaults.nodeSelector, tolerations: defaults.tolerations })}`,
    'chart/templates/serviceaccount.yaml': template(account()),
    'chart/templates/daemonset.yaml': template(daemonSet(values, secured)),
    'chart/templates/configmap.yaml': `{{- if .Values.metrics.secret }}\n${template(securedConfig(securePort))}{{- end }}\n`,
  };
}
