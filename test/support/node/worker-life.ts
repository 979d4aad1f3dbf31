// A cluster of one control plane and one worker, the life of the certificate of the worker's kubelet, and what is approved
// for it.
import { X509Certificate } from 'node:crypto';
import { readFile, readlink, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { eventually } from '../eventually.ts';
import { Cluster, type CreateOptions } from './cluster.ts';
import { programPath } from './container.ts';
import type { Node } from './node.ts';
import { programReference } from './program-image.ts';
import { confirmClock } from './renewals.ts';
import type { Workshop } from './workshop.ts';

const tool = 'kube-cert-recovery';

interface Requests {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly creationTimestamp: string };
    readonly spec: { readonly username: string };
    readonly status?: {
      readonly certificate?: string;
      readonly conditions?: readonly { readonly reason: string }[];
    };
  }[];
}

export class WorkerLife implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly worker: Node;

  private constructor(cluster: Cluster, worker: Node) {
    this.cluster = cluster;
    this.worker = worker;
  }

  static async begin(workshop: Workshop, more: CreateOptions = {}): Promise<WorkerLife> {
    // Of what kube-controller-manager signs: short enough to wait for its end.
    const cluster = await Cluster.create(workshop, { certificateValidity: '8760h', signingDuration: '2m', ...more });
    try {
      await cluster.node.sh(confirmClock);
      return new WorkerLife(cluster, await cluster.joinWorker());
    } catch (err) {
      await cluster[Symbol.asyncDispose]();
      throw err;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]();
  }

  /** An approver, and the command that the control plane prints, run on the worker. */
  async prepare(): Promise<void> {
    const { cluster, worker } = this;
    const { node } = cluster;
    await node.sh(`${programPath} init approver --image=${programReference}`);
    // Without systemd, which runs on the worker alone, this grants rights and installs no units.
    expect((await node.run(`${programPath} init host`)).output).toContain('Created Role');
    const said = await node.sh(`${programPath} init workers`);
    const [command] = said.split('\n').filter((line) => line.trim().startsWith(`${tool} init host`));
    expect(command, said).toBeDefined();
    await worker.sh(`bash -c '${(command ?? '').trim().replace(tool, programPath).replaceAll("'", '"')}'`);
  }

  /** The certificate of its kubelet, as it lies on its disk. */
  async #clientCertificate(): Promise<X509Certificate> {
    const copy = await this.worker.copyOut('/var/lib/kubelet/pki');
    try {
      const own = await readlink(join(copy, 'kubelet-client-current.pem'));
      const text = await readFile(join(copy, basename(own)), 'utf8');
      return new X509Certificate(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/.exec(text)?.[0] ?? '');
    } finally {
      await rm(dirname(copy), { recursive: true, force: true });
    }
  }

  /**
   * Off while its kubelet waits for no certificate, and has on disk what was issued. One that is issued to a key which the
   * power takes would be the node's newest, and by the former one nothing is approved. Returns the certificate on disk: its
   * kubelet asks for the next one in the last third of these, so it has one at any time.
   */
  async #offAtRest(): Promise<X509Certificate> {
    const { cluster, worker } = this;
    const onDisk = await eventually(
      async () => {
        await worker.freeze();
        const found = await this.#clientCertificate();
        // Read after the disk, so that a request on its way at that moment has arrived.
        const { body } = await cluster.api('/apis/certificates.k8s.io/v1/certificatesigningrequests');
        const own = (body as Requests).items.filter(({ spec }) => spec.username === `system:node:${worker.name}`);
        const isStored = own.every(({ status }) => {
          if (status?.certificate === undefined) return false;
          return new X509Certificate(Buffer.from(status.certificate, 'base64')).validToDate <= found.validToDate;
        });
        if (isStored) return found;
        await worker.thaw();
        throw new Error(`the kubelet of ${worker.name} waits for a certificate`);
      },
      { everyMs: 1000 },
    );
    const off = worker.off();
    await delay(200);
    await worker.thaw().catch(() => undefined); // what has ended needs no thaw
    await off;
    return onDisk;
  }

  /**
   * Off past the real end of its certificate, and of the minute by which clocks may differ. Its last signs of life are put
   * ten minutes back, as long as it would have been off. `meanwhile`: what happens to the cluster, which is on.
   */
  async offPastExpiry(meanwhile?: (clientEnd: Date) => Promise<void>): Promise<void> {
    const { cluster, worker } = this;
    const end = (await this.#offAtRest()).validToDate.getTime();
    await meanwhile?.(new Date(end));
    await delay(end + 65_000 - Date.now());
    const at = new Date(Date.now() - 600_000).toISOString();
    const lease = `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${worker.name}`;
    const renewTime = at.replace('Z', '000Z');
    expect((await cluster.api(lease, { method: 'PATCH', body: { spec: { renewTime } } })).status).toBe(200);
    const node = `/api/v1/nodes/${worker.name}/status`;
    const { body } = await cluster.api(node);
    const { conditions } = (body as { status: { conditions: object[] } }).status;
    const lastHeartbeatTime = at.replace(/\.\d+Z$/, 'Z');
    const earlier = conditions.map((condition) => ({ ...condition, lastHeartbeatTime }));
    const patch = { status: { conditions: earlier } };
    expect((await cluster.api(node, { method: 'PATCH', body: patch })).status).toBe(200);
  }

  /** Reasons of the approvals of what the worker has requested since then. */
  async approvals(since: number): Promise<readonly string[]> {
    const { body } = await this.cluster.api('/apis/certificates.k8s.io/v1/certificatesigningrequests');
    return (body as Requests).items
      .filter(({ spec, metadata }) => {
        const isWorkers = spec.username.endsWith(':kube-cert-recovery-worker');
        return isWorkers && Date.parse(metadata.creationTimestamp) >= since - 1000;
      })
      .flatMap(({ status }) => status?.conditions?.map(({ reason }) => reason) ?? []);
  }
}
