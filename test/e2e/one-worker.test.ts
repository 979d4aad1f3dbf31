// A worker, which holds no key of a CA: off past the end of its kubelet's certificate it comes back with nothing typed, by
// the key of that certificate and an approver on the control plane; also where the CA that signs for kubelets was exchanged
// for one with another key meanwhile. That CA is not the one of the cluster here, so that it can end.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { dated } from '../support/certificates/dated.ts';
import { eventually } from '../support/eventually.ts';
import { measureBoot, powerCycle } from '../support/node/boot.ts';
import { copiedProgram, programPlaces } from '../../lib/install/program-copy.ts';
import { programPath } from '../support/node/container.ts';
import { bundlesPath, clientOf, kubeletAnswer, makeAuthority } from '../support/node/kubelet-clients.ts';
import type { Node } from '../support/node/node.ts';
import { WorkerLife } from '../support/node/worker-life.ts';

const pem = '/var/lib/kubelet/pki/kubelet-client-current.pem';
const pki = '/etc/kubernetes/pki';
const machine = '/var/lib/machine';
/** CAs of the API server's clients, and who signs for kubelets. */
const [clients, signer] = [`${pki}/clients.crt`, `${pki}/kubelet-signer`];

const signersOfTheirOwn = {
  apiServer: { extraArgs: [{ name: 'client-ca-file', value: clients }] },
  controllerManager: {
    extraArgs: [
      { name: 'cluster-signing-duration', value: '2m' },
      { name: 'cluster-signing-cert-file', value: '' },
      { name: 'cluster-signing-key-file', value: '' },
      { name: 'cluster-signing-kubelet-client-cert-file', value: `${signer}.crt` },
      { name: 'cluster-signing-kubelet-client-key-file', value: `${signer}.key` },
    ],
  },
};

/** From then on the API server trusts these clients, beside those of the CA of the cluster. */
const trustClients = (node: Node, ...cas: readonly string[]): Promise<string> =>
  node.sh(`(cat ${pki}/ca.crt; printf '%s' '${cas.join('')}') > ${clients}.new && mv ${clients}.new ${clients}`);

const signBy = (node: Node, name: string): Promise<string> =>
  node.sh(`for end in key crt; do cp ${machine}/${name}.$end ${signer}.$end.new; done
    mv ${signer}.key.new ${signer}.key && mv ${signer}.crt.new ${signer}.crt`);

describe('a worker of a kubeadm cluster', () => {
  let life: WorkerLife;

  /** Of the CA that signs first. */
  let former: string;

  beforeAll(async () => {
    life = await WorkerLife.begin(inject('workshop'), {
      more: signersOfTheirOwn,
      async before(node) {
        await node.sh('kubeadm init phase certs ca');
        former = await makeAuthority(node, 'former');
        await trustClients(node, former);
        await signBy(node, 'former');
      },
    });
  });
  afterAll(() => (life as WorkerLife | undefined)?.[Symbol.asyncDispose]());

  it('is prepared by a command on the control plane, and the command that it prints', async () => {
    const { cluster, worker } = life;
    // A young cluster has not published its CA yet.
    const made = await eventually(() => cluster.node.sh(`${programPath} init node-ca`));
    expect(made).toContain('kube-cert-recovery-node-ca-kubelets');
    await life.prepare();
    expect(await worker.sh('systemctl cat kubelet.service')).toContain(copiedProgram(programPlaces));
    await worker.sh('systemd-analyze verify kubelet.service');
    await cluster.runPod(worker);
  });

  const timer = async (): Promise<void> => void (await life.worker.sh('systemctl start kube-cert-recovery.service'));
  const publish = async (cas: string): Promise<void> => {
    const body = { data: { 'client-ca.crt': cas } };
    expect((await life.cluster.api(bundlesPath, { method: 'PATCH', body })).status).toBe(200);
  };

  it('has the CAs of the ConfigMap by its timer', async () => {
    const { cluster, worker } = life;
    await timer();
    expect(await worker.read(`${pki}/ca.crt`)).toContain(former);
    const fleet = `${programPath} status --fleet --kubeconfig=/etc/kubernetes/admin.conf`;
    const { output } = await cluster.node.run(fleet);
    expect(output).toMatch(new RegExp(`^${worker.name} +current `, 'm'));
  });

  it('is Ready again after it was off past the end of its certificate, while the CA of kubelets was exchanged, as fast as a healthy one', async () => {
    const { cluster, worker } = life;
    const { node } = cluster;
    const healthy = await powerCycle(cluster, { node: worker });
    expect(await worker.sh(`openssl x509 -noout -issuer -in ${pem}`)).toContain('former');
    const own = await node.read(`${pki}/ca.crt`);
    const next = await makeAuthority(node, 'next');
    let ended = '';
    await life.offPastExpiry(async (clientEnd) => {
      // Trusted everywhere first; the former one stays where it is trusted, and ends.
      await publish(own + former + next);
      const key = await node.read(`${machine}/former.key`);
      ended = dated(former, key, new Date(Date.now() - 86_400_000), new Date(clientEnd.getTime() + 30_000));
      await trustClients(node, ended, next);
      await signBy(node, 'next');
      await publish(own + next);
    });
    const since = Date.now();
    await worker.on();
    const recovered = await measureBoot(cluster, worker, { since });
    await cluster.runPod(worker);
    const { output } = await worker.run('cat /etc/kubernetes/kubelet.conf; ls /etc/kubernetes');
    expect(output).not.toContain('bootstrap');
    expect(await life.approvals(since)).toEqual(['KubeCertRecovery']);
    expect(await worker.sh(`readlink ${pem}`)).toMatch(/kubelet-client-\d{4}(-\d\d){5}\.pem\n$/);
    expect(await worker.sh(`openssl x509 -noout -issuer -in ${pem}`)).toContain('next');
    console.log('container runtime up to Ready, in ms:', { healthy, recovered });
    const client = await clientOf(node, 'next');
    await timer();
    expect(await worker.read(`${pki}/ca.crt`)).toContain(next);
    await eventually(async () => expect(await kubeletAnswer(worker, client)).toContain(' 403 '));
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
