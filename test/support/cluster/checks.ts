// What others say of a recovered control plane: openssl of every leaf, kubectl with every client certificate, the
// controller manager by a signed request, the aggregator by an API behind it, the scheduler by a pod.
import { execFile } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { CaBundle, ResolvedTarget } from '../../../lib/inventory/model.ts';
import { systemClock } from '../../../lib/clock.ts';
import { proveServed } from '../../../lib/proof/served.ts';
import { eventually } from '../eventually.ts';
import type { RecoveryWorld } from './recovery-world.ts';
import { sampleApiPath } from './sample-api.ts';

const run = promisify(execFile);

/** One sentence for each check that held; throws at the first that does not. */
export async function* checkRecovered(world: RecoveryWorld): AsyncGenerator<string, void, undefined> {
  yield await leavesVerify(world);
  yield await etcdServes(world);
  yield await clientsAuthenticate(world);
  yield await requestIsSigned(world);
  yield await aggregatedApiAnswers(world);
  yield await podIsScheduled(world);
}

/** `openssl verify` of every leaf against the bundle of its signer, as the API has it or as it lies on disk. */
export async function leavesVerify(world: RecoveryWorld): Promise<string> {
  const { artefacts } = world.resolved;
  const targets = artefacts.filter((row): row is ResolvedTarget => row.kind === 'target');
  const purposes = { client: ['sslclient'], serving: ['sslserver'], peer: ['sslclient', 'sslserver'] } as const;
  for (const target of targets) {
    const bundle = artefacts.find(
      (row): row is CaBundle => row.kind === 'caBundle' && row.signers.includes(target.issuer ?? ''),
    );
    if (bundle === undefined) throw new Error(`no bundle holds the signer of ${target.name}`);
    const ca = join(world.root, `${bundle.name}.pem`);
    await writeFile(ca, await bundleText(world, bundle));
    for (const purpose of purposes[target.usage]) {
      const leaf = world.file(target.name, 'tls.crt');
      await run('openssl', ['verify', '-x509_strict', '-purpose', purpose, '-CAfile', ca, leaf]);
    }
  }
  return `openssl verify: ${targets.length} leaves are good against their bundles`;
}

async function bundleText(world: RecoveryWorld, { location, name }: CaBundle): Promise<string> {
  if (location.kind !== 'configMap') return world.read(name, 'ca-bundle.crt');
  const { namespace } = location;
  return world.controlPlane.kubectl(
    'get',
    'configmap',
    location.name,
    '-n',
    namespace,
    '-o',
    'jsonpath={.data.ca-bundle\\.crt}',
  );
}

const users = {
  admin: 'kubernetes-admin',
  'kube-controller-manager': 'system:kube-controller-manager',
  'kube-scheduler': 'system:kube-scheduler',
} as const;

/** kubectl with each rendered kubeconfig is known by its name. */
export async function clientsAuthenticate(world: RecoveryWorld): Promise<string> {
  for (const [component, user] of Object.entries(users)) {
    const kubeconfig = world.rendered.kubeconfigs[component] ?? '';
    const args = ['auth', 'whoami', `--kubeconfig=${kubeconfig}`, '-o', 'jsonpath={.status.userInfo.username}'];
    const name = await world.controlPlane.kubectl(...args);
    if (name !== user) throw new Error(`kubectl as ${component} is "${name}", wanted "${user}"`);
  }
  return `kubectl: ${Object.values(users).join(', ')} are known by their new certificates`;
}

/** etcd answers with the certificate that lies on disk now. */
export async function etcdServes(world: RecoveryWorld): Promise<string> {
  const expected = new X509Certificate(await world.read('etcd-server')).fingerprint256
    .replaceAll(':', '')
    .toLowerCase();
  const result = await proveServed({
    host: '127.0.0.1',
    port: world.controlPlane.ports.etcd,
    serverName: 'localhost',
    expected,
    clock: systemClock,
    signal: AbortSignal.timeout(60_000),
  });
  if (result.state !== 'proven') throw new Error(result.message);
  return 'etcd: the renewed certificate is served, and kube-apiserver works with its renewed client certificate';
}

/** A request that is approved is signed, by the renewed signer. */
export async function requestIsSigned(world: RecoveryWorld): Promise<string> {
  const { controlPlane, root } = world;
  const [key, csr, cert] = ['key', 'csr', 'crt'].map((ending) => join(root, `request.${ending}`)) as [
    string,
    string,
    string,
  ];
  const name = `check-${createHash('sha256')
    .update(await world.read('csr-signer'))
    .digest('hex')
    .slice(0, 12)}`;
  await run('openssl', [
    'req',
    '-new',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-keyout',
    key,
    '-out',
    csr,
    '-subj',
    '/CN=somebody',
  ]);
  const { stdout } = await run('base64', ['-w0', csr]);
  await controlPlane.apply(
    JSON.stringify({
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name },
      spec: { request: stdout, signerName: 'kubernetes.io/kube-apiserver-client', usages: ['client auth'] },
    }),
  );
  await controlPlane.kubectl('certificate', 'approve', name);
  const signed = await eventually(
    async () => {
      const text = await controlPlane.kubectl('get', 'csr', name, '-o', 'jsonpath={.status.certificate}');
      if (text === '') throw new Error('the request has not been signed');
      return Buffer.from(text, 'base64').toString();
    },
    { everyMs: 200 },
  );
  await writeFile(cert, signed);
  await run('openssl', ['verify', '-partial_chain', '-CAfile', world.file('csr-signer', 'tls.crt'), cert]);
  const asSomebody = ['--client-certificate', cert, '--client-key', key, '-o', 'jsonpath={.status.userInfo.username}'];
  const user = await run(controlPlane.kubectlCommand, [
    'auth',
    'whoami',
    `--server=${controlPlane.url}`,
    `--certificate-authority=${world.file('kube-apiserver-server-ca', 'ca-bundle.crt')}`,
    ...asSomebody,
  ]);
  if (user.stdout !== 'somebody') throw new Error(`the API server takes the new certificate for "${user.stdout}"`);
  return 'kube-controller-manager: a request was signed by the renewed signer, and the API server knows its holder';
}

/** The aggregated API answers through the renewed proxy client certificate. */
export async function aggregatedApiAnswers({ controlPlane }: RecoveryWorld): Promise<string> {
  await eventually(
    async () => {
      const { status } = await controlPlane.admin(sampleApiPath);
      if (status !== 200) throw new Error(`the aggregated API answers ${status}`);
    },
    { everyMs: 200 },
  );
  return 'kube-apiserver: an aggregated API answers through the renewed proxy client';
}

/** A pod finds its node. */
export async function podIsScheduled({ controlPlane }: RecoveryWorld): Promise<string> {
  const name = 'placed-after-recovery';
  await controlPlane.apply(
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'List',
      items: [
        { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node' } },
        {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name, namespace: 'default' },
          spec: {
            automountServiceAccountToken: false,
            tolerations: [{ operator: 'Exists' }],
            containers: [{ name: 'main', image: 'none' }],
          },
        },
      ],
    }),
  );
  await controlPlane.kubectl('patch', 'node', 'node', '--subresource=status', '--type=merge', '-p', nodeStatus);
  await eventually(
    async () => {
      const node = await controlPlane.kubectl('get', 'pod', name, '-o', 'jsonpath={.spec.nodeName}');
      if (node !== 'node') throw new Error('the pod has not been scheduled');
    },
    { everyMs: 200 },
  );
  return 'kube-scheduler: a new pod was placed on a node';
}

const nodeStatus = JSON.stringify({
  status: { allocatable: { cpu: '4', memory: '8Gi', pods: '10' }, capacity: { cpu: '4', memory: '8Gi', pods: '10' } },
});
