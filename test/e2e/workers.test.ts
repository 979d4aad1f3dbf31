// A worker that was off past the end of its kubelet's certificate together with its whole cluster: that of one control plane,
// and of three whose CAs have expired as well.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { dated } from '../support/certificates/dated.ts';
import { generationOn, holdAuthority } from '../support/node/authorities.ts';
import { eventually } from '../support/eventually.ts';
import { proveHealthy } from '../support/node/boot.ts';
import { authorities, type Dates, leaves, past, reissue, superAdmin } from '../support/node/leaves.ts';
import type { Node } from '../support/node/node.ts';
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
    const data = "sed -n 's/.*certificate-authority-data: //p' /etc/kubernetes/kubelet.conf | base64 -d";
    expect(await worker.sh(data)).toBe(ca);
    for (const each of controlPlanes()) await proveHealthy(cluster, each);
    await cluster.runPod(worker);
  });
});
