// A worker, which holds no key of a CA: off past the end of its kubelet's certificate it comes back with nothing typed, by
// the key of that certificate and an approver on the control plane.
import { X509Certificate } from 'node:crypto';
import { readFile, readlink, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { dated } from '../support/certificates/dated.ts';
import { generationOn, holdAuthority } from '../support/node/authorities.ts';
import { eventually } from '../support/eventually.ts';
import { measureBoot, powerCycle, proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { authorities, type Dates, leaves, past, reissue, superAdmin } from '../support/node/leaves.ts';
import type { Node } from '../support/node/node.ts';
import { confirmClock } from '../support/node/renewals.ts';
import { programReference } from '../support/node/program-image.ts';

const pem = '/var/lib/kubelet/pki/kubelet-client-current.pem';
/** From the boot at which it is there, the machine runs the service. Earlier it would put back what a test publishes. */
const timer = '/var/lib/machine/timer';
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

describe('a worker of a kubeadm cluster', () => {
  let cluster: Cluster;
  let worker: Node;

  beforeAll(async () => {
    // Of what kube-controller-manager signs: short enough to wait for its end.
    cluster = await Cluster.create(inject('workshop'), { certificateValidity: '8760h', signingDuration: '2m' });
    await cluster.node.sh(confirmClock);
    worker = await cluster.joinWorker();
  });
  afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

  const controlPlanes = (): readonly Node[] => cluster.nodes.filter((node) => node !== worker);

  /** Its kubelet asks for the next one in the last third of these, so it has one at any time. */
  async function clientEnd(): Promise<number> {
    const copy = await worker.copyOut('/var/lib/kubelet/pki');
    try {
      const own = await readlink(join(copy, 'kubelet-client-current.pem'));
      const text = await readFile(join(copy, basename(own)), 'utf8');
      return new X509Certificate(
        /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/.exec(text)?.[0] ?? '',
      ).validToDate.getTime();
    } finally {
      await rm(dirname(copy), { recursive: true, force: true });
    }
  }

  /**
   * Off while its kubelet waits for no certificate. One that is issued to a key which the power takes would be the node's
   * newest, and by the former one nothing is approved.
   */
  async function offAtRest(): Promise<void> {
    await eventually(
      async () => {
        await worker.freeze();
        const { body } = await cluster.api('/apis/certificates.k8s.io/v1/certificatesigningrequests');
        const own = (body as Requests).items.filter(({ spec }) => spec.username === `system:node:${worker.name}`);
        if (own.every(({ status }) => status?.certificate !== undefined)) return;
        await worker.thaw();
        throw new Error(`the kubelet of ${worker.name} waits for a certificate`);
      },
      { everyMs: 1000 },
    );
    const off = worker.off();
    await delay(200);
    await worker.thaw().catch(() => undefined); // what has ended needs no thaw
    await off;
  }

  /**
   * Off past the real end of its certificate, and of the minute by which clocks may differ. Its last signs of life are put
   * ten minutes back, as long as it would have been off.
   */
  async function offPastExpiry(): Promise<void> {
    await offAtRest();
    await delay((await clientEnd()) + 65_000 - Date.now());
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
  async function approvals(since: number): Promise<readonly string[]> {
    const { body } = await cluster.api('/apis/certificates.k8s.io/v1/certificatesigningrequests');
    return (body as Requests).items
      .filter(({ spec, metadata }) => {
        const isWorkers = spec.username.endsWith(':kube-cert-recovery-worker');
        return isWorkers && Date.parse(metadata.creationTimestamp) >= since - 1000;
      })
      .flatMap(({ status }) => status?.conditions?.map(({ reason }) => reason) ?? []);
  }

  /** What kubeadm has published when the cluster was made: the CA with those dates. */
  async function publish({ notBefore, notAfter }: Dates): Promise<void> {
    const { node } = cluster;
    const pki = '/etc/kubernetes/pki';
    const ca = dated(await node.read(`${pki}/ca.crt`), await node.read(`${pki}/ca.key`), notBefore, notAfter);
    const path = '/api/v1/namespaces/kube-public/configmaps/cluster-info';
    const { kubeconfig } = ((await cluster.api(path)).body as { data: { kubeconfig: string } }).data;
    const data = `certificate-authority-data: ${Buffer.from(ca).toString('base64')}`;
    const former = kubeconfig.replace(/certificate-authority-data: \S+/, data);
    expect(former).not.toBe(kubeconfig);
    const body = { data: { kubeconfig: former } };
    expect((await cluster.api(path, { method: 'PATCH', body })).status).toBe(200);
  }

  it('is prepared by a command on the control plane, and the command that it prints', async () => {
    const { node } = cluster;
    await node.sh(`${programPath} init approver --image=${programReference}`);
    // Without systemd, which runs on the worker alone, this grants rights and installs no units.
    expect((await node.run(`${programPath} init host`)).output).toContain('Created Role');
    const said = await node.sh(`${programPath} init workers`);
    const [command] = said.split('\n').filter((line) => line.trim().startsWith(`${tool} init host`));
    expect(command, said).toBeDefined();
    await worker.sh(`bash -c '${(command ?? '').trim().replace(tool, programPath).replaceAll("'", '"')}'`);
    expect(await worker.sh('systemctl cat kubelet.service')).toContain(programPath);
    await worker.sh('systemd-analyze verify kubelet.service');
    await cluster.runPod(worker);
  });

  it('is Ready again after it was off past the end of its certificate, as fast as a healthy one', async () => {
    const healthy = await powerCycle(cluster, { node: worker });
    await offPastExpiry();
    const since = Date.now();
    await worker.on();
    const recovered = await measureBoot(cluster, worker, { since });
    await cluster.runPod(worker);
    const { output } = await worker.run('cat /etc/kubernetes/kubelet.conf; ls /etc/kubernetes');
    expect(output).not.toContain('bootstrap');
    expect(await approvals(since)).toEqual(['KubeCertRecovery']);
    expect(await worker.sh(`readlink ${pem}`)).toMatch(/kubelet-client-\d{4}(-\d\d){5}\.pem\n$/);
    console.log('container runtime up to Ready, in ms:', { healthy, recovered });
  }, 600_000);

  it('is Ready soon after the API answers, when the whole cluster was off', async () => {
    const { node } = cluster;
    await offPastExpiry();
    await node.off();
    // As with the units of `init host`: without them kube-controller-manager, who signs, waits for its Lease.
    await node.atBoot(`${confirmClock}; touch ${timer}`);
    await delay(5000); // a Lease that was renewed right before the boot is not known to be older
    const since = Date.now();
    await worker.on();
    await worker.runtimeReady();
    await node.on();
    const answers = await eventually(async () => {
      expect((await cluster.api('/readyz')).status).toBe(200);
      return Date.now();
    });
    const ready = await cluster.ready(worker, { since });
    await cluster.runPod(worker);
    console.log(`first answer of the API to worker Ready: ${ready - answers} ms`);
    expect(await approvals(since)).toEqual(['KubeCertRecovery']);
    const told = await node.read('/var/log/recovery-service.log');
    for (const name of ['kube-controller-manager', 'kube-scheduler'])
      expect(told).toMatch(new RegExp(`"lease":"${name}",.*"event":"lease.released"`));
    await node.sh(`rm ${timer}`);
  }, 600_000);

  it('is Ready with nothing typed after all CAs and all certificates of three control planes have expired while it was off', async () => {
    const { node } = cluster;
    await cluster.join();
    const late = await cluster.join();
    const now = Math.floor(Date.now() / 1000) * 1000;
    const dates = { notBefore: new Date(now - 3650 * 86_400_000), notAfter: new Date(now - 1_800_000) };
    await publish(dates);
    await offPastExpiry();
    await Promise.all(controlPlanes().map((each) => each.off()));
    for (const each of controlPlanes()) {
      await reissue(each, authorities, dates);
      await reissue(each, each === node ? [...leaves, superAdmin] : leaves, past(new Date(now)));
      await each.atBoot(`${confirmClock}; touch ${timer}`);
    }
    const ended = (await generationOn(node)).authorities.get('ca') ?? '';
    await holdAuthority(node, ended, { files: ['kube-cert-recovery/approver/ca.crt'] });
    await holdAuthority(worker, ended, { kubeconfigs: ['kubelet.conf'], files: ['pki/ca.crt'] });
    const since = Date.now();
    const early = controlPlanes().filter((each) => each !== late);
    await Promise.all([worker, ...early].map((each) => each.on()));
    for (const each of early) await cluster.ready(each, { since });
    const answers = Date.now();
    const ready = await cluster.ready(worker, { since, withinMs: 400_000 });
    console.log(`CAs expired: control planes Ready to worker Ready: ${ready - answers} ms`);
    expect(await approvals(since)).toContain('KubeCertRecovery');
    const lateSince = Date.now();
    await late.on();
    await cluster.ready(late, { since: lateSince });

    const all = await Promise.all(controlPlanes().map(async (each) => (await generationOn(each)).authorities));
    for (const one of all) expect(one).toEqual(all[0]);
    const ca = all[0]?.get('ca') ?? '';
    expect(ca).not.toBe(ended);
    expect(await worker.read('/etc/kubernetes/pki/ca.crt')).toBe(ca);
    const data = "sed -n 's/.*certificate-authority-data: //p' /etc/kubernetes/kubelet.conf | base64 -d";
    expect(await worker.sh(data)).toBe(ca);
    for (const each of controlPlanes()) await proveHealthy(cluster, each);
    await cluster.runPod(worker);
  }, 900_000);

  it('has nothing of ours after uninstall', async () => {
    const { node } = cluster;
    await worker.sh(`${programPath} uninstall host`);
    await node.sh(`${programPath} uninstall approver`);
    console.log(await node.sh(`${programPath} uninstall`));
    const left = await worker.sh(
      'find /etc /var/lib/kubelet -name "*kube-cert-recovery*" -not -path "/etc/kubernetes/kube-cert-recovery"',
    );
    expect(left).toBe('');
  });
});
