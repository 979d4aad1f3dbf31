// The files of a worker that `kubeadm join` made, and runs of the program for them.
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createLeaf } from '../certificates/certificates.ts';
import { kubeconfigOf } from '../certificates/kubeconfig.ts';
import type { ControlPlane } from './control-plane.ts';
import { type Line, Tool } from './recovery-world.ts';

const day = 86_400_000;

export interface WorkerFiles {
  /** Each worker has a directory of its name in it. */
  readonly root: string;
  readonly name: string;
  /** Of the kubelet's client certificate. */
  readonly notAfter: Date;
  readonly controlPlane: ControlPlane;
  readonly token: string;
  /** Default: the control plane's. */
  readonly server?: string;
  /** The CA that it holds, in kubelet.conf and as the CA of the kubelet's clients. Default: in kubelet.conf that of localhost-recovery. */
  readonly authority?: string;
}

export class Worker {
  readonly root: string;
  readonly name: string;
  readonly tools: Tool[] = [];
  static readonly #all: Worker[] = [];

  private constructor({ root, name }: WorkerFiles) {
    this.name = name;
    this.root = join(root, name);
    Worker.#all.push(this);
  }

  static async create(files: WorkerFiles): Promise<Worker> {
    const { name, notAfter, controlPlane, token, server = controlPlane.url, authority } = files;
    const worker = new Worker(files);
    await mkdir(join(worker.root, 'pki'), { recursive: true });
    await mkdir(join(worker.root, 'etc/pki'), { recursive: true });
    const names = { commonName: `system:node:${name}`, organization: 'system:nodes' };
    const dates = { notBefore: new Date(notAfter.getTime() - day), notAfter };
    const { cert, key } = await createLeaf(join(worker.root, 'leaf'), controlPlane.pki.clusterCa, {
      ...names,
      ...dates,
    });
    const dated = join(worker.root, 'pki/kubelet-client-2026-01-01-00-00-00.pem');
    await writeFile(dated, (await readFile(cert, 'utf8')) + (await readFile(key, 'utf8')), { mode: 0o600 });
    await symlink(dated, worker.link);
    await writeFile(join(worker.root, 'token'), token, { mode: 0o600 });
    const ca = authority ?? (await readFile(controlPlane.recoveryCa, 'utf8'));
    const cluster = {
      server,
      'certificate-authority-data': Buffer.from(ca).toString('base64'),
      ...(authority === undefined && { 'tls-server-name': 'localhost-recovery' }),
    };
    const user = { 'client-certificate': worker.link, 'client-key': worker.link };
    await writeFile(worker.conf, kubeconfigOf(cluster, user), { mode: 0o600 });
    if (authority !== undefined) await writeFile(worker.clientAuthority, authority, { mode: 0o644 });
    await writeFile(
      join(worker.root, 'recovery.yaml'),
      'apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n' +
        `directories: { kubernetesDir: ${worker.root}/etc, kubeletDir: ${worker.root} }\n` +
        `regen: { backupDir: ${worker.root}/backups, lockDir: ${worker.root}/lock }\n`,
    );
    return worker;
  }

  /** A configuration of preset node-ca for its files. `regen`: further settings of that section. */
  async nodeCaConfig({ recoveryKubeconfig }: ControlPlane, regen = ''): Promise<string> {
    const path = join(this.root, 'node-ca.yaml');
    await writeFile(
      path,
      `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: node-ca
kubeconfig: ${recoveryKubeconfig}
directories: { kubernetesDir: ${this.root}/etc, kubeletDir: ${this.root} }
regen: { backupDir: ${this.root}/backups, lockDir: ${this.root}/lock, clockSynchronised: true${regen} }
`,
    );
    return path;
  }

  static async stopAll(): Promise<void> {
    for (const { tools } of Worker.#all) for (const tool of tools) await tool.stop('SIGKILL');
  }

  get link(): string {
    return join(this.root, 'pki/kubelet-client-current.pem');
  }

  get conf(): string {
    return join(this.root, 'etc/kubelet.conf');
  }

  /** Where kubeadm puts it. */
  get clientAuthority(): string {
    return join(this.root, 'etc/pki/ca.crt');
  }

  get flags(): readonly string[] {
    return [`--config=${this.root}/recovery.yaml`, `--worker-token-file=${this.root}/token`];
  }

  start(...args: readonly string[]): Tool {
    const tool = new Tool(['renew-worker', ...this.flags, ...args]);
    this.tools.push(tool);
    return tool;
  }

  pem(): Promise<string> {
    return readFile(this.link, 'utf8');
  }

  /** The CA in kubelet.conf. */
  async trust(): Promise<string> {
    const [, data = ''] = /"?certificate-authority-data"?:\s*"?([^"\s]+)/.exec(await readFile(this.conf, 'utf8')) ?? [];
    return Buffer.from(data, 'base64').toString();
  }

  /** What its runs did and met, without what every run of regen says of its plan. */
  get deeds(): readonly string[] {
    return this.lines
      .map(({ event }) => event)
      .filter((event) => !/^(?:regen|rotation|recovery|process)\./.test(event));
  }

  /** What it says to the end. */
  get lines(): readonly Line[] {
    return this.tools.flatMap(({ lines }) => lines);
  }
}
