// A worker, which holds no key of a CA: off past the end of its kubelet's certificate it comes back with nothing typed, by
// the key of that certificate and an approver on the control plane.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { measureBoot, powerCycle } from '../support/node/boot.ts';
import { programPath } from '../support/node/container.ts';
import { WorkerLife } from '../support/node/worker-life.ts';

const pem = '/var/lib/kubelet/pki/kubelet-client-current.pem';

describe('a worker of a kubeadm cluster', () => {
  let life: WorkerLife;

  beforeAll(async () => {
    life = await WorkerLife.begin(inject('workshop'));
  });
  afterAll(() => (life as WorkerLife | undefined)?.[Symbol.asyncDispose]());

  it('is prepared by a command on the control plane, and the command that it prints', async () => {
    const { cluster, worker } = life;
    await life.prepare();
    expect(await worker.sh('systemctl cat kubelet.service')).toContain(programPath);
    await worker.sh('systemd-analyze verify kubelet.service');
    await cluster.runPod(worker);
  });

  it('is Ready again after it was off past the end of its certificate, as fast as a healthy one', async () => {
    const { cluster, worker } = life;
    const healthy = await powerCycle(cluster, { node: worker });
    await life.offPastExpiry();
    const since = Date.now();
    await worker.on();
    const recovered = await measureBoot(cluster, worker, { since });
    await cluster.runPod(worker);
    const { output } = await worker.run('cat /etc/kubernetes/kubelet.conf; ls /etc/kubernetes');
    expect(output).not.toContain('bootstrap');
    expect(await life.approvals(since)).toEqual(['KubeCertRecovery']);
    expect(await worker.sh(`readlink ${pem}`)).toMatch(/kubelet-client-\d{4}(-\d\d){5}\.pem\n$/);
    console.log('container runtime up to Ready, in ms:', { healthy, recovered });
  });

  it('has nothing of ours after uninstall', async () => {
    const { cluster, worker } = life;
    const { node } = cluster;
    await worker.sh(`${programPath} uninstall host`);
    await node.sh(`${programPath} uninstall approver`);
    console.log(await node.sh(`${programPath} uninstall --force`));
    const left = await worker.sh(
      'find /etc /var/lib/kubelet -name "*kube-cert-recovery*" -not -path "/etc/kubernetes/kube-cert-recovery"',
    );
    expect(left).toBe('');
  });
});
