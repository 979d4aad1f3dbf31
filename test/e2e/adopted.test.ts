// The form in which the program is used: containers in the static pods of a control plane whose certificates are objects
// in the API. A kubeadm machine is adopted; its certificates expire while it is off; switched on, it comes back with
// nothing typed.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import {
  adopt,
  endSoon,
  ends,
  networkFromDaemonSet,
  ownerRuns,
  recoveryDirectory,
  startOwner,
} from '../support/node/adopted.ts';
import { measureBoot, powerCycle } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { kubeletClient, past, reissue } from '../support/node/leaves.ts';
import { Handshakes, kubeletIssued, stepsOf, stepsText } from '../support/node/steps.ts';

/** What outlives everything else: recovery itself stands on it. */
const lasting = new Set([
  'localhost-recovery-serving-signer',
  'localhost-recovery-serving-ca',
  'localhost-recovery-serving',
]);
/** From the last write to the end of what was written: the syncers need a moment, the power a second to go. */
const inMs = 15_000;
const leaves = ['kube-apiserver-serving', 'kube-controller-manager-client', 'kube-scheduler-client'];

describe('one adopted control-plane machine', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.create(inject('workshop'));
    const { node } = cluster;
    await node.sh('touch /var/lib/machine/no-recovery');
    console.log(await adopt(node));
    await cluster.ready(node);
    await networkFromDaemonSet(cluster);
  });
  afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

  /** Every leaf in the API ends at the same moment, which is the answer; the machine has them on disk by then. */
  async function endLeaves(): Promise<number> {
    const end = Date.now() + inMs;
    await endSoon(cluster, { inMs, except: ({ name, kind }) => lasting.has(name) || kind !== 'target' });
    await eventually(
      async () => {
        const found = await ends(cluster.node);
        for (const name of leaves) expect(found.get(name)?.getTime()).toBeLessThan(end + 2000);
      },
      { withinMs: 10_000, everyMs: 300 },
    );
    return end;
  }

  it('takes every step of the recovery flow after its certificates have expired while it was off', async () => {
    const { node } = cluster;
    const end = await endLeaves();
    await node.off();
    await reissue(node, [kubeletClient], past(new Date()));
    await delay(end + 3000 - Date.now());
    const since = Date.now();
    const handshakes = new Handshakes(node);
    await node.on();
    // What the operators are in that flow; kube-controller-manager makes its Pod, the scheduler places it.
    await startOwner(cluster);
    const [boot, owner, issued] = await Promise.all([
      measureBoot(cluster, node, { since, withinMs: 120_000 }),
      ownerRuns(cluster),
      kubeletIssued(cluster, { since, withinMs: 120_000 }),
    ]);
    await handshakes.stop();
    const { created: podCreated, scheduled: podScheduled, running: podRunning } = owner;
    const seen = { cluster, node, since, handshakes, issued, podCreated, podScheduled, podRunning, ready: boot.ready };
    const steps = await stepsOf(seen);
    console.log(`${stepsText(steps)}\ncontainer runtime up to Ready: ${boot.runtimeToReady} ms`);
    expect(steps.filter(({ ms }) => ms === undefined)).toEqual([]);
    await cluster.runPod();
  });

  it('comes up as ever when nothing has expired', async () => {
    const healthy = await powerCycle(cluster);
    await cluster.runPod();
    console.log(`healthy: container runtime up to Ready: ${healthy.runtimeToReady} ms`);
  });

  it('comes back after its certificates have expired while all its processes stood still', async () => {
    const { node } = cluster;
    const end = await endLeaves();
    await node.freeze();
    await delay(end + 3000 - Date.now());
    const since = Date.now();
    await node.thaw();
    await eventually(
      async () => {
        const found = await ends(node);
        for (const name of leaves) expect(found.get(name)?.getTime()).toBeGreaterThan(Date.now());
      },
      { withinMs: 60_000, everyMs: 300 },
    );
    await cluster.runPod();
    console.log(`thawed to a new Pod: ${Date.now() - since} ms`);
  });

  it('has left no key and no token in any log', async () => {
    const { node } = cluster;
    await node.sh(`for file in ${recoveryDirectory}/*/credentials/*/token; do cat "$file"; echo; done > /tmp/secrets
      sed -n 's/.*token: *//p' /etc/kubernetes/bootstrap-kubelet.conf >> /tmp/secrets; echo 'PRIVATE KEY' >> /tmp/secrets`);
    expect((await node.read('/tmp/secrets')).trim().split('\n').length).toBeGreaterThanOrEqual(7);
    const leaks = async (): Promise<string> => (await node.sh('grep -rlFf /tmp/secrets /var/log/ || true')).trim();
    expect(await leaks()).toBe('');
    // The search finds what is there.
    await node.sh('tail -n 2 /tmp/secrets | head -n 1 > /var/log/planted.log');
    expect(await leaks()).toBe('/var/log/planted.log');
    await node.sh('rm /tmp/secrets /var/log/planted.log');
  });

  it('is put right by the same command after kubeadm has written a manifest anew', async () => {
    const { node } = cluster;
    const manifest = '/etc/kubernetes/manifests/kube-scheduler.yaml';
    await node.sh('kubeadm init phase control-plane scheduler --config /var/lib/machine/kubeadm.yaml 2>&1');
    expect(await node.read(manifest)).not.toContain('kube-cert-recovery');
    // What takes the place of admin.conf has the same rights, and knows the API server.
    const told = await adopt(node, `--kubeconfig=${recoveryDirectory}/kube-apiserver/kubeconfigs/admin.kubeconfig`);
    expect(told).toContain('Static pod kube-scheduler: changed, and runs');
    expect(told).toContain('Static pod kube-apiserver: runs, as it should be');
    expect(told).not.toMatch(/Created|Updated/);
    expect(await node.read(manifest)).toContain('name: kube-cert-recovery');
  });

  it("is given back to kubeadm's files", async () => {
    const { node } = cluster;
    await node.sh(`${programPath} uninstall adopt 2>&1`, { seconds: 300 });
    expect(await node.sh('grep -l kube-cert-recovery /etc/kubernetes/manifests/* || true')).toBe('');
    expect(await node.sh(`ls ${recoveryDirectory} /etc/kubernetes/bootstrap-kubelet.conf 2>/dev/null || true`)).toBe(
      '',
    );
    await cluster.runPod();
    // Nothing that is gone is still needed.
    await powerCycle(cluster);
    await cluster.runPod();
  });
});
