// For each relation of trust the handshake that needs it, or the token, made with the machine's own files and processes.
// A probe resolves to whether it succeeds.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { createRequest } from '../certificates/requests.ts';
import { eventually } from '../eventually.ts';
import { advertiseAddress } from './kubeadm-machine.ts';
import type { TrustWorld } from './trust-world.ts';

const api = `https://${advertiseAddress}:6443`;

export type Probe = (world: TrustWorld) => Promise<boolean>;

let made = 0;
const newName = (prefix: string): string => {
  made += 1;
  return `${prefix}${made}`;
};

/** With a kubeconfig: R9 where the server is refused, R10 where the client is. */
const asHolder =
  (name: string): Probe =>
  async ({ running, machine }) =>
    (await running.inNetwork(running.kubectl, `--kubeconfig=${machine.path(name)}`, 'get', '--raw=/api')).code === 0;

const statusOf = async (world: TrustWorld, ...args: readonly string[]): Promise<string> =>
  (await world.curl('-k', '-o', '/dev/null', '-w', '%{http_code}', ...args, `${api}/api`)).stdout;

const withToken = async (world: TrustWorld, token: string): Promise<boolean> =>
  (await statusOf(world, '-H', `Authorization: Bearer ${token}`)) === '200';

/** kube-apiserver as a front proxy that says who the user is. */
const asFrontProxy =
  (url: string): Probe =>
  async (world) => {
    const { cert, key } = world.pair('front-proxy-client');
    const { stdout } = await world.curl('-k', '--cert', cert, '--key', key, '-H', 'X-Remote-User: ca-probe', url);
    return stdout.includes('ca-probe');
  };

/** kube-apiserver as a client of the kubelet. */
const toKubelet: Probe = async ({ running }) =>
  (await running.asAdmin('get', '--raw=/api/v1/nodes/node1/proxy/metrics')).stdout.includes('# HELP');

/** A certificate that kube-controller-manager has signed for a kubelet. */
async function signed(world: TrustWorld, signer: string, usage: string): Promise<{ cert: string; key: string }> {
  const { running, machine } = world;
  const name = newName('request');
  const key = join(machine.root, `${name}.key`);
  const extensions = usage === 'server auth' ? [`subjectAltName = IP:${advertiseAddress}`] : [];
  const { key: fresh } = await world.leaf(world.stranger, { commonName: name });
  await writeFile(key, await readFile(fresh));
  const subject = ['O=system:nodes', 'CN=system:node:node1'];
  const pem = await createRequest({ subject, keyFile: key, extensions });
  await running.apply({
    apiVersion: 'certificates.k8s.io/v1',
    kind: 'CertificateSigningRequest',
    metadata: { name },
    spec: {
      signerName: `kubernetes.io/${signer}`,
      usages: ['digital signature', usage],
      request: Buffer.from(pem).toString('base64'),
    },
  });
  await running.asAdmin('certificate', 'approve', name);
  const text = await eventually(async () => {
    const { stdout } = await running.asAdmin('get', 'csr', name, '-o', 'jsonpath={.status.certificate}');
    expect(stdout).not.toBe('');
    return stdout;
  });
  const cert = join(machine.root, `${name}.crt`);
  await writeFile(cert, Buffer.from(text, 'base64'));
  return { cert, key };
}

const asSignedClient: Probe = async (world) => {
  const { cert, key } = await signed(world, 'kube-apiserver-client-kubelet', 'client auth');
  return (await statusOf(world, '--cert', cert, '--key', key)) === '200';
};

const toSignedKubelet: Probe = async (world) => {
  const { cert, key } = await signed(world, 'kubelet-serving', 'server auth');
  const place = '/var/lib/kubelet/pki/kubelet';
  await world.write(`${place}.crt`, await readFile(cert));
  await world.write(`${place}.key`, await readFile(key));
  await world.startKubeletServer();
  return toKubelet(world);
};

const withTokenOfSecret: Probe = async (world) => {
  const name = newName('token');
  const annotations = { 'kubernetes.io/service-account.name': 'default' };
  await eventually(() =>
    world.running.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'kubernetes.io/service-account-token',
      metadata: { name, namespace: 'default', annotations },
    }),
  );
  const token = await eventually(async () => {
    const { stdout } = await world.running.asAdmin('get', 'secret', name, '-o', 'jsonpath={.data.token}');
    expect(stdout).not.toBe('');
    return Buffer.from(stdout, 'base64').toString();
  });
  return withToken(world, token);
};

const withTokenOfPod: Probe = async (world) => {
  const { stdout } = await world.running.asAdmin('create', 'token', 'default');
  return withToken(world, stdout.trim());
};

/** With the CA that kube-controller-manager gives to every Pod. */
const asPod: Probe = async (world) => {
  const flag = (await world.machine.flagsOf('kube-controller-manager')).find((one) =>
    one.startsWith('--root-ca-file='),
  );
  const wanted = await readFile(flag?.replace(/^[^=]*=/, '') ?? '', 'utf8');
  const file = join(world.machine.root, newName('root-ca'));
  await eventually(async () => {
    const { stdout } = await world.running.asAdmin(
      'get',
      'configmap',
      'kube-root-ca.crt',
      '-o',
      'jsonpath={.data.ca\\.crt}',
    );
    expect(stdout.trim()).toBe(wanted.trim());
  });
  await writeFile(file, wanted);
  return (await world.curl('--cacert', file, `${api}/livez`)).code === 0;
};

/** As another member of etcd, which has the same files. */
const asPeer: Probe = async (world) => {
  const { cert, key } = world.pair('etcd/peer');
  const ca = world.ca('etcd/ca').cert;
  const url = `https://${advertiseAddress}:2380/version`;
  // Members speak HTTP/1.1 there.
  return (await world.curl('--http1.1', '--cacert', ca, '--cert', cert, '--key', key, url)).code === 0;
};

/** kube-apiserver with etcd, in both directions: each of its requests needs it. */
const isServed: Probe = async ({ running }) => (await running.asAdmin('get', '--raw=/readyz/etcd')).stdout === 'ok';

/** etcd's gateway, which is a client of etcd with its serving certificate. */
const atGateway: Probe = async (world) => {
  const { cert, key } = world.pair('apiserver-etcd-client');
  const ca = world.ca('etcd/ca').cert;
  const asked = [
    '--cacert',
    ca,
    '--cert',
    cert,
    '--key',
    key,
    '-d',
    '{}',
    'https://127.0.0.1:2379/v3/maintenance/status',
  ];
  return (await world.curl(...asked)).stdout.includes('"version"');
};

const all =
  (...probes: readonly Probe[]): Probe =>
  async (world) => {
    for (const probe of probes) if (!(await probe(world))) return false;
    return true;
  };

/** A process that runs has loaded its pairs. */
const runs: Probe = all(isServed, asHolder('controller-manager.conf'));

export const probes = {
  R1: asSignedClient,
  R2: asFrontProxy(`${api}/api/v1/nodes`),
  R3: toKubelet,
  R4: toSignedKubelet,
  R5: toKubelet,
  R6: withTokenOfSecret,
  R7: withTokenOfPod,
  R8: asPod,
  R9: asHolder('controller-manager.conf'),
  R10: asHolder('scheduler.conf'),
  R11: isServed,
  R12: all(isServed, atGateway),
  R13: asPeer,
  R14: asSignedClient,
  R15: runs,
  R16: asFrontProxy('https://127.0.0.1:10257/metrics'),
} as const satisfies Readonly<Record<string, Probe>>;
