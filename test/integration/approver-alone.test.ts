// The approver without the rest of the program, against a real control plane: as `init approver` installs it on a machine,
// and as the Deployment of manifests/approver runs it.
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import type { Io } from '../../cmd/io.ts';
import { kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { accountName } from '../../lib/install/accounts.ts';
import { ownLabel } from '../../lib/install/apply.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { createLeaf } from '../support/certificates/certificates.ts';
import { kubeletRequest } from '../support/certificates/requests.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { Tool } from '../support/cluster/recovery-world.ts';
import { eventually } from '../support/eventually.ts';

const collection = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const namespace = 'kube-cert-recovery';
const name = accountName('approver');
const requester = 'requester';
const image = 'example.com/kube-cert-recovery:0.1.0';
const hour = 3_600_000;

let root: string;
let controlPlane: ControlPlane;
const tools: Tool[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'approver-alone-'));
  process.env['NODE_NAME'] = 'panda';
  const directory = join(root, 'control-plane');
  controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', 'kube-controller-manager'],
    directory,
    // What comes with tokens then knows both names of the API server, as on OpenShift.
    flags: { 'kube-controller-manager': { 'root-ca-file': join(directory, 'pki', 'trust-bundle.crt') } },
  });
  await controlPlane.kubectl('create', 'serviceaccount', requester);
  const role = '--clusterrole=system:node-bootstrapper';
  await controlPlane.kubectl('create', 'clusterrolebinding', requester, role, `--serviceaccount=default:${requester}`);
  const { pki } = controlPlane;
  const dates = { notBefore: new Date(Date.now() - 2 * hour), notAfter: new Date(Date.now() - hour) };
  const names = { commonName: 'system:node:panda', organization: 'system:nodes' };
  const { cert, key } = await createLeaf(join(root, 'leaf'), pki.clusterCa, { ...names, ...dates });
  await mkdir(join(root, 'kubelet/pki'), { recursive: true });
  await mkdir(join(root, 'kubernetes/manifests'), { recursive: true });
  const pem = (await readFile(cert, 'utf8')) + (await readFile(key, 'utf8'));
  await writeFile(join(root, 'kubelet/pki/kubelet-client-current.pem'), pem, { mode: 0o600 });
});
afterAll(async () => {
  for (const tool of tools) await tool.stop();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

async function typed(...argv: readonly string[]): Promise<string> {
  const said: string[] = [];
  const stream = { write: (text: string) => void said.push(text) };
  const { signal } = new AbortController();
  const io: Io = { argv, env: {}, cwd: root, stdout: stream, stderr: stream, signal };
  const exit = await run(io);
  expect(exit, said.join('')).toBe(0);
  return said.join('');
}

/** As this requester; resolves when the request is there. */
async function ask(csr: string, node = 'panda'): Promise<void> {
  const request = Buffer.from(await kubeletRequest(node)).toString('base64');
  const spec = { request, signerName: kubeletClientSigner, usages: ['digital signature', 'client auth'] };
  const file = join(root, `${csr}.json`);
  await writeFile(
    file,
    JSON.stringify({
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name: csr },
      spec,
    }),
  );
  await controlPlane.kubectl(
    'create',
    '-f',
    file,
    `--as=system:serviceaccount:default:${requester}`,
    ...groups.map((one) => `--as-group=${one}`),
  );
}
const groups = ['system:serviceaccounts', 'system:serviceaccounts:default', 'system:authenticated'];

interface Csr {
  readonly status?: {
    readonly certificate?: string;
    readonly conditions?: readonly { readonly type: string; readonly reason: string }[];
  };
}

const signed = (csr: string): Promise<Csr> =>
  eventually(async () => {
    const body = (await controlPlane.admin(`${collection}/${csr}`)).body as Csr;
    expect(body.status?.certificate).toBeDefined();
    return body;
  });

const requesters = [{ username: `system:serviceaccount:default:${requester}`, groups }];

describe('init approver', () => {
  const install = (...more: readonly string[]): Promise<string> =>
    installAgain(`--config=${join(root, 'approver.yaml')}`, ...more);
  const installAgain = (...more: readonly string[]): Promise<string> =>
    installFound(`--server=${controlPlane.url}`, ...more);
  const installFound = (...more: readonly string[]): Promise<string> =>
    typed('init', 'approver', `--out=${join(root, 'out')}`, ...here(), ...more);
  const here = (): readonly string[] => [
    `--kubeconfig=${controlPlane.recoveryKubeconfig}`,
    `--directory=kubernetesDir=${join(root, 'kubernetes')}`,
    `--directory=kubeletDir=${join(root, 'kubelet')}`,
  ];
  const manifest = (): string => join(root, 'kubernetes/manifests/kube-cert-recovery-approver.yaml');

  beforeAll(async () => {
    const config = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration', approver: { requesters } };
    await writeFile(join(root, 'approver.yaml'), JSON.stringify(config));
  });

  it('says what it would do, and does nothing, with --dry-run', async () => {
    const said = await install(`--image=${image}`, '--dry-run');
    expect(said).toContain('kind: ClusterRole');
    expect(said).toContain(`image: ${image}`);
    await expect(stat(join(root, 'out'))).rejects.toThrow('ENOENT');
    await expect(controlPlane.kubectl('get', 'namespace', namespace)).rejects.toThrow('not found');
  });

  it('writes what a pod needs, for root alone, and the manifest last', async () => {
    const said = await install(`--image=${image}`);
    expect(said.trim().split('\n').at(-1)).toBe(`Wrote ${manifest()}; the kubelet starts it now`);
    const own = join(root, 'out/approver');
    expect((await stat(own)).mode & 0o777).toBe(0o700);
    for (const file of await readdir(own)) expect((await stat(join(own, file))).mode & 0o777, file).toBe(0o600);
    const pod = parseYaml(await readFile(manifest(), 'utf8')) as { spec: { containers: [{ args: string[] }] } };
    expect(pod.spec.containers[0].args).toEqual(['--mode=approver', `--config=${join(own, 'config.yaml')}`]);
  });

  it('changes nothing when it is run again', async () => {
    expect(await install(`--image=${image}`)).toBe(`Unchanged: ${manifest()}\n`);
  });

  it('keeps its settings when it is run again without them, as for another image', async () => {
    const config = join(root, 'out/approver/config.yaml');
    const before = await readFile(config, 'utf8');
    const said = await installAgain('--image=example.com/kube-cert-recovery:0.2.0');
    expect(said).toBe(
      `Wrote ${manifest()}; the kubelet starts it now\nSettings: those of ${config}; others are given with --config.\n`,
    );
    expect(await readFile(config, 'utf8')).toBe(before);
    await install('--namespace=elsewhere');
    const again = await installAgain('--dry-run');
    expect(again).toContain('bootstrapNamespace: elsewhere');
    expect(again).not.toContain('namespace: kube-cert-recovery\n');
    await install(`--image=${image}`);
    await controlPlane.kubectl('delete', 'namespace', 'elsewhere', '--wait=false');
  });

  it('keeps the API server that it was given', async () => {
    const kubeconfig = join(root, 'out/approver/kubeconfig');
    const before = await readFile(kubeconfig, 'utf8');
    const said = await installFound(`--image=${image}`);
    expect(said).toContain(`\nAPI server: ${controlPlane.url}, as given before; another is given with --server.\n`);
    expect(await readFile(kubeconfig, 'utf8')).toBe(before);
  });

  it('says that it leaves requests for serving certificates, which nobody has set it to approve', async () => {
    const request = Buffer.from(await kubeletRequest('panda')).toString('base64');
    const signerName = 'kubernetes.io/kubelet-serving';
    const spec = { request, signerName, usages: ['digital signature', 'server auth'] };
    const body = { metadata: { name: 'serving' }, spec };
    expect((await controlPlane.admin(collection, { method: 'POST', body })).status).toBe(201);
    expect(await install(`--image=${image}`)).toMatch(/^Left pending: 1 for serving certificates of kubelets; /m);
    await controlPlane.kubectl('delete', 'csr', 'serving');
  });

  it('leaves an approver that works', async () => {
    tools.push(new Tool([`--config=${join(root, 'out/approver/config.yaml')}`, '--health-probe-bind-address=0']));
    await ask('by-static-pod');
    expect((await signed('by-static-pod')).status?.conditions).toMatchObject([{ reason: 'KubeCertRecovery' }]);
    await tools.at(-1)?.stop();
  });

  it('refuses to lose its identity while its pod is there, and waits for a pod that is about to end', async () => {
    const node = hostname().toLowerCase();
    const spec = { nodeName: node, containers: [{ name: 'approver', image, args: ['--mode=approver'] }] };
    const pod = { metadata: { name: `${name}-${node}`, annotations: { of: 'a static pod' } }, spec };
    const pods = '/api/v1/namespaces/kube-system/pods';
    expect((await controlPlane.admin(pods, { method: 'POST', body: pod })).status).toBe(201);
    const running = JSON.stringify({ status: { phase: 'Running' } });
    const namespaced = ['--namespace=kube-system', 'pod', `${name}-${node}`];
    await controlPlane.kubectl('patch', ...namespaced, '--subresource=status', '--type=merge', `--patch=${running}`);
    const said: string[] = [];
    const uninstall = (): Promise<number> => {
      const stream = { write: (text: string) => void said.push(text) };
      const argv = ['uninstall', '--part=approver', `--out=${join(root, 'out')}`, ...here()];
      return run({ argv, env: {}, cwd: root, stdout: stream, stderr: stream, signal: AbortSignal.timeout(60_000) });
    };
    expect(await uninstall()).toBe(1);
    expect(said.join('')).toContain(`approver: kube-system/${name}-${node}; later requests of kubelets`);
    await rename(manifest(), join(root, 'manifest'));
    const ended = uninstall();
    await eventually(() =>
      expect(said.at(-1)).toBe(`Waiting for pod "kube-system/${name}-${node}" to end: its manifest is gone.\n`),
    );
    await controlPlane.kubectl('delete', ...namespaced, '--force', '--grace-period=0');
    expect(await ended, said.join('')).toBe(0);
    expect(said.at(-1)).toContain('Removed ServiceAccount');
    await rename(join(root, 'manifest'), manifest());
    await install(`--image=${image}`);
  });

  it('leaves nothing after uninstall', async () => {
    const where = [`--out=${join(root, 'out')}`, `--directory=kubernetesDir=${join(root, 'kubernetes')}`];
    const removed = await typed('uninstall', 'approver', ...where, `--kubeconfig=${controlPlane.recoveryKubeconfig}`);
    expect(removed).toContain(`Removed ${manifest()}`);
    const [, next = ''] = /, remove it: kube-cert-recovery (.*)$/m.exec(removed) ?? [];
    expect(await typed(...next.split(' '))).toContain('Removed ClusterRole "kube-cert-recovery-approver"');
    expect(await readdir(join(root, 'out')).catch(() => [])).toEqual([]);
    expect(await readdir(join(root, 'kubernetes/manifests'))).toEqual([]);
    await leftInApi();
    await ask('after-uninstall');
    expect((await controlPlane.admin(`${collection}/after-uninstall`)).body).toMatchObject({ status: {} });
  });
});

async function leftInApi(): Promise<void> {
  const [label = ''] = Object.entries(ownLabel).map(([key, value]) => `${key}=${value}`);
  const kinds =
    'clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,secrets,configmaps,deployments,networkpolicies';
  expect(await controlPlane.kubectl('get', kinds, '--all-namespaces', '-l', label, '-o', 'name')).toBe('');
}

/** So many that several looks at once note that they have had their first certificate. */
const many = Array.from({ length: 8 }, (_, at) => `many-${at}`);

describe('the Deployment', () => {
  it('is taken by the API server, and two of its pods approve each request once', async () => {
    await controlPlane.kubectl('apply', '-f', 'manifests/approver/deployment.yaml');
    const { body } = await controlPlane.admin(`/api/v1/namespaces/${namespace}/configmaps/${name}`);
    const { data } = body as { data: { 'config.yaml': string; kubeconfig: string } };
    const token = (await controlPlane.kubectl('create', 'token', name, `--namespace=${namespace}`)).trim();
    await writeFile(join(root, 'token'), token, { mode: 0o600 });
    const kubeconfig = data.kubeconfig
      .replace('https://kubernetes.default.svc', controlPlane.url)
      .replaceAll(/\/var\/run\/secrets\/kubernetes\.io\/serviceaccount\/(ca\.crt|token)/g, (_, file: string) =>
        file === 'token' ? join(root, 'token') : controlPlane.pki.trustBundle,
      );
    await writeFile(join(root, 'kubeconfig'), kubeconfig, { mode: 0o600 });
    const config = parseYaml(data['config.yaml']) as { approver: object };
    const approver = {
      ...config.approver,
      kubeconfig: join(root, 'kubeconfig'),
      requesters,
      expectedNodes: ['one', 'two', ...many],
    };
    await writeFile(join(root, 'config.yaml'), JSON.stringify({ ...config, approver, healthProbeBindAddress: '0' }));
    delete process.env['NODE_NAME'];
    for (const node of many) await ask(`once-${node}`, node);
    const once = new Tool([`--config=${join(root, 'config.yaml')}`, '--once']);
    tools.push(once);
    expect(await once.ended).toBe(0);
    for (const node of many) await signed(`once-${node}`);
    const pods = [1, 2].map(() => new Tool([`--config=${join(root, 'config.yaml')}`]));
    tools.push(...pods);
    for (const node of ['one', 'two']) await ask(`by-deployment-${node}`, node);
    for (const node of ['one', 'two']) {
      expect((await signed(`by-deployment-${node}`)).status?.conditions).toHaveLength(1);
    }
    const approvals = () => pods.flatMap(({ lines }) => lines.filter(({ event }) => event === 'csr.approved'));
    await eventually(() => expect(approvals()).toHaveLength(2));
    for (const pod of pods) await pod.stop();
    expect(approvals()).toHaveLength(2);
  });

  it('lets nobody but the node reach its pods, which have no right to change that', async () => {
    const policy = (
      await controlPlane.admin(`/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies/${name}`)
    ).body as { spec: { podSelector: { matchLabels: object }; policyTypes: string[]; ingress?: unknown } };
    const { body } = await controlPlane.admin(`/apis/apps/v1/namespaces/${namespace}/deployments/${name}`);
    const { template } = (body as { spec: { template: { metadata: { labels: object } } } }).spec;
    expect(template.metadata.labels).toMatchObject(policy.spec.podSelector.matchLabels);
    expect(policy.spec.policyTypes).toEqual(['Ingress']);
    expect(policy.spec.ingress).toBeUndefined();
    const own = [`--namespace=${namespace}`, `--as=system:serviceaccount:${namespace}:${name}`];
    for (const verb of ['get', 'delete'])
      await expect(controlPlane.kubectl(verb, 'networkpolicy', name, ...own), verb).rejects.toThrow('forbidden');
  });

  it('leaves nothing after uninstall', async () => {
    const where = [`--out=${join(root, 'out')}`, `--kubeconfig=${controlPlane.recoveryKubeconfig}`];
    const removed = await typed('uninstall', '--part=approver', ...where);
    expect(removed).toContain(`Removed NetworkPolicy "${namespace}/${name}"`);
    await leftInApi();
  });

  it('leaves nothing when it is deleted', async () => {
    await controlPlane.kubectl('apply', '-f', 'manifests/approver/deployment.yaml');
    await controlPlane.kubectl('delete', '-f', 'manifests/approver/deployment.yaml');
    await leftInApi();
  });
});
