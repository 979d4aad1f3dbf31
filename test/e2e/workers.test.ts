// A worker that was off past the end of its kubelet's certificate together with its whole cluster: that of one control plane,
// and of three whose CAs have expired as well.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { dated } from '../support/certificates/dated.ts';
import { generationOn, holdAuthority } from '../support/node/authorities.ts';
import { eventually } from '../support/eventually.ts';
import { proveHealthy } from '../support/node/boot.ts';
import { authorities, type Dates, leaves, past, reissue, superAdmin } from '../support/node/leaves.ts';
import { programPath } from '../support/node/container.ts';
import { containerLog } from '../support/node/container-log.ts';
import { bundlesPath, clientOf, kubeletAnswer, makeAuthority } from '../support/node/kubelet-clients.ts';
import type { Node } from '../support/node/node.ts';
import { programReference } from '../support/node/program-image.ts';
import { confirmClock } from '../support/node/renewals.ts';
import { WorkerLife } from '../support/node/worker-life.ts';

/** From the boot at which it is there, the machine runs the service. Earlier it would put back what a test publishes. */
const timer = '/var/lib/machine/timer';

/**
 * From the boot that runs this on, kube-controller-manager signs for a year: a kubelet that a slow machine keeps from its
 * next certificate for some seconds stays NotReady with one of two minutes.
 */
const signForLong =
  "sed -i 's/cluster-signing-duration=2m/cluster-signing-duration=8760h/' /etc/kubernetes/manifests/kube-controller-manager.yaml";

describe('a worker whose cluster was off as well', () => {
  let life: WorkerLife;

  beforeAll(async () => {
    life = await WorkerLife.begin(inject('workshop'));
    await life.prepare();
  });
  afterAll(() => (life as WorkerLife | undefined)?.[Symbol.asyncDispose]());

  const controlPlanes = (): readonly Node[] => life.cluster.nodes.filter((node) => node !== life.worker);

  /** What kubeadm has published when the cluster was made: the CA with those dates. */
  async function publish({ notBefore, notAfter }: Dates): Promise<void> {
    const { cluster } = life;
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

  it('is Ready soon after the API answers, when the whole cluster was off', async () => {
    const { cluster, worker } = life;
    const { node } = cluster;
    await life.offPastExpiry();
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
    expect(await life.approvals(since)).toEqual(['KubeCertRecovery']);
    const told = await node.read('/var/log/recovery-service.log');
    for (const name of ['kube-controller-manager', 'kube-scheduler'])
      expect(told).toMatch(new RegExp(`"lease":"${name}",.*"event":"lease.released"`));
    await node.sh(`rm ${timer}`);
  });

  it('is Ready with nothing typed after all CAs and all certificates of three control planes have expired while it was off', async () => {
    const { cluster, worker } = life;
    const { node } = cluster;
    await cluster.join();
    const late = await cluster.join();
    const now = Math.floor(Date.now() / 1000) * 1000;
    const dates = { notBefore: new Date(now - 3650 * 86_400_000), notAfter: new Date(now - 1_800_000) };
    await publish(dates);
    await life.offPastExpiry();
    await Promise.all(controlPlanes().map((each) => each.off()));
    for (const each of controlPlanes()) {
      await reissue(each, authorities, dates);
      await reissue(each, each === node ? [...leaves, superAdmin] : leaves, past(new Date(now)));
      await each.atBoot(`${confirmClock}; touch ${timer}; ${signForLong}`);
    }
    const ended = (await generationOn(node)).authorities.get('ca') ?? '';
    await holdAuthority(node, ended, { files: ['kube-cert-recovery/approver/ca.crt'] });
    await holdAuthority(worker, ended, { kubeconfigs: ['kubelet.conf'], files: ['pki/ca.crt'] });
    const since = Date.now();
    const early = controlPlanes().filter((each) => each !== late);
    await Promise.all([worker, ...early].map((each) => each.on()));
    for (const each of early) await cluster.ready(each, { since });
    const answers = Date.now();
    const ready = await cluster.ready(worker, { since });
    console.log(`CAs expired: control planes Ready to worker Ready: ${ready - answers} ms`);
    expect(await life.approvals(since)).toContain('KubeCertRecovery');
    const lateSince = Date.now();
    await late.on();
    await cluster.ready(late, { since: lateSince });

    const all = await Promise.all(controlPlanes().map(async (each) => (await generationOn(each)).authorities));
    for (const one of all) expect(one).toEqual(all[0]);
    const ca = all[0]?.get('ca') ?? '';
    expect(ca).not.toBe(ended);
    expect(await worker.read('/etc/kubernetes/pki/ca.crt')).toBe(ca);
    expect(await trustOf(worker, 'kubelet.conf')).toBe(ca);
    for (const each of controlPlanes()) await proveHealthy(cluster, each);
    await cluster.runPod(worker);
  });

  /** The CAs in a kubeconfig. */
  const trustOf = (each: Node, conf: string): Promise<string> =>
    each.sh(`sed -n 's/.*certificate-authority-data: //p' /etc/kubernetes/${conf} | base64 -d`);

  it('has the CAs that a ConfigMap gains on every node, whose kubelets take clients of them, and keeps them', async () => {
    const { cluster, worker } = life;
    const { node } = cluster;
    const nodes = [worker, ...controlPlanes()];
    // kube-controller-manager signs with pki/ca.crt, and takes one certificate in it alone.
    const clients = (each: Node): string => `/etc/kubernetes/${each === worker ? 'pki/ca' : 'kubelet-clients'}.crt`;
    for (const each of controlPlanes()) {
      await each.sh(
        `cp /etc/kubernetes/pki/ca.crt ${clients(each)}
        sed -i 's,clientCAFile: .*,clientCAFile: ${clients(each)},' /var/lib/kubelet/config.yaml
        pkill -x kubelet`,
      );
      await cluster.ready(each, { since: Date.now() });
    }
    const next = await makeAuthority(node, 'next');
    const client = await clientOf(node, 'next');
    await node.sh(`${programPath} init node-ca --image=${programReference}`);
    const path = bundlesPath;
    const patch = async (data: object) =>
      expect((await cluster.api(path, { method: 'PATCH', body: { data } })).status).toBe(200);
    const workload = '/apis/apps/v1/namespaces/kube-cert-recovery/daemonsets/kube-cert-recovery-node-ca';
    await eventually(
      async () => {
        const { status } = (await cluster.api(workload)).body as { status: { numberReady?: number } };
        expect(status.numberReady).toBe(nodes.length);
      },
      { withinMs: 300_000, everyMs: 500 },
    );
    const { data } = (await cluster.api(path)).body as { data: Record<string, string> };
    const own = data['client-ca.crt'] ?? '';
    const pids = await Promise.all(nodes.map((each) => each.sh('pgrep -x kubelet')));
    const answer = (each: Node): Promise<string> => kubeletAnswer(each, client);
    for (const each of nodes) expect(await answer(each)).toContain(' 401 ');
    await patch({ 'client-ca.crt': own + next });
    const since = Date.now();
    for (const each of nodes) await eventually(async () => expect(await each.read(clients(each))).toContain(next));
    console.log(`a CA in the ConfigMap to the last of ${nodes.length} nodes: ${Date.now() - since} ms`);
    for (const each of nodes) await eventually(async () => expect(await answer(each)).toContain(' 403 '));
    expect(await Promise.all(nodes.map((each) => each.sh('pgrep -x kubelet')))).toEqual(pids);
    const fleet = `${programPath} status --fleet --kubeconfig=/etc/kubernetes/admin.conf`;
    await eventually(async () =>
      expect(await node.sh(`${fleet} || true`)).toContain(`Nodes: ${nodes.length} current.`),
    );

    // What is read at the start only is restarted, once.
    const server = data['server-ca.crt'] ?? '';
    const manager = await node.sh('pgrep -ox kube-controller');
    const later = Date.now();
    await patch({ 'server-ca.crt': server + next });
    for (const each of nodes) {
      await eventually(async () => expect(await trustOf(each, 'kubelet.conf')).toContain(next));
      await eventually(async () => expect(await each.sh('pgrep -x kubelet')).not.toBe(pids[nodes.indexOf(each)]));
      await cluster.ready(each, { since: later });
    }
    for (const conf of ['controller-manager.conf', 'scheduler.conf', 'admin.conf', 'super-admin.conf'])
      expect(await trustOf(node, conf), conf).toContain(next);
    await eventually(async () => expect(await node.sh('pgrep -ox kube-controller')).not.toBe(manager));
    const lines = await containerLog(worker, 'kube-cert-recovery_kube-cert-recovery-node-ca-*/*/*.log', 0);
    const restarted = lines.filter(({ event }) => event === 'restart.done');
    expect(restarted).toMatchObject([{ component: 'kubelet', message: expect.stringMatching(/^SIGTERM/) }]);

    const before = await Promise.all(nodes.map((each) => each.read(clients(each))));
    await patch({ 'client-ca.crt': '', 'server-ca.crt': 'garbage' });
    const events = '/apis/events.k8s.io/v1/namespaces/kube-cert-recovery/events';
    await eventually(
      async () => {
        const { items } = (await cluster.api(events)).body as {
          items: readonly { type: string; reportingInstance: string; regarding: { name: string } }[];
        };
        const told = items.filter(({ type, regarding }) => type === 'Warning' && regarding.name === 'node-ca');
        expect(new Set(told.map((one) => one.reportingInstance)).size).toBe(nodes.length);
      },
      { withinMs: 120_000, everyMs: 500 },
    );
    expect(await Promise.all(nodes.map((each) => each.read(clients(each))))).toEqual(before);
    await patch(data);
    for (const each of nodes) expect(await each.read(clients(each))).toContain(next);
    expect(await node.sh(`${programPath} uninstall node-ca`)).toContain('DaemonSet');
    expect(await Promise.all(nodes.map((each) => each.read(clients(each))))).toEqual(before);
  });
});
