// The DaemonSet of `init host`: the chart and the kustomize base make the same objects, a real API server takes them, and
// the commands of docs/fleet.md do what they say, but for the pods, which test/e2e/packages.test.ts runs.
import { execFile } from 'node:child_process';
import { mkdtemp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseYaml } from '../../lib/yaml.ts';
import { blocks, page, root, section } from '../docs/markdown.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import { builtOnce } from '../support/cluster/built-once.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';

const run = promisify(execFile);
const name = 'kube-cert-recovery-host';
const namespace = name;
const secret = `${name}-metrics`;

interface Container {
  readonly image: string;
  readonly args: readonly string[];
}
interface DaemonSet {
  readonly spec: {
    readonly template: {
      readonly spec: { readonly initContainers: readonly Container[]; readonly containers: readonly Container[] };
    };
  };
}
interface KubeObject {
  readonly kind: string;
  readonly metadata: { readonly namespace?: string };
}

/** A directory with a checkout of the project and the kustomization of the page. */
let scratch: string;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'daemonset-'));
  const helm = await builtOnce({
    module: 'test/helm',
    name: 'helm',
    what: 'helm',
    duration: '30 seconds',
    package: 'helm.sh/helm/v3/cmd/helm',
  });
  const kubectl = (await findBinaries(['kubectl'])).get('kubectl') ?? '';
  const commands = [helm, kubectl].map((path) => dirname(path));
  const home = join(scratch, 'home');
  env = { PATH: [...commands, '/usr/bin', '/bin'].join(':'), HOME: home, KUBECACHEDIR: join(home, 'kubectl') };
  await symlink(root, join(scratch, 'kube-cert-recovery'));
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

const sh = async (command: string): Promise<string> =>
  (await run('sh', ['-e', '-c', command], { cwd: scratch, env })).stdout;

/** Objects in any order; without the namespace, which Helm makes. */
function objectsIn(text: string): readonly KubeObject[] {
  const all = text.split(/^---$/m).map((one) => parseYaml(one) as KubeObject | null);
  const objects = all.flatMap((one) => (one === null || one.kind === 'Namespace' ? [] : one));
  const placed = objects.map(({ metadata, ...one }) => ({ ...one, metadata: { ...metadata, namespace } }));
  return placed.toSorted((one, other) => one.kind.localeCompare(other.kind));
}

const chart = async (...flags: readonly string[]): Promise<readonly KubeObject[]> =>
  objectsIn(
    await sh(`helm template own kube-cert-recovery/manifests/daemonset/chart -n ${namespace} ${flags.join(' ')}`),
  );

async function securedAt(port: number): Promise<object | undefined> {
  const objects = await chart(`--set metrics.secret=${secret}`, `--set metrics.securePort=${port}`);
  return objects.find(({ kind }) => kind === 'DaemonSet');
}

/** What a kustomization of its own makes, in a directory where kustomize may read the base. */
async function kustomized(lines: string): Promise<readonly KubeObject[]> {
  const directory = join(scratch, 'own');
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'kustomization.yaml'), lines);
  return objectsIn(await sh('kubectl kustomize own'));
}

const base = '../kube-cert-recovery/manifests/daemonset';
const kustomization = (): string => blocks(section(page('docs/fleet.md'), 'kustomize'))[0]?.text ?? '';
const commandsOf = (heading: string): readonly string[] =>
  blocks(section(page('docs/fleet.md'), heading)).flatMap(({ language, text }) => (language === 'sh' ? text : []));

describe('the chart', () => {
  it('makes the objects of the kustomize base', async () => {
    const objects = await chart();
    expect(objects.map(({ kind }) => kind)).toEqual(['DaemonSet', 'ServiceAccount']);
    expect(objects).toEqual(await kustomized(`resources: [${base}/base]\n`));
  });

  it('makes the objects of the base with secured metrics', async () => {
    const lines = `resources: [${base}/base]\ncomponents: [${base}/secured-metrics]\n`;
    const objects = await chart(`--set metrics.secret=${secret}`);
    expect(objects.map(({ kind }) => kind)).toEqual(['ConfigMap', 'DaemonSet', 'ServiceAccount']);
    expect(objects).toEqual(await kustomized(lines));
  });

  it('makes by the command of the page what the kustomization of the page makes', async () => {
    const [install = ''] = commandsOf('Helm');
    const template = install.replace('helm install', 'helm template').replace(/--create-namespace/, '');
    const objects = objectsIn(await sh(template));
    expect(objects).toEqual(await kustomized(kustomization().replace('kube-cert', '../kube-cert')));
    const { spec } = (objects[0] as unknown as DaemonSet).spec.template;
    for (const { image } of [...spec.initContainers, ...spec.containers])
      expect(image).toBe('example.org/kube-cert-recovery:0.1.0');
    expect(spec.initContainers[0]?.args.at(-1)).toBe('--renew-before=30d');
  });

  it('makes of other values what they say, and of "uninstall" what the page says', async () => {
    const values = ['tolerations=null', 'nodeSelector.zone=a', 'image.tag=0.2.0', 'metrics.probePort=12000'];
    const [made] = await chart(...values.map((one) => `--set ${one}`), "--set 'flags={--window=Sat 02:00-05:00}'");
    const { spec } = (made as unknown as DaemonSet).spec.template;
    expect(spec).toMatchObject({
      nodeSelector: { 'node-role.kubernetes.io/control-plane': '', zone: 'a' },
      initContainers: [
        { image: 'example.com/kube-cert-recovery:0.2.0', args: expect.arrayContaining(['--window=Sat 02:00-05:00']) },
      ],
      containers: [{ readinessProbe: { httpGet: { port: 12_000 } } }],
    });
    const removing = blocks(section(page('docs/fleet.md'), 'Remove'))[0]?.text ?? '';
    expect(await chart('--set uninstall=true')).toEqual(await kustomized(`resources: [${base}/base]\n${removing}`));
  });

  it('makes another pod for another port of the secured metrics', async () => {
    const [first, second] = await Promise.all([1, 2].map((port) => securedAt(port)));
    expect(first).not.toEqual(second);
  });

  it('refuses another file of metrics than that of the exporter', async () => {
    await expect(chart('--set flags={--metrics-file=/root/own}')).rejects.toThrow(/must leave out --metrics-file/);
  });

  it('has nothing that helm lint finds', async () => {
    expect(await sh('helm lint --strict --quiet kube-cert-recovery/manifests/daemonset/chart')).toBe('');
  });
});

describe('a real API server', () => {
  let controlPlane: ControlPlane;
  beforeAll(async () => {
    controlPlane = await startControlPlane();
    env = { ...env, KUBECONFIG: controlPlane.recoveryKubeconfig };
    await writeFile(join(scratch, 'kustomization.yaml'), kustomization());
  });
  afterAll(() => controlPlane?.[Symbol.asyncDispose]());

  const kubectl = (...args: readonly string[]): Promise<string> => controlPlane.kubectl('-n', namespace, ...args);
  const live = async (): Promise<DaemonSet> =>
    JSON.parse(await kubectl('get', 'daemonset', name, '-o', 'json')) as DaemonSet;

  it('takes the objects of kustomize, every field, and the pod where Pod Security is enforced', async () => {
    const [apply = ''] = commandsOf('kustomize');
    await sh(apply);
    await sh('kubectl apply -k . --server-side --force-conflicts --validate=strict');
    const { template } = (await live()).spec;
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'one', namespace }, spec: template.spec };
    await writeFile(join(scratch, 'pod.json'), JSON.stringify(pod));
    expect(await sh('kubectl create -f pod.json --dry-run=server -o name')).toBe('pod/one\n');
    const enforced = 'pod-security.kubernetes.io/enforce=baseline';
    await sh(`kubectl create namespace other && kubectl label namespace other ${enforced}`);
    await sh(`kubectl --namespace other create serviceaccount ${name}`);
    const elsewhere = { ...pod, metadata: { name: 'one', namespace: 'other' } };
    await writeFile(join(scratch, 'pod.json'), JSON.stringify(elsewhere));
    await expect(sh('kubectl create -f pod.json --dry-run=server')).rejects.toThrow(/violates PodSecurity/);
    const others = 'kubectl get namespace kube-cert-recovery -o jsonpath={.status.phase}';
    await sh('kubectl create namespace kube-cert-recovery');
    await sh('kubectl delete -k . --wait=false');
    expect(await sh(others)).toBe('Active');
  });

  it('takes the chart by the commands of the page, updates it and gives it back', async () => {
    // Deleted namespaces stay without kube-controller-manager.
    const own = (command: string): string =>
      command.replaceAll(/namespace kube-cert-recovery-host(?= |$)/gm, 'namespace own');
    const [install = ''] = commandsOf('Helm');
    await sh(own(install));
    const [create = ''] = commandsOf('Metrics');
    for (const file of ['tls.crt', 'tls.key', 'ca.crt']) await writeFile(join(scratch, file), 'x');
    await sh(own(create));
    const update = `helm upgrade kube-cert-recovery kube-cert-recovery/manifests/daemonset/chart --namespace own --reuse-values`;
    await sh(`${update} --set metrics.secret=${secret} --set image.tag=0.2.0`);
    const made = JSON.parse(await sh(`kubectl -n own get daemonset ${name} -o json`)) as DaemonSet;
    const { initContainers, containers } = made.spec.template.spec;
    expect(initContainers[0]).toMatchObject({ image: 'example.org/kube-cert-recovery:0.2.0' });
    expect(containers[0]?.args).toContain('--config=/etc/kube-cert-recovery/config.yaml');
    await sh('helm uninstall kube-cert-recovery --namespace own');
    expect(await sh('kubectl -n own get daemonset,configmap,serviceaccount -o name')).not.toContain(name);
  });
});
