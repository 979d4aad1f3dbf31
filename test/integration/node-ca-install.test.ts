// `init node-ca` against a real API server, and the pod of its DaemonSet on a machine that the real kubeadm has made: as
// its manifest says, but for the container. The order is the story of that cluster.
import { cp, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import type { Io } from '../../cmd/io.ts';
import { systemClock } from '../../lib/clock.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { retiredAnnotation } from '../../lib/plan/union-rules.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { blocks, page } from '../docs/markdown.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { onMachine } from '../support/cluster/machine-shell.ts';
import { freePorts } from '../support/cluster/ports.ts';
import { eventually } from '../support/eventually.ts';

const namespace = 'kube-cert-recovery';
const name = 'kube-cert-recovery-node-ca';
const [init = '', staticPod = '', units = '', newNode = '', retire = '', uninstall = ''] = blocks(
  page('docs/node-ca.md'),
).flatMap(({ language, text }) => (language === 'sh' ? [text.trim()] : []));
const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount';

let root: string;
let controlPlane: ControlPlane;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'node-ca-install-'));
  controlPlane = await startControlPlane();
});
afterAll(async () => {
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

async function typed(argv: readonly string[], code = 0): Promise<string> {
  const said: string[] = [];
  const stream = { write: (text: string) => void said.push(text) };
  const { signal } = new AbortController();
  const io: Io = { argv, env: {}, cwd: root, stdout: stream, stderr: stream, signal };
  expect(await run(io), said.join('')).toBe(code);
  return said.join('');
}
const connecting = (): string => `--kubeconfig=${controlPlane.recoveryKubeconfig}`;
/** Types a command of the page. */
const asWritten = (command: string, ...more: readonly string[]): Promise<string> =>
  typed([...command.split(' ').slice(1), connecting(), ...more]);
const install = (...more: readonly string[]): Promise<string> => asWritten(init, ...more);

/** Objects in our namespace, as `kind/name`, but for what every namespace has. */
async function objects(): Promise<string[]> {
  const kinds = 'daemonsets,configmaps,serviceaccounts,roles,rolebindings,secrets,deployments';
  const listed = await controlPlane.kubectl('get', kinds, '-n', namespace, '-o', 'name');
  return listed
    .trim()
    .split('\n')
    .map((one) => one.replace(/\.[a-z0-9.]+(?=\/)/, ''))
    .filter((one) => one !== '')
    .toSorted();
}
const own = ['configmap', 'daemonset', 'role', 'rolebinding', 'serviceaccount'].map((kind) => `${kind}/${name}`);
const object = async (kind: string, which: string, where = namespace): Promise<unknown> =>
  JSON.parse(await controlPlane.kubectl('get', kind, which, '-n', where, '-o', 'json'));
const bundles = async (): Promise<Record<string, string>> =>
  ((await object('configmap', 'node-ca')) as { data: Record<string, string> }).data;
/** As the API server keeps a text. */
const bundlesOfCluster = async (): Promise<Record<string, string>> => {
  const { data } = (await object('configmap', 'extension-apiserver-authentication', 'kube-system')) as {
    data: Record<string, string>;
  };
  return {
    'client-ca.crt': data['client-ca-file'] ?? '',
    'server-ca.crt': await readFile(controlPlane.servingCa, 'utf8'),
  };
};

describe('init node-ca', () => {
  it('says what the cluster does not publish, and makes nothing', async () => {
    const refused = ['init', 'node-ca', connecting(), '--image=i'];
    expect(await typed(refused, 1)).toContain('give --server');
    const missing = await typed([...refused, `--server=${controlPlane.url}`], 1);
    expect(missing).toContain('ConfigMap "kube-system/kube-root-ca.crt" has no "ca.crt"');
    await expect(controlPlane.kubectl('get', 'namespace', namespace)).rejects.toThrow('not found');
    const authority = await readFile(controlPlane.servingCa, 'utf8');
    const published = { apiVersion: 'v1', kind: 'ConfigMap', data: { 'ca.crt': authority } };
    const metadata = { name: 'kube-root-ca.crt', namespace: 'kube-system' };
    await controlPlane.apply(JSON.stringify({ ...published, metadata }));
    const kubeconfig = kubeconfigOf({ server: controlPlane.url }, {});
    const info = { name: 'cluster-info', namespace: 'kube-public' };
    await controlPlane.apply(JSON.stringify({ ...published, metadata: info, data: { kubeconfig } }));
  });

  it('prints all of it with --dry-run, and makes nothing', async () => {
    const said = await install('--dry-run');
    const kinds = said.split(/^---$/m).map((text) => (parseYaml(text) as { kind?: string } | null)?.kind);
    const wanted = ['Namespace', 'ConfigMap', 'ServiceAccount', 'Role', 'RoleBinding', 'ConfigMap', 'DaemonSet'];
    expect(kinds.filter((kind) => kind !== undefined)).toEqual(wanted);
    await expect(controlPlane.kubectl('get', 'namespace', namespace)).rejects.toThrow('not found');
  });

  it('makes exactly these objects; the bundles are what the cluster publishes', async () => {
    const said = await install();
    expect(await objects()).toEqual([...own, 'configmap/node-ca'].toSorted());
    expect(said.match(/^Created /gm)).toHaveLength(own.length + 2);
    const wanted = await bundlesOfCluster();
    for (const [key, text] of Object.entries(await bundles())) expect(text.trim()).toBe(wanted[key]?.trim());
    const { data } = (await object('configmap', name)) as { data: { kubeconfig: string } };
    expect(data.kubeconfig).toContain(controlPlane.url);
  });

  it('changes nothing when it is run again, and leaves a ConfigMap alone that is there', async () => {
    expect(await install()).toBe('Unchanged: all of it was there\n');
    const { cert } = await createAuthority(join(root, 'next'), { commonName: 'next' });
    const data = { 'client-ca.crt': await readFile(cert, 'utf8') };
    await controlPlane.kubectl('patch', 'configmap', 'node-ca', '-n', namespace, '-p', JSON.stringify({ data }));
    expect(await install()).toBe('Unchanged: all of it was there\n');
    expect(await bundles()).toMatchObject(data);
    expect(await install('--server=https://10.0.0.1:6443')).toContain(`Updated ConfigMap "${namespace}/${name}"`);
    await install();
  });

  it('writes what a new node begins with, by which its kubelet reaches the API server', async () => {
    const render = (): Promise<string> => asWritten(newNode);
    expect((await render()).match(/^Wrote /gm)).toHaveLength(4);
    expect((await render()).match(/^Unchanged: /gm)).toHaveLength(4);
    const below = (path: string): string => join(root, 'new-node', path);
    const data = await bundles();
    const paths = ['etc/kubernetes/pki/ca.crt', 'etc/kubernetes/pki/server-ca.crt'];
    const texts = await Promise.all(paths.map((path) => readFile(below(path), 'utf8')));
    expect(texts).toEqual([data['client-ca.crt'], data['server-ca.crt']]);
    const conf = 'etc/kubernetes/bootstrap-kubelet.conf';
    expect((await stat(below(conf))).mode & 0o777).toBe(0o600);
    const { write_files: files } = parseYaml(await readFile(below('cloud-config.yaml'), 'utf8')) as {
      write_files: readonly { path: string; content: string; permissions: string }[];
    };
    for (const { path, content } of files) expect(await readFile(below(path), 'utf8')).toBe(content);
    expect(files.map(({ permissions }) => permissions)).toEqual(['0644', '0644', '0600']);
    // As on the node, but for the root of its paths.
    const token = (await controlPlane.kubectl('create', 'token', name, '-n', namespace)).trim();
    await writeFile(below('etc/kubernetes/bootstrap-token'), token);
    const kubeconfig = join(root, 'bootstrap.conf');
    await writeFile(kubeconfig, (await readFile(below(conf), 'utf8')).replaceAll('/etc/', `${root}/new-node/etc/`));
    const connection = await openConnection({ kubeconfigFile: kubeconfig, clock: systemClock, userAgent: 'test' });
    const asked = connection.request({ method: 'GET', path: '/version', signal: AbortSignal.timeout(10_000) });
    expect(await asked).toHaveProperty('gitVersion');
    await connection.close();
  });

  it('writes nothing for a new node where a bundle is garbled', async () => {
    const before = await bundles();
    const patch = async (data: object): Promise<void> => {
      await controlPlane.kubectl('patch', 'configmap', 'node-ca', '-n', namespace, '-p', JSON.stringify({ data }));
    };
    await patch({ 'server-ca.crt': 'garbage' });
    const said = await typed(['init', 'node-ca', connecting(), '--render=other'], 1);
    expect(said).toContain(`ConfigMap "${namespace}/node-ca" server-ca.crt`);
    await expect(stat(join(root, 'other'))).rejects.toThrow('ENOENT');
    await patch(before);
  });

  it('gives its account this ConfigMap to read, and nothing else', async () => {
    const as = [`--as=system:serviceaccount:${namespace}:${name}`, '-n', namespace];
    expect(await controlPlane.kubectl('get', 'configmap', 'node-ca', '-o', 'name', ...as)).toBe('configmap/node-ca\n');
    for (const refused of [
      ['get', 'configmap', name],
      ['get', 'configmaps'],
      ['get', 'secrets'],
      ['patch', 'configmap', 'node-ca', '-p', '{"data":{"a":"b"}}'],
      ['get', 'nodes'],
    ])
      await expect(controlPlane.kubectl(...refused, ...as), refused.join(' ')).rejects.toThrow('forbidden');
  });

  it('leaves a pod that adds a CA of the ConfigMap to the files of its machine', async () => {
    await using machine = await KubeadmMachine.create();
    for (const directory of ['var/lib/kubelet', 'own/account'])
      await mkdir(join(machine.root, directory), { recursive: true });
    // ca.crt is the file of a signer here.
    const clientCAFile = '/etc/kubernetes/pki/kubelet-clients.crt';
    await cp(machine.path('pki/ca.crt'), machine.path('pki/kubelet-clients.crt'));
    const settings = { kind: 'KubeletConfiguration', authentication: { x509: { clientCAFile } } };
    await writeFile(join(machine.root, 'var/lib/kubelet/config.yaml'), JSON.stringify(settings));
    const { spec } = (await object('daemonset', name)) as DaemonSet;
    const [port = 0] = await freePorts(1); // its own is the same on every machine
    const args = spec.template.spec.containers[0].args.map((arg) => arg.replace(/(?<=127\.0\.0\.1:)\d+/, String(port)));
    const { data } = (await object('configmap', name)) as { data: { kubeconfig: string } };
    await writeFile(join(machine.root, 'own/kubeconfig'), data.kubeconfig);
    const token = await controlPlane.kubectl('create', 'token', name, '-n', namespace);
    await writeFile(join(machine.root, 'own/account/token'), token.trim());
    await writeFile(join(machine.root, 'own/account/ca.crt'), await readFile(controlPlane.servingCa));
    const place = `mkdir /etc/kube-cert-recovery && cp "$1/own/kubeconfig" /etc/kube-cert-recovery
mkdir -p ${serviceAccount} && cp "$1"/own/account/* ${serviceAccount}
`;
    const stopped = `& until [ -e "$1/stop" ]; do sleep 0.1; done; kill $!; wait $!`;
    const command = `kube-cert-recovery ${args.join(' ')} ${stopped}`;
    const running = onMachine(machine.root, command, { place, network: true });
    const wanted = await bundles();
    const holds = (read: () => Promise<string>, key: string): Promise<void> =>
      eventually(async () => expect(await read()).toContain(wanted[key]?.trim()));
    await holds(() => readFile(machine.path('pki/kubelet-clients.crt'), 'utf8'), 'client-ca.crt');
    for (const conf of ['kubelet.conf', 'controller-manager.conf', 'scheduler.conf', 'admin.conf', 'super-admin.conf'])
      await holds(() => authorityIn(machine.path(conf)), 'server-ca.crt');
    await writeFile(join(machine.root, 'stop'), '');
    const { stderr, code } = await running;
    expect(code, stderr).toBe(0);
    expect(stderr).not.toMatch(/"event":"(?:run|watch)\.failed"/);
  });

  it('is told the CA that is to leave by the annotation of the page', async () => {
    const [, ...args] = retire.replace('FINGERPRINT', '0f3a').split(' ');
    expect(await controlPlane.kubectl(...args)).toContain('annotated');
    const { metadata } = (await object('configmap', 'node-ca')) as { metadata: { annotations: object } };
    expect(metadata.annotations).toMatchObject({ [retiredAnnotation]: 'SHA256:0f3a' });
  });

  it('prints a static pod that asks as its kubelet, which may read that ConfigMap then', async () => {
    const as = [
      '--as=system:node:node1',
      '--as-group=system:nodes',
      '--as-group=system:authenticated',
      '-n',
      namespace,
    ];
    const read = () => controlPlane.kubectl('get', 'configmap', 'node-ca', '-o', 'name', ...as);
    await expect(read()).rejects.toThrow('forbidden');
    const said = await asWritten(staticPod);
    expect(said).toMatch(/^# Created RoleBinding /m);
    expect(parseYaml(said)).toMatchObject({ kind: 'Pod', metadata: { name, namespace: 'kube-system' } });
    expect(await read()).toBe('configmap/node-ca\n');
    await expect(controlPlane.kubectl('get', 'configmap', name, ...as)).rejects.toThrow('forbidden');
    const again = await asWritten(staticPod);
    expect(again).toMatch(/^# Unchanged: /);
    expect(parseYaml(again)).toEqual(parseYaml(said));
  });
});

describe('init node-ca without an image', () => {
  it('makes the ConfigMap, and lets kubelets read it: no pods', async () => {
    const printed = await asWritten(units, '-n', 'other', '--dry-run');
    const kinds = printed.split(/^---$/m).map((text) => (parseYaml(text) as { kind?: string } | null)?.kind);
    const wanted = ['Namespace', 'ConfigMap', 'Role', 'RoleBinding'];
    expect(kinds.filter((kind) => kind !== undefined)).toEqual(wanted);
    expect(await asWritten(units)).toContain('follow ConfigMap "kube-cert-recovery/node-ca" within an hour');
    expect(await typed(['init', 'node-ca', '--static-pod', connecting()], 2)).toContain('--image');
  });
});

describe('uninstall node-ca', () => {
  it('takes away what is in the namespace that it is given, and nothing else', async () => {
    const other = ['-n', 'other'];
    await install(...other);
    const before = await objects();
    const said = await asWritten(uninstall, ...other);
    expect(said).toContain(`Removed DaemonSet "other/${name}"`);
    expect(said).not.toContain(`"${namespace}/`);
    expect(said).toContain('ConfigMap "other/node-ca" stays');
    expect(await objects()).toEqual(before);
  });

  it('names with --dry-run what it would remove', async () => {
    const before = await objects();
    expect((await asWritten(uninstall, '--dry-run')).match(/^Would remove /gm)).toHaveLength(before.length - 1);
    expect(await objects()).toEqual(before);
  });

  it('takes all away but the ConfigMap of bundles, and says so', async () => {
    const said = await asWritten(uninstall);
    expect(said).toContain(`Removed DaemonSet "${namespace}/${name}"`);
    expect(said).toContain(`ConfigMap "${namespace}/node-ca" stays`);
    expect(await objects()).toEqual(['configmap/node-ca']);
    expect(await asWritten(uninstall)).toMatch(/^Nothing to remove in namespace "kube-cert-recovery"\.\n/);
  });
});

interface DaemonSet {
  readonly spec: { readonly template: { readonly spec: { readonly containers: [{ readonly args: string[] }] } } };
}

/** The CAs in a kubeconfig. */
async function authorityIn(file: string): Promise<string> {
  const { clusters } = parseYaml(await readFile(file, 'utf8')) as {
    clusters: [{ cluster: { 'certificate-authority-data': string } }];
  };
  return Buffer.from(clusters[0].cluster['certificate-authority-data'], 'base64').toString();
}
