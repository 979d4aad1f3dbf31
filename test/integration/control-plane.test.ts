import { execFile, spawn } from 'node:child_process';
import type { X509Certificate } from 'node:crypto';
import { copyFile, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apiRequest } from '../support/cluster/api-client.ts';
import { createLeaf } from '../support/certificates/certificates.ts';
import { startControlPlane, type ControlPlane } from '../support/cluster/control-plane.ts';
import { choosePorts } from '../support/cluster/preparation.ts';
import { registerSampleApi, sampleApiPath } from '../support/cluster/sample-api.ts';
import { eventually } from '../support/eventually.ts';

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/** The certificate that is served for a name, verified against `ca`. */
async function served(controlPlane: ControlPlane, servername: string, caFile: string): Promise<X509Certificate> {
  const ca = await readFile(caFile);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port: controlPlane.port, servername, ca }, () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      if (certificate === undefined) reject(new Error('no certificate'));
      else resolve(certificate);
    });
    socket.on('error', reject);
  });
}

const configMap = (name: string): unknown => ({ metadata: { name }, data: { key: name } });
const configMaps = '/api/v1/namespaces/default/configmaps';

describe('startControlPlane() with etcd and kube-apiserver', () => {
  let controlPlane: ControlPlane;
  beforeAll(async () => {
    controlPlane = await startControlPlane();
  });
  afterAll(async () => controlPlane?.[Symbol.asyncDispose]());

  it('answers the admin by request and by kubectl', async () => {
    const { status, body } = await controlPlane.admin('/version');
    expect(status).toBe(200);
    expect(body).toMatchObject({ major: '1' });
    expect(await controlPlane.kubectl('auth', 'whoami', '-o', 'jsonpath={.status.userInfo.username}')).toBe(
      'test-admin',
    );
  });

  it('serves localhost-recovery by a CA of its own, all other names by the cluster CA', async () => {
    const recovery = await served(controlPlane, 'localhost-recovery', controlPlane.recoveryCa);
    expect(recovery.subjectAltName).toBe('DNS:localhost-recovery');
    const usual = await served(controlPlane, 'localhost', controlPlane.servingCa);
    expect(usual.subject).toBe('CN=kube-apiserver');
    await expect(served(controlPlane, 'localhost', controlPlane.recoveryCa)).rejects.toThrow(/verify|issuer/);
    await expect(served(controlPlane, 'localhost-recovery', controlPlane.servingCa)).rejects.toThrow(/verify|issuer/);
  });

  it('knows nobody without a token', async () => {
    const target = { port: controlPlane.port, caFile: controlPlane.recoveryCa, serverName: 'localhost-recovery' };
    expect((await apiRequest(target, configMaps)).status).toBe(403);
    expect((await apiRequest({ ...target, token: 'wrong' }, configMaps)).status).toBe(401);
  });

  it('refuses a client whose certificate has expired, and takes one that is valid', async () => {
    const config = async (name: string, notAfter: Date): Promise<string[]> => {
      const { cert, key } = await createLeaf(join(controlPlane.directory, name), controlPlane.pki.clusterCa, {
        commonName: name,
        organization: 'system:masters',
        notBefore: new Date('2020-01-01T00:00:00Z'),
        notAfter,
      });
      const { url, servingCa } = controlPlane;
      const server = [`--server=${url}`, `--certificate-authority=${servingCa}`, '--kubeconfig=/dev/null'];
      return [...server, `--client-certificate=${cert}`, `--client-key=${key}`, 'get', 'namespaces', '-o', 'name'];
    };
    const valid = await config('valid', new Date('2099-01-01T00:00:00Z'));
    expect(await controlPlane.kubectl(...valid)).toContain('namespace/default');
    const expired = await config('expired', new Date('2021-01-01T00:00:00Z'));
    await expect(controlPlane.kubectl(...expired)).rejects.toThrow(/Unauthorized|logged in/);
  });

  it('serves a pair that was renamed into place', async () => {
    const { serving, clusterCa } = controlPlane.pki;
    const next = await createLeaf(join(controlPlane.directory, 'next'), clusterCa, {
      commonName: 'next',
      usages: ['serverAuth'],
      dnsNames: ['localhost'],
    });
    await rename(next.cert, serving.cert);
    await rename(next.key, serving.key);
    await eventually(async () => {
      expect((await served(controlPlane, 'localhost', controlPlane.servingCa)).subject).toBe('CN=next');
    });
  });

  it('keeps data, port and directory over restart() and over kill() and start()', async () => {
    const { url } = controlPlane;
    expect((await controlPlane.admin(configMaps, { method: 'POST', body: configMap('one') })).status).toBe(201);
    const before = controlPlane.pids();
    await controlPlane.restart();
    expect((await controlPlane.admin(`${configMaps}/one`)).status).toBe(200);
    expect(before.filter(isAlive)).toEqual([]);

    expect((await controlPlane.admin(configMaps, { method: 'POST', body: configMap('two') })).status).toBe(201);
    await controlPlane.kill();
    expect(controlPlane.pids()).toEqual([]);
    await controlPlane.start();
    expect((await controlPlane.admin(`${configMaps}/two`)).status).toBe(200);
    expect(controlPlane.url).toBe(url);
  });

  it('leaves no process when it is stopped', async () => {
    const pids = controlPlane.pids();
    expect(pids.filter(isAlive)).toHaveLength(2);
    await controlPlane.stop();
    expect(pids.filter(isAlive)).toEqual([]);
  });
});

describe('startControlPlane()', () => {
  it('restarts an API server that ends by itself, and goes on in its directory', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'control-plane-'));
    try {
      const late = join(directory, 'late.crt');
      const flags = { 'kube-apiserver': { 'client-ca-file': late } };
      await using first = await startControlPlane({ directory, flags, restarts: 60, start: false });
      await first.start({ wait: false });
      await eventually(() => expect(first.process('kube-apiserver').restarted).toBeGreaterThan(0));
      await copyFile(first.pki.clusterCa.cert, late);
      await first.ready();
      await first.admin(configMaps, { method: 'POST', body: configMap('kept') });
      await first.stop();

      await using second = await startControlPlane({ directory, flags });
      expect(second.ports).toEqual(first.ports);
      expect((await second.admin(`${configMaps}/kept`)).status).toBe(200);
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  it('ends its processes also when the process that started them is killed', async () => {
    const library = new URL('../support/cluster/control-plane.ts', import.meta.url).href;
    const script = `
      const { startControlPlane } = await import(${JSON.stringify(library)});
      const { directory, pids } = await startControlPlane().then((it) => ({ directory: it.directory, pids: it.pids() }));
      console.log(JSON.stringify({ directory, pids }));`;
    const parent = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const output = await new Promise<string>((resolve) =>
      parent.stdout.once('data', (chunk) => resolve(String(chunk))),
    );
    const { directory, pids } = JSON.parse(output) as { directory: string; pids: number[] };
    expect(pids.filter(isAlive)).toHaveLength(2);
    parent.kill('SIGKILL');
    await eventually(() => expect(pids.filter(isAlive)).toEqual([]));
    await rm(directory, { recursive: true });
  });

  it('takes all certificates from flags, and then makes none', async () => {
    await using donor = await startControlPlane({ start: false, ports: await choosePorts() });
    const { pki } = donor;
    await copyFile(pki.serving.cert, join(donor.directory, 'elsewhere.crt'));
    await using controlPlane = await startControlPlane({
      ownPki: false,
      trust: { servingCa: pki.clusterCa.cert, recoveryCa: pki.recoveryCa.cert },
      flags: {
        etcd: pickCertificates(donor, 'etcd'),
        'kube-apiserver': {
          ...pickCertificates(donor, 'kube-apiserver'),
          'tls-cert-file': join(donor.directory, 'elsewhere.crt'),
        },
      },
    });
    expect(() => controlPlane.pki).toThrow('ownPki: false');
    expect(controlPlane.flags('kube-apiserver')['tls-cert-file']).toContain('elsewhere.crt');
    expect((await controlPlane.admin('/readyz')).status).toBe(200);
  });

  it('says why a component does not start, and leaves nothing running', async () => {
    const flags = { 'kube-apiserver': { 'client-ca-file': '/nowhere/ca.crt' } };
    await expect(startControlPlane({ flags })).rejects.toThrow(/kube-apiserver ended: code 1[^]*\/nowhere\/ca\.crt/);
  });

  it('runs the whole control plane: a pod is scheduled, a CSR signed, an aggregated API answers', async () => {
    await using controlPlane = await startControlPlane({
      components: ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'sample-apiserver'],
    });
    await registerSampleApi(controlPlane);
    await eventually(async () => expect((await controlPlane.admin(sampleApiPath)).status).toBe(200));
    await eventually(async () => {
      const { body } = await controlPlane.admin('/apis/coordination.k8s.io/v1/namespaces/kube-system/leases');
      const names = (body as { items: { metadata: { name: string } }[] }).items.map(({ metadata }) => metadata.name);
      expect(names).toEqual(expect.arrayContaining(['kube-controller-manager', 'kube-scheduler']));
    });
    // kube-controller-manager makes the same ServiceAccount.
    await eventually(() => controlPlane.apply(JSON.stringify({ apiVersion: 'v1', kind: 'List', items: nodeAndPod })));
    await controlPlane.apply(JSON.stringify(await signingRequest(controlPlane)));
    await controlPlane.kubectl('certificate', 'approve', 'test');
    await eventually(async () => {
      const path = 'jsonpath={.status.certificate}';
      expect(await controlPlane.kubectl('get', 'csr', 'test', '-o', path)).not.toBe('');
      expect(await controlPlane.kubectl('get', 'pod', 'test', '-o', 'jsonpath={.spec.nodeName}')).toBe('test');
    });
  });
});

const nodeAndPod = [
  {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'test' },
    status: { allocatable: { cpu: '1', memory: '1Gi', pods: '10' } },
  },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace: 'default' } },
  {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'test', namespace: 'default' },
    spec: { containers: [{ name: 'test', image: 'none' }], tolerations: [{ operator: 'Exists' }] },
  },
];

async function signingRequest(controlPlane: ControlPlane): Promise<unknown> {
  const key = join(controlPlane.directory, 'request.key');
  const args = ['req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key];
  const { stdout } = await promisify(execFile)('openssl', [...args, '-subj', '/CN=test']);
  return {
    apiVersion: 'certificates.k8s.io/v1',
    kind: 'CertificateSigningRequest',
    metadata: { name: 'test' },
    spec: {
      request: Buffer.from(stdout).toString('base64'),
      signerName: 'kubernetes.io/kube-apiserver-client',
      usages: ['client auth'],
    },
  };
}

/** The flags of `donor` that name its certificates: everything but places and addresses. */
function pickCertificates(
  donor: ControlPlane,
  name: 'etcd' | 'kube-apiserver',
): Record<string, string | readonly string[] | undefined> {
  const flags = Object.entries(donor.flags(name));
  return Object.fromEntries(
    flags.filter(([flag]) =>
      /^(tls|etcd-c|etcd-k|.*ca-file|.*cert|.*key|requestheader|service-account-[ks]|kubelet|proxy)/.test(flag),
    ),
  );
}
