// A worker, which holds no key of a CA: off past the end of its kubelet's certificate it comes back with nothing typed, by
// the key of that certificate and an approver on the control plane.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { powerCycle } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { kubeletClient, past, reissue } from '../support/node/leaves.ts';
import type { Node } from '../support/node/node.ts';
import { programReference } from '../support/node/program-image.ts';

const requests = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const pem = '/var/lib/kubelet/pki/kubelet-client-current.pem';
const tool = 'kube-cert-recovery';

interface Requests {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly creationTimestamp: string };
    readonly spec: { readonly username: string };
    readonly status?: { readonly conditions?: readonly { readonly type: string }[]; readonly certificate?: string };
  }[];
}

describe('a worker of a kubeadm cluster', () => {
  let cluster: Cluster;
  let worker: Node;

  beforeAll(async () => {
    cluster = await Cluster.create(inject('workshop'));
    worker = await cluster.joinWorker();
  });
  afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

  const expired = async (node: Node): Promise<void> =>
    reissue(node, [kubeletClient], past(new Date()), { authority: cluster.node });

  async function workerRequests(since = 0): Promise<Requests['items']> {
    const { body } = await cluster.api(requests);
    return (body as Requests).items.filter(
      ({ spec, metadata }) =>
        spec.username.endsWith(':kube-cert-recovery-worker') && Date.parse(metadata.creationTimestamp) >= since - 1000,
    );
  }

  it('is prepared by a command on the control plane, and the command that it prints', async () => {
    const { node } = cluster;
    await node.sh(`${programPath} init approver --image=${programReference}`);
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
    const recovered = await powerCycle(cluster, { node: worker, whileOff: expired });
    await cluster.runPod(worker);
    expect(await worker.sh(`openssl x509 -in ${pem} -noout -checkend 3600`)).toContain('will not expire');
    expect(await worker.sh(`readlink ${pem}`)).toMatch(/kubelet-client-\d{4}(-\d\d){5}\.pem\n$/);
    console.log('container runtime up to Ready, in ms:', { healthy, recovered });
  });

  it('is Ready when the whole cluster was off, from the moment the API answers', async () => {
    await worker.off();
    await expired(worker);
    await cluster.node.off();
    const since = Date.now();
    await worker.on();
    await worker.runtimeReady();
    await cluster.node.on();
    await cluster.ready(cluster.node, { since });
    const answers = Date.now();
    const ready = await cluster.ready(worker, { since });
    await cluster.runPod(worker);
    console.log(`control plane Ready to worker Ready: ${ready - answers} ms`);
  });

  it.each<[string, string, (node: Node) => Promise<unknown>]>([
    [
      'whose key was replaced',
      'KeyDiffers',
      async (node) => {
        await expired(node);
        await node.atBoot(
          `openssl x509 -in ${pem} > /tmp/c; openssl genpkey -algorithm ec -pkeyopt ec_paramgen_curve:P-256 > /tmp/k; cat /tmp/c /tmp/k > ${pem}`,
        );
      },
    ],
    [
      'whose Node was deleted',
      'NodeUnknown',
      async (node) => {
        await expired(node);
        await cluster.api(`/api/v1/nodes/${node.name}`, { method: 'DELETE' });
      },
    ],
  ])('stays out: one %s, with the reason %s', async (_what, _reason, damage) => {
    await worker.off();
    await damage(worker);
    const since = Date.now();
    await worker.on();
    await eventually(async () => {
      const [found] = await workerRequests(since);
      expect(found).toBeDefined();
      expect(found?.status?.conditions ?? []).toEqual([]);
    });
  });

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
