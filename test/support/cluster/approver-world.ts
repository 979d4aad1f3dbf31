// A control plane with the approver installed, and the identities that ask it: their requests, what the program said of them
// and what became of them. The machine's own node is panda.
import { X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { kubeletClientSigner } from '../../../lib/bootstrap-identity.ts';
import { createLeaf } from '../certificates/certificates.ts';
import { writeKubeconfig } from '../certificates/kubeconfig.ts';
import { kubeletRequest } from '../certificates/requests.ts';
import { eventually } from '../eventually.ts';
import { accountToken, installApprover } from './approver-install.ts';
import { apiRequest, type ApiRequest, type ApiResponse } from './api-client.ts';
import { type ControlPlane, startControlPlane } from './control-plane.ts';
import { Tool } from './recovery-world.ts';

export const csrCollection = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const hour = 3_600_000;

export interface Csr {
  readonly metadata: { readonly name: string; readonly creationTimestamp: string };
  readonly status: {
    readonly certificate?: string;
    readonly conditions?: readonly { readonly type: string }[];
  };
}

/** A token, or the files of a client certificate. */
export type Identity = string | { readonly cert: string; readonly key: string };

export interface Sent {
  readonly name: string;
  readonly token: Identity;
  /** The text of spec.request: PEM, mostly. */
  readonly pem: string;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export class ApproverWorld implements AsyncDisposable {
  readonly controlPlane: ControlPlane;
  readonly tokens: { readonly approver: string; readonly bootstrapper: string };
  readonly configFile: string;
  readonly root: string;
  readonly #tools: Tool[] = [];

  private constructor(made: Pick<ApproverWorld, 'controlPlane' | 'tokens' | 'configFile' | 'root'>) {
    this.controlPlane = made.controlPlane;
    this.tokens = made.tokens;
    this.configFile = made.configFile;
    this.root = made.root;
  }

  /** `approver`: settings besides, in YAML's flow style: `requesters: [openshift]`. The certificate of panda has expired. */
  static async create(approver = 'expectedNodes: [newcomer]'): Promise<ApproverWorld> {
    const root = await mkdtemp(join(tmpdir(), 'approver-world-'));
    process.env['NODE_NAME'] = 'panda';
    const controlPlane = await startControlPlane({
      components: ['etcd', 'kube-apiserver', 'kube-controller-manager'],
      flags: { 'kube-apiserver': { 'enable-bootstrap-token-auth': 'true' } },
    });
    await installApprover(controlPlane);
    const tokens = {
      approver: await accountToken(controlPlane, 'approver'),
      bootstrapper: await accountToken(controlPlane, 'node-bootstrapper'),
    };
    const kubeconfig = await writeKubeconfig(join(root, 'kubeconfig'), {
      server: controlPlane.url,
      certificateAuthority: controlPlane.recoveryCa,
      tlsServerName: 'localhost-recovery',
      token: tokens.approver,
    });
    const nodeCertificate = join(root, 'pki', 'kubelet-client-current.pem');
    await mkdir(join(root, 'pki'));
    const notAfter = new Date(Date.now() - hour);
    const { cert, key } = await createLeaf(join(root, 'leaf'), controlPlane.pki.clusterCa, {
      commonName: 'system:node:panda',
      organization: 'system:nodes',
      notBefore: new Date(notAfter.getTime() - 24 * hour),
      notAfter,
    });
    await writeFile(nodeCertificate, (await readFile(cert, 'utf8')) + (await readFile(key, 'utf8')), { mode: 0o600 });
    const configFile = join(root, 'config.yaml');
    await writeFile(
      configFile,
      `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
modes: [approver]
regen: { clockSynchronised: true }
approver: { kubeconfig: ${kubeconfig}, nodeCertificate: ${nodeCertificate}, ${approver} }
log: { level: debug }
`,
    );
    return new ApproverWorld({ controlPlane, tokens, configFile, root });
  }

  start(...flags: readonly string[]): Tool {
    const tool = new Tool([`--config=${this.configFile}`, ...flags]);
    this.#tools.push(tool);
    return tool;
  }

  as(who: Identity, path: string, request: ApiRequest = {}): Promise<ApiResponse> {
    const { port, recoveryCa: caFile } = this.controlPlane;
    const identity = typeof who === 'string' ? { token: who } : { client: who };
    return apiRequest({ port, caFile, serverName: 'localhost-recovery', ...identity }, path, request);
  }

  /** A client certificate of the cluster's CA. */
  certificate(commonName: string, organization: string): Promise<Identity> {
    const { clusterCa } = this.controlPlane.pki;
    return createLeaf(join(this.root, commonName), clusterCa, { commonName, organization });
  }

  /** A token of kubeadm's kind. */
  async bootstrapToken(id: string): Promise<string> {
    const secret = 'a'.repeat(16);
    const body = {
      metadata: { name: `bootstrap-token-${id}` },
      type: 'bootstrap.kubernetes.io/token',
      stringData: {
        'token-id': id,
        'token-secret': secret,
        'usage-bootstrap-authentication': 'true',
        'auth-extra-groups': 'system:bootstrappers:kubeadm:default-node-token',
      },
    };
    const path = '/api/v1/namespaces/kube-system/secrets';
    expect(await this.controlPlane.admin(path, { method: 'POST', body })).toMatchObject({ status: 201 });
    return `${id}.${secret}`;
  }

  /** A token of a ServiceAccount that may create requests. */
  async mayAsk(inNamespace: string, account: string): Promise<string> {
    const { controlPlane } = this;
    const binding = `ask-${inNamespace}-${account}`;
    await controlPlane.kubectl('create', 'serviceaccount', account, `--namespace=${inNamespace}`);
    const role = '--clusterrole=system:node-bootstrapper';
    await controlPlane.kubectl(
      'create',
      'clusterrolebinding',
      binding,
      role,
      `--serviceaccount=${inNamespace}:${account}`,
    );
    return (await controlPlane.kubectl('create', 'token', account, `--namespace=${inNamespace}`)).trim();
  }

  async send(sent: Sent): Promise<void> {
    const { status, body } = await this.trySend(sent);
    expect(status, `${sent.name}: ${JSON.stringify(body).slice(0, 500)}`).toBe(201);
  }

  trySend({ name, token, pem, spec, metadata }: Sent): Promise<ApiResponse> {
    const usages = ['digital signature', 'client auth'];
    const request = Buffer.from(pem).toString('base64');
    const body = {
      metadata: { name, ...metadata },
      spec: { request, signerName: kubeletClientSigner, usages, ...spec },
    };
    return this.as(token, csrCollection, { method: 'POST', body });
  }

  /** What a kubelet of that node asks for, with our own bootstrap identity. */
  async ask(name: string, node: string): Promise<void> {
    await this.send({ name, token: this.tokens.bootstrapper, pem: await kubeletRequest(node) });
  }

  async csr(name: string): Promise<Csr> {
    return (await this.controlPlane.admin(`${csrCollection}/${name}`)).body as Csr;
  }

  issued(name: string): Promise<X509Certificate> {
    return eventually(
      async () => new X509Certificate(Buffer.from((await this.csr(name)).status.certificate ?? '', 'base64')),
    );
  }

  /** Of the requests of which the names begin so. */
  async eventsOf(prefix: string): Promise<readonly { name: string; reason: string; note: string }[]> {
    const path = '/apis/events.k8s.io/v1/namespaces/default/events?limit=5000';
    const { items } = (await this.controlPlane.admin(path)).body as {
      items: readonly { regarding: { name: string }; reason: string; note: string }[];
    };
    return items.flatMap(({ regarding: { name }, reason, note }) =>
      name.startsWith(prefix) ? [{ name, reason, note }] : [],
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const tool of this.#tools) await tool.stop();
    await this.controlPlane[Symbol.asyncDispose]();
    await rm(this.root, { recursive: true, force: true });
  }
}

/** Peak of the memory of a process, in MiB. */
export async function peakMiB(pid: number): Promise<number> {
  const peak = /VmHWM:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(peak) / 1024;
}
